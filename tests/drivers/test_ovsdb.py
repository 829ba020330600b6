"""Connections to OVSDB servers: TLS, several remotes, reconnects, servers that come late or stay silent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
import trustme
from ovs.db.idl import Row

from ovnmig.drivers import ovsdb
from ovnmig.drivers.ovsdb import LiveIdl, OvsdbClient, TlsFiles
from ovnmig.engine.protocols import DatabaseUnavailable
from tests.nb.server import DatabaseServer, northbound

COLUMNS = {"Logical_Switch": ("name", "from_the_future"), "From_The_Future": ("name",)}


def client(remotes: str, tls: TlsFiles | None = None, timeout_s: float = 5.0) -> OvsdbClient:
    return OvsdbClient(remotes, "OVN_Northbound", COLUMNS, tls=tls, timeout_s=timeout_s)


def switches(live: LiveIdl) -> list[str]:
    return sorted(row.name for row in live.tables["Logical_Switch"].rows.values())


def add(server: DatabaseServer, name: str) -> None:
    server.transact({"op": "insert", "table": "Logical_Switch", "row": {"name": name}})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    made = northbound()
    add(made, "one")
    yield made
    made.remove()


async def test_columns_and_tables_the_server_lacks_are_left_out(server: DatabaseServer) -> None:
    made = client(server.remote)
    assert await made.read(switches) == ["one"]
    assert await made.read(lambda live: sorted(live.tables)) == ["Logical_Switch"]
    await made.close()


async def test_the_first_remote_that_answers_is_used(server: DatabaseServer) -> None:
    dead = f"unix:{server.folder}/nobody.sock"
    made = client(f"{dead},{server.remote}")
    assert await made.read(switches) == ["one"]
    await made.close()


async def test_a_tcp_remote_works() -> None:
    port = free_port()
    server = northbound(options=(f"--remote=ptcp:{port}:127.0.0.1",))
    made = client(f"tcp:127.0.0.1:{port}")
    assert await made.read(switches) == []
    await made.close()
    server.remove()


async def test_an_ssl_remote_works_with_the_right_files(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = []
    for name in ("server", "client"):
        made_for = authority.issue_cert("127.0.0.1", common_name=name)
        made_for.private_key_pem.write_to_path(tmp_path / f"{name}-key.pem")
        made_for.cert_chain_pems[0].write_to_path(tmp_path / f"{name}-cert.pem")
        files.append((str(tmp_path / f"{name}-key.pem"), str(tmp_path / f"{name}-cert.pem")))
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca = str(tmp_path / "ca.pem")
    port = free_port()
    server = northbound(
        options=(
            f"--remote=pssl:{port}:127.0.0.1",
            f"--private-key={files[0][0]}",
            f"--certificate={files[0][1]}",
            f"--ca-cert={ca}",
        )
    )
    made = client(f"ssl:127.0.0.1:{port}", TlsFiles(*files[1], ca))
    try:
        assert await made.read(switches) == []
    finally:
        await made.close()
        server.remove()


async def test_a_schema_the_server_does_not_have_is_named(server: DatabaseServer) -> None:
    made = OvsdbClient(server.remote, "OVN_Southbound", {}, tls=None, timeout_s=5)
    with pytest.raises(DatabaseUnavailable, match="no server of OVN_Southbound answered"):
        await made.start()


async def test_after_close_nothing_connects_again(server: DatabaseServer) -> None:
    made = client(server.remote)
    await made.read(switches)
    await made.close()
    await made.close()
    with pytest.raises(DatabaseUnavailable, match="was closed"):
        await made.read(switches)


async def test_a_read_waits_for_a_short_absence(server: DatabaseServer) -> None:
    made = client(server.remote)
    await made.read(switches)
    server.stop()
    add_later = anyio.Event()

    async def come_back() -> None:
        await anyio.sleep(0.3)
        server.start()
        add_later.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(come_back)
        assert await made.read(switches) == ["one"]
    assert add_later.is_set()
    await made.close()


async def test_a_copy_out_of_step_for_long_is_built_anew(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovsdb, "REBUILD_AFTER_S", 0.0)
    made = client(server.remote)
    first = await made.read(lambda live: live)
    server.stop()
    with pytest.raises(DatabaseUnavailable):
        await made.read(switches)
    assert "not connected" in made.problem()
    server.start()
    assert await made.read(switches) == ["one"]
    assert await made.read(lambda live: live) is not first
    await made.close()


async def test_what_was_built_from_a_row_is_kept_until_the_row_changes(server: DatabaseServer) -> None:
    made = client(server.remote)
    built: list[str] = []

    def build(row: Row) -> str:
        built.append(row.name)
        return str(row.name)

    def names(live: LiveIdl) -> list[str]:
        return sorted(live.cached(row, build) for row in live.tables["Logical_Switch"].rows.values())

    assert await made.read(names) == ["one"]
    seen = made.changes.count
    add(server, "two")
    assert await made.changes.wait(seen, 5)
    assert await made.read(names) == ["one", "two"]
    assert built == ["one", "two"]
    seen = made.changes.count
    server.transact(
        {"op": "update", "table": "Logical_Switch", "where": [["name", "==", "one"]], "row": {"name": "1"}}
    )
    assert await made.changes.wait(seen, 5)
    assert await made.read(names) == ["1", "two"]
    await made.close()


async def test_a_transaction_that_holds_the_copy_for_too_long_fails_the_read(server: DatabaseServer) -> None:
    made = client(server.remote, timeout_s=0.2)
    backend = await made.read(lambda live: made._api)
    assert backend is not None

    def hold_and_read() -> None:
        with backend.ovsdb_connection.lock:
            holder = anyio.from_thread.run(made.read, switches)
            assert holder

    with pytest.raises(DatabaseUnavailable, match="for too long"):
        await anyio.to_thread.run_sync(hold_and_read)
    await made.close()
