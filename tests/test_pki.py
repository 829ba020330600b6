from __future__ import annotations

import asyncio
import ssl
import stat
from ipaddress import ip_address
from pathlib import Path

import pytest

from ovnmig import pki
from ovnmig.pki import Identity, KeyFiles, PkiError, Role

ODD = 'node "ü" one.two %41'


def make(directory: Path, *identities: Identity) -> None:
    pki.init_ca(directory)
    for identity in identities:
        pki.issue(directory, identity, [ip_address("127.0.0.1"), ip_address("::1")])


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    make(tmp_path / "pki", Identity(Role.CHASSIS, "a"))
    for name in ("ca.key", "a.key"):
        assert stat.S_IMODE((tmp_path / "pki" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    make(tmp_path, Identity(Role.CHASSIS, "a"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(PkiError, match="exists and is not overwritten"):
        pki.init_ca(tmp_path)
    with pytest.raises(PkiError, match="exists and is not overwritten"):
        pki.issue(tmp_path, Identity(Role.CONTROLLER, "a"))
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", ["", "a/b", "..", "ca", "a\nb", "\udcff"])
def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    pki.init_ca(tmp_path)
    with pytest.raises(PkiError, match="cannot be the name"):
        pki.issue(tmp_path, Identity(Role.CHASSIS, name))


def test_issuing_without_a_ca_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PkiError, match="ovnmig pki init"):
        pki.issue(tmp_path, Identity(Role.CHASSIS, "a"))


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    make(tmp_path, Identity(Role.CHASSIS, "a"), Identity(Role.CHASSIS, "b"))
    mixed = KeyFiles(tmp_path / "ca.crt", tmp_path / "a.crt", tmp_path / "b.key")
    with pytest.raises(PkiError, match="do not fit together"):
        pki.server_context(mixed)
    with pytest.raises(PkiError, match="is missing"):
        pki.server_context(KeyFiles.of(tmp_path, "c"))


def test_a_certificate_without_a_role_is_refused() -> None:
    names = (("URI", "ovnmig:king/a"), ("DNS", "ovnmig:chassis/a"))
    for certificate in (None, {}, {"subjectAltName": names}):
        with pytest.raises(PkiError, match="neither a chassis nor a controller"):
            pki.parse_identity(certificate)


async def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> Identity:
    """Who the server saw."""
    seen: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(pki.parse_identity(writer.get_extra_info("ssl_object").getpeercert()))
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=server) as listener:
        port = listener.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        try:
            return await seen
        finally:
            writer.close()


async def test_both_sides_learn_who_the_other_is_whatever_its_name(tmp_path: Path) -> None:
    server, client = Identity(Role.CHASSIS, ODD), Identity(Role.CONTROLLER, "main")
    make(tmp_path, server, client)
    seen = await handshake(
        pki.server_context(KeyFiles.of(tmp_path, ODD)),
        pki.client_context(KeyFiles.of(tmp_path, "main"), server),
    )
    assert seen == client


async def test_a_client_refuses_a_server_that_is_someone_else(tmp_path: Path) -> None:
    make(tmp_path, Identity(Role.CHASSIS, "a"), Identity(Role.CHASSIS, "b"))
    with pytest.raises(ssl.SSLCertVerificationError, match="for chassis 'a', not chassis 'b'"):
        await handshake(
            pki.server_context(KeyFiles.of(tmp_path, "a")),
            pki.client_context(KeyFiles.of(tmp_path, "b"), Identity(Role.CHASSIS, "b")),
        )


async def test_a_client_refuses_a_server_of_another_ca(tmp_path: Path) -> None:
    make(tmp_path / "one", Identity(Role.CHASSIS, "a"))
    make(tmp_path / "two", Identity(Role.CHASSIS, "a"))
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(
            pki.server_context(KeyFiles.of(tmp_path / "one", "a")),
            pki.client_context(KeyFiles.of(tmp_path / "two", "a"), Identity(Role.CHASSIS, "a")),
        )
