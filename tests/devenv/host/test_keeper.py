"""The relays of the keeper against a real command daemon, and the command line of the guest's kernel."""

from __future__ import annotations

import asyncio
import functools
import socket
from pathlib import Path

import pytest

from devenv.host import keeper, stage
from devenv.host.channel import Channel
from devenv.host.stage import Stage, StageError, choose_base


def settings_of(folder: Path) -> keeper.Settings:
    return keeper.Settings(
        backend="uml",
        kernel="/cache/kernel/linux",
        rootfs="/cache/a folder/tree",
        venv="/cache/venv",
        source="/repo",
        out="/repo/out",
        run_dir=str(folder),
        memory_mb=2048,
    )


def test_the_kernels_command_line_holds_fixed_paths_only(tmp_path: Path) -> None:
    command = keeper.guest_command(settings_of(tmp_path), Stage(Path("/mnt")))
    assert command[0] == "/mnt/linux"
    assert "mem=2048M" in command
    assert "rootflags=/mnt/rootfs" in command
    assert not [word for word in command if " " in word or "/cache" in word]


def test_settings_come_back_as_they_were_sent(tmp_path: Path) -> None:
    import json
    from dataclasses import asdict

    settings = settings_of(tmp_path)
    assert keeper.Settings.parse(json.dumps(asdict(settings))) == settings


async def test_the_channel_relay_carries_calls_untouched(daemon_socket: Path, tmp_path: Path) -> None:
    relay = functools.partial(keeper.relay_channel, str(daemon_socket))
    async with await asyncio.start_unix_server(relay, tmp_path / "channel.sock"):
        channel = Channel(tmp_path / "channel.sock")
        done = await asyncio.to_thread(channel.run, ["sh", "-c", "cat; echo no >&2; exit 5"], stdin="yes")
    assert (done.stdout, done.stderr, done.returncode) == ("yes", "no\n", 5)


async def test_the_rest_relay_ends_on_the_loopback_of_the_guest(
    daemon_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + request.split(b" ")[1])
        await keeper.close(writer)

    api = await asyncio.start_server(answer, "127.0.0.1", 0)
    monkeypatch.setattr(keeper, "REST_PORT", api.sockets[0].getsockname()[1])
    relay = await asyncio.start_server(
        functools.partial(keeper.relay_rest, str(daemon_socket)), "127.0.0.1", 0
    )
    async with api, relay:
        reader, writer = await asyncio.open_connection(*relay.sockets[0].getsockname())
        writer.write(b"GET /v1/udns HTTP/1.0\r\n\r\n")
        assert await reader.read() == b"HTTP/1.0 200 OK\r\n\r\n/v1/udns"
        await keeper.close(writer)


async def test_without_an_api_the_rest_relay_closes_the_connection(
    daemon_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        monkeypatch.setattr(keeper, "REST_PORT", unused.getsockname()[1])
    relay = await asyncio.start_server(
        functools.partial(keeper.relay_rest, str(daemon_socket)), "127.0.0.1", 0
    )
    async with relay:
        reader, writer = await asyncio.open_connection(*relay.sockets[0].getsockname())
        assert await reader.read() == b""
        await keeper.close(writer)


def test_what_a_sandbox_needs_is_not_mounted_over() -> None:
    first, second = stage.BASE_CANDIDATES[:2]
    assert choose_base(["/root/.cache/ovnmig", "/repo"]) == Path(first)
    assert choose_base([f"{first}/repo"]) == Path(second)
    with pytest.raises(StageError):
        choose_base([f"{base}/x" for base in stage.BASE_CANDIDATES])


def test_a_command_that_fails_is_named_with_its_words() -> None:
    with pytest.raises(StageError, match=r"`cat /no/such/file` failed: .*No such file"):
        stage.call("cat", "/no/such/file")
