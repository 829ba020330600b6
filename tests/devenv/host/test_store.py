"""The image cache: keys, builds that fail or are cut off, two builders at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from devenv.host.store import Store, content_key, remove_tree

INPUTS = {"fragment": "CONFIG_NET=y\n", "source": "linux-source", "recipe": "1"}


def write_whole(draft: Path) -> None:
    (draft / "linux").write_text("whole")


def test_the_key_depends_on_every_input_and_not_on_their_order() -> None:
    key = content_key(INPUTS)
    assert content_key(dict(reversed(INPUTS.items()))) == key
    assert all(content_key(INPUTS | {name: "other"}) != key for name in INPUTS)
    assert content_key(INPUTS | {"patch": ""}) != key


def test_a_build_is_kept_and_found_again_without_another_build(tmp_path: Path) -> None:
    store = Store(tmp_path)
    built = store.obtain("kernel", INPUTS, write_whole)

    def must_not_run(_: Path) -> None:
        raise AssertionError("built twice")

    assert store.obtain("kernel", INPUTS, must_not_run) == built
    assert (built / "linux").read_text() == "whole"


def test_other_inputs_make_another_image_beside_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.obtain("kernel", INPUTS, write_whole)
    second = store.obtain("kernel", INPUTS | {"fragment": ""}, write_whole)
    assert first != second
    assert first.exists()


def test_a_build_that_fails_leaves_nothing_and_is_done_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fails(draft: Path) -> None:
        (draft / "linux").write_text("half")
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        store.obtain("kernel", INPUTS, fails)
    assert store.find("kernel", INPUTS) is None
    assert list((tmp_path / "building").iterdir()) == []
    assert (store.obtain("kernel", INPUTS, write_whole) / "linux").read_text() == "whole"


def test_what_a_killed_builder_left_is_not_used_and_is_removed(tmp_path: Path) -> None:
    # A killed process runs no clean-up: its folder stays, under a name that no image has.
    left = tmp_path / "building" / f"kernel-{content_key(INPUTS)}"
    left.mkdir(parents=True)
    (left / "linux").write_text("half")
    (left / "work").mkdir()
    store = Store(tmp_path)
    assert store.find("kernel", INPUTS) is None
    built = store.obtain("kernel", INPUTS, write_whole)
    assert (built / "linux").read_text() == "whole"
    assert not left.exists()
    assert not (built / "work").exists()


def test_an_image_folder_without_its_recipe_is_not_an_image(tmp_path: Path) -> None:
    torn = tmp_path / "images" / f"kernel-{content_key(INPUTS)}"
    torn.mkdir(parents=True)
    (torn / "linux").write_text("torn")
    store = Store(tmp_path)
    assert store.find("kernel", INPUTS) is None
    assert (store.obtain("kernel", INPUTS, write_whole) / "linux").read_text() == "whole"


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    builds: list[str] = []
    started, go_on = threading.Event(), threading.Event()

    def slow(draft: Path) -> None:
        started.set()
        assert go_on.wait(30)
        builds.append("built")
        write_whole(draft)

    found: list[Path] = []

    def caller() -> None:
        found.append(Store(tmp_path).obtain("kernel", INPUTS, slow))

    threads = [threading.Thread(target=caller) for _ in range(2)]
    threads[0].start()
    assert started.wait(30)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert builds == ["built"]
    assert found[0] == found[1]


def test_removing_a_folder_that_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
