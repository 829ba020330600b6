"""What the daemon opens besides programs: connections from inside the guest, and bad requests."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from devenv.guest import execd
from devenv.host import wire
from devenv.host.channel import Channel, connect_unix


def ask(path: Path, request: bytes) -> tuple[socket.socket, bytes, bytes]:
    """Sends a request; returns the connection and the kind and payload of the first answer."""
    sock = connect_unix(path, 20)
    sock.sendall(request)

    def read_exactly(size: int) -> bytes:
        return sock.recv(size, socket.MSG_WAITALL)

    kind, payload = wire.read_frame(read_exactly)
    return sock, kind, payload


def test_a_connection_carries_bytes_both_ways_and_their_ends(daemon_socket: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shout() -> None:
            connection, _ = server.accept()
            with connection:
                data = b""
                while chunk := connection.recv(65536):
                    data += chunk
                connection.sendall(data.upper())

        thread = threading.Thread(target=shout)
        thread.start()
        request = {"op": "connect", "node": None, "host": "127.0.0.1", "port": server.getsockname()[1]}
        sock, kind, _ = ask(daemon_socket, wire.pack_json(wire.REQUEST, request))
        with sock:
            assert kind == wire.READY
            sock.sendall(b"get /v1/udns")
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(100, socket.MSG_WAITALL) == b"GET /V1/UDNS"
        thread.join(20)


def test_a_port_where_nothing_listens_is_refused(daemon_socket: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    request = {"op": "connect", "node": None, "host": "127.0.0.1", "port": port}
    sock, kind, payload = ask(daemon_socket, wire.pack_json(wire.REQUEST, request))
    sock.close()
    assert kind == wire.EXIT
    assert f"port {port}" in wire.parse_json(payload)["error"]


@pytest.mark.parametrize(
    "request_frame",
    [
        wire.pack_json(wire.REQUEST, {"op": "dance"}),
        wire.pack_json(wire.REQUEST, {"op": "run", "argv": []}),
        wire.pack_json(wire.REQUEST, {"op": "connect", "node": None}),
        wire.pack(wire.REQUEST, b"no json"),
        wire.pack(wire.REQUEST, b"[]"),
        wire.pack(wire.STDIN, b"{}"),
    ],
)
def test_a_request_that_is_none_gets_an_error_and_the_daemon_goes_on(
    daemon_socket: Path, request_frame: bytes
) -> None:
    sock, kind, payload = ask(daemon_socket, request_frame)
    sock.close()
    document = wire.parse_json(payload)
    assert kind == wire.EXIT
    assert document["code"] == execd.BAD_REQUEST_CODE
    assert document["error"]
    assert Channel(daemon_socket).run(["true"]).returncode == 0


def test_a_node_file_gives_its_variables_with_quotes_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ovn-chassis-1.env").write_text("# a node\nOVS_RUNDIR='/run/a b/ovs'\n\nNODE=ovn-chassis-1\n")
    monkeypatch.setattr(execd, "NODES_DIR", tmp_path)
    env = execd.node_environment("ovn-chassis-1")
    assert env["OVS_RUNDIR"] == "/run/a b/ovs"
    assert env["NODE"] == env["OVNMIG_NODE"] == "ovn-chassis-1"


def test_a_node_without_a_file_gets_its_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execd, "NODES_DIR", tmp_path)
    assert execd.node_environment("outside") == dict(os.environ) | {"OVNMIG_NODE": "outside"}
