"""A real server on a free loopback port with the fake controller behind it, and the CLI pointed at it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import uvicorn

from ovnmig.cli import run
from ovnmig.service.app import create_app
from tests.service.fake import FakeController


@contextmanager
def serving(controller: FakeController, listening: socket.socket) -> Iterator[str]:
    """Serve ``controller`` on the socket; the URL."""
    config = uvicorn.Config(
        create_app(controller, version="1.2.3"), log_config=None, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@dataclass(frozen=True)
class Result:
    """What one command printed and its exit code."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
def url(controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening, serving(controller, listening) as where:
        monkeypatch.setenv("OVNMIG_URL", where)
        yield where


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run a command in this process."""

    def call(*arguments: str) -> Result:
        capfd.readouterr()
        code = run(arguments)
        printed = capfd.readouterr()
        return Result(code, printed.out, printed.err)

    return call


@pytest.fixture
def blue(cli: Cli, url: str) -> str:
    """A UDN whose name has a space and a quote in it."""
    name = 'blue "net"'
    made = cli(
        "udn", "create", name, "--subnet", "10.1.0.0/24", "--subnet", "fd00:1::/64",
        "--vip", "172.16.1.100/24", "--vip", "2001:db8::100/64", "--physical-network", "public",
        "--create-switch",
    )  # fmt: skip
    assert made.code == 0, made.err
    return name
