"""What the images are made from: apt's answer, pip's configuration, the kernel's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from devenv.host import kernel, pipconf, rootfs, venv
from devenv.host.apt import parse_index_targets
from devenv.host.errors import SandboxError
from devenv.host.paths import REPO
from devenv.host.store import content_key


def test_the_mirror_is_read_from_what_apt_says_and_other_archives_are_left_out() -> None:
    said = (
        "http://tools.example/apt/|Tools\n"
        "http://mirror.example/debian/|Debian\n"
        "http://mirror.example/debian/|Debian\n"
        "http://mirror.example/debian-security/|Debian-Security\n"
    )
    archive = parse_index_targets(said)
    assert archive.sources("trixie") == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian-security trixie-security main",
    ]


def test_the_suite_that_is_never_released_has_no_security_part() -> None:
    archive = parse_index_targets(
        "http://mirror.example/debian/|Debian\nhttp://mirror.example/debian-security/|Debian-Security\n"
    )
    assert archive.sources("sid") == ["deb http://mirror.example/debian sid main"]


def test_a_machine_without_a_security_archive_gets_the_main_one() -> None:
    archive = parse_index_targets("http://mirror.example/debian/|Debian\n")
    assert archive.sources("bookworm") == ["deb http://mirror.example/debian bookworm main"]


def test_a_machine_without_debians_archive_is_told_what_to_do() -> None:
    with pytest.raises(SandboxError) as caught:
        parse_index_targets("http://mirror.example/ubuntu/|Ubuntu\n")
    assert "sources.list" in caught.value.hint


def test_an_option_of_the_fragment_that_did_not_survive_is_named() -> None:
    fragment = "# a comment\nCONFIG_NET=y\nCONFIG_GONE=y\n# CONFIG_MODULES is not set\n"
    config = "CONFIG_NET=y\n# CONFIG_MODULES is not set\n# CONFIG_GONE is not set\n"
    assert kernel.unmet(fragment, config) == ["CONFIG_GONE=y"]


@pytest.mark.parametrize("option", ["OPENVSWITCH", "GENEVE", "NF_CONNTRACK_ZONES", "NF_CT_NETLINK", "HOSTFS"])
def test_the_fragment_asks_for_what_ovn_cannot_do_without(option: str) -> None:
    assert f"CONFIG_{option}=y" in kernel.FRAGMENT.read_text().splitlines()


def test_the_two_suites_have_images_of_their_own() -> None:
    assert content_key(rootfs.inputs("trixie")) != content_key(rootfs.inputs("bookworm"))
    tree = Path("/cache/images/rootfs-x/tree")
    assert content_key(venv.inputs("trixie", tree)) != content_key(venv.inputs("bookworm", tree))


def test_a_new_root_file_system_makes_a_new_environment_and_not_the_other_way_round() -> None:
    one, two = Path("/cache/images/rootfs-1/tree"), Path("/cache/images/rootfs-2/tree")
    assert content_key(venv.inputs("trixie", one)) != content_key(venv.inputs("trixie", two))
    assert "lock" not in rootfs.inputs("trixie")


def test_an_unknown_suite_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    from devenv.host.progress import Progress
    from devenv.host.store import Store

    with pytest.raises(SandboxError, match="buster"):
        rootfs.obtain(Store(tmp_path), Progress(), "buster")
    assert list(tmp_path.iterdir()) == []


def test_every_suite_has_a_lock_file_in_the_repository() -> None:
    assert venv.LOCKS.keys() == rootfs.SUITES.keys()
    for lock in (*venv.LOCKS.values(), venv.BUILD_LOCK):
        assert (REPO / lock).is_file()


def test_only_variables_that_steer_pip_are_lent() -> None:
    environ = {"PIP_CERT": "/c", "HTTPS_PROXY": "p", "SSL_CERT_FILE": "/s", "HOME": "/root", "PIPER": "x"}
    assert set(pipconf.variables(environ)) == {"PIP_CERT", "HTTPS_PROXY", "SSL_CERT_FILE"}


def test_pips_files_are_found_and_merged_the_last_one_wins(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".pip").mkdir(parents=True)
    (home / ".pip/pip.conf").write_text("[global]\ntimeout = 1\ncert = /one\n")
    extra = tmp_path / "extra.conf"
    extra.write_text("[global]\ncert = /two\nextra-index-url =\n    file:///a/simple\n    file:///b/simple\n")
    files = pipconf.config_files({"PIP_CONFIG_FILE": str(extra)}, home)
    merged = tmp_path / "merged.conf"
    merged.write_text(pipconf.merged_config([path for path in files if tmp_path in path.parents]))
    text = merged.read_text()
    assert "timeout = 1" in text
    assert "cert = /two" in text
    again = pipconf.merged_config([merged])
    assert again == text
    assert "file:///b/simple" in text


def test_local_files_that_the_configuration_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "ca.crt").touch()
    texts = [
        f"[global]\ncert = {tmp_path}/ca.crt\nfind-links = {tmp_path}/wheels {tmp_path}/missing\n",
        f"file://{tmp_path}/index/simple",
        "https://index.example/simple",
    ]
    # An index in a folder links to files beside it: the folder around it is meant.
    assert pipconf.local_paths(texts) == sorted(tmp_path / name for name in ("ca.crt", "index", "wheels"))


def test_a_path_inside_another_one_is_lent_once(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs/ca.crt").touch()
    assert pipconf.local_paths([f"{tmp_path}/certs {tmp_path}/certs/ca.crt"]) == [tmp_path / "certs"]
