"""``ovnmig serve`` as a program on real ovsdb-servers, used through the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ovnmig.core.migration import Phase
from ovnmig.drivers.history import SqliteHistory
from tests.core.machine import a_record
from tests.nb.server import DatabaseServer, northbound, southbound
from tests.nb.world import insert, reference

UDN = (
    "--subnet", "10.1.0.0/24", "--subnet", "fd00:1::/64",
    "--vip", "172.16.1.100/24", "--vip", "2001:db8::100/64",
    "--nexthop", "172.16.1.1", "--physical-network", "public", "--create-switch",
)  # fmt: skip
NAME = 'blue "net" ü'


def add_chassis(server: DatabaseServer, name: str, address: str) -> None:
    """Register a chassis that maps ``public``."""
    mappings = ["map", [["ovn-bridge-mappings", "public:br-ex"]]]
    encap = insert("Encap", "encap", type="geneve", ip=address, chassis_name=name)
    row = insert("Chassis", name=name, hostname=name, encaps=reference("encap"), other_config=mappings)
    server.transact(encap, row)


class Service:
    """The program, its databases and its command line."""

    def __init__(self, folder: Path, nb: DatabaseServer, sb: DatabaseServer) -> None:
        self.nb, self.sb = nb, sb
        folder.mkdir()
        self.log = folder / "serve.log"
        self.environment = os.environ | {
            "OVNMIG_NB": self.nb.remote,
            "OVNMIG_SB": self.sb.remote,
            "OVNMIG_PKI_DIR": str(folder / "pki"),
            "OVNMIG_HISTORY_FILE": str(folder / "history.sqlite"),
        }
        self._process: subprocess.Popen[bytes] | None = None
        assert self.cli("pki", "init")[0] == 0
        assert self.cli("pki", "issue", "controller", "--controller")[0] == 0

    def cli(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "ovnmig", *words],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words: str) -> dict[str, Any]:
        """The JSON a command prints."""
        code, out, err = self.cli(*words, "--json")
        assert code == 0, err
        document: dict[str, Any] = json.loads(out)
        return document

    def start(self, role: str = "leader", port: str = "0") -> None:
        """Start it on that port (0: any); returns when it is ready in that role."""
        environment = self.environment | {"OVNMIG_LISTEN_PORT": port}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ovnmig", "serve"], stdout=log, stderr=log, env=environment
            )
        self.until(lambda: '"service started"' in self.log.read_text(encoding="utf-8"), "it starts")
        (started,) = [
            line for line in self.log.read_text(encoding="utf-8").splitlines() if "service started" in line
        ]
        self.environment["OVNMIG_URL"] = f"http://127.0.0.1:{json.loads(started)['port']}"
        self.until(lambda: self.ready() == (True, role), f"it is ready as {role}")

    def ready(self) -> tuple[bool, str]:
        """What /readyz says."""
        document = httpx2.get(self.environment["OVNMIG_URL"] + "/readyz", timeout=20).json()
        return document["ready"], document["role"]

    def until(self, condition: Any, what: str) -> None:
        """Return when it holds; fails with the log when it does not come to hold."""
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                pytest.fail(f"not so: {what}; {self.log.read_text(encoding='utf-8')}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit code."""
        assert self._process is not None
        self._process.send_signal(how)
        code = self._process.wait(20)
        self._process = None
        return code

    def end(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            self.stop(signal.SIGKILL)


@pytest.fixture
def databases() -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """NB, and SB with three chassis."""
    nb, sb = northbound(), southbound()
    try:
        for number in (1, 2, 3):
            add_chassis(sb, f"gw-{number}", f"127.0.0.{number}")
        yield nb, sb
    finally:
        nb.remove()
        sb.remove()


@pytest.fixture
def service(tmp_path: Path, databases: tuple[DatabaseServer, DatabaseServer]) -> Iterator[Service]:
    made = Service(tmp_path / "first", *databases)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.timeout(180)
def test_a_udn_is_created_listed_changed_and_deleted_and_nothing_is_left(service: Service) -> None:
    before = service.nb.contents()
    created = service.answer("udn", "create", NAME, *UDN)
    assert (created["name"], created["protected"], created["drift"]) == (NAME, True, [])
    written = service.nb.transactions()
    assert service.answer("udn", "create", NAME, *UDN)["changed"] is False
    assert service.nb.transactions() == written, "an identical request writes nothing"
    assert [u["name"] for u in service.answer("udn", "list")["udns"]] == [NAME]
    changed = service.answer("udn", "set", NAME, "--vip", "172.16.1.101/24", "--vip", "2001:db8::100/64")
    assert changed["vips"][0] == "172.16.1.101/24"
    assert changed["snat_zone"] == created["snat_zone"]
    assert service.nb.transactions() == written + 1, "a change is one transaction"
    taken = service.cli("udn", "create", "red", *UDN[:4], "--vip", "172.16.1.101/24", *UDN[8:])
    assert taken[0] in (1, 4)
    assert "172.16.1.101" in taken[2]
    assert service.cli("udn", "delete", NAME)[0] == 0
    assert service.nb.contents() == before


@pytest.mark.timeout(180)
def test_a_restart_finds_everything_again_and_stopping_is_clean(service: Service) -> None:
    created = service.answer("udn", "create", NAME, *UDN)
    assert service.stop() == 0
    assert "Traceback" not in service.log.read_text(encoding="utf-8")
    service.start()
    found = service.answer("udn", "show", NAME)
    assert (found["epoch"], found["members"]) == (created["epoch"], created["members"])
    events = service.cli("watch", "--after", "0", "--no-follow", "--json")[1].splitlines()
    kinds = [json.loads(line)["kind"] for line in events]
    assert kinds.count("lead") == 2, "the history goes on in the same file"
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    service.start()
    assert service.answer("udn", "show", NAME)["epoch"] == created["epoch"]


@pytest.mark.timeout(180)
def test_clients_that_follow_events_do_not_hold_up_the_end(service: Service) -> None:
    words = [sys.executable, "-m", "ovnmig", "watch", "--after", "0", "--json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=service.environment
    ) as watch:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["kind"] == "lead"
        assert service.stop() == 0
        assert "timeout" not in service.log.read_text(encoding="utf-8")
        service.start(port=service.environment["OVNMIG_URL"].rpartition(":")[2])
        assert json.loads(watch.stdout.readline())["kind"] == "lead", "it goes on where it was"
        watch.terminate()
        assert b"trying again" in watch.communicate()[1]


@pytest.mark.timeout(180)
def test_a_database_that_goes_away_is_said_and_found_again(service: Service) -> None:
    service.answer("udn", "create", NAME, *UDN)
    service.nb.stop()
    service.until(lambda: service.ready()[0] is False, "it is not ready without NB")
    code, out, _ = service.cli("doctor")
    assert code == 1
    assert "service is not well" in out
    code, out, _ = service.cli("udn", "create", NAME, *UDN, "--json")
    assert (code, json.loads(out)["type"]) == (5, "urn:ovnmig:problem:database-unavailable")
    service.nb.start()
    service.until(lambda: service.ready() == (True, "leader"), "it leads again")
    assert service.cli("udn", "delete", NAME)[0] == 0


@pytest.mark.timeout(180)
def test_a_migration_without_agents_is_refused_with_every_reason_and_no_row_changes(service: Service) -> None:
    created = service.answer("udn", "create", NAME, *UDN)
    target = next(c for c in ("gw-1", "gw-2", "gw-3") if c != created["members"][0]["chassis"])
    before = service.nb.contents()
    code, out, _ = service.cli("migrate", "start", NAME, target, "--dry-run", "--json")
    assert code == 1
    assert any("agent" in p["message"] for p in json.loads(out)["problems"])
    code, _, err = service.cli("migrate", "start", NAME, target)
    assert code in (1, 4, 5)
    assert "agent" in err
    assert service.nb.contents() == before
    assert service.cli("migrate", "start", NAME, "nowhere")[0] != 0


@pytest.mark.timeout(180)
def test_doctor_names_each_chassis_without_agent(service: Service) -> None:
    code, out, _ = service.cli("doctor", "--json")
    assert code == 1
    missing = [f["what"] for f in json.loads(out)["findings"] if f["code"] == "no-agent"]
    assert len(missing) == 3


@pytest.mark.timeout(180)
def test_a_second_controller_stands_by_and_takes_over(service: Service, tmp_path: Path) -> None:
    second = Service(tmp_path / "second", service.nb, service.sb)
    try:
        second.start("standby")
        assert second.cli("udn", "create", NAME, *UDN)[0] == 5
        assert second.cli("udn", "list")[0] == 0
        assert service.stop() == 0
        second.until(lambda: second.ready() == (True, "leader"), "it takes over")
        assert second.cli("udn", "create", NAME, *UDN)[0] == 0
    finally:
        second.end()


@pytest.mark.timeout(180)
def test_an_old_migration_is_answered_from_the_history_until_its_file_is_lost(service: Service) -> None:
    file = Path(service.environment["OVNMIG_HISTORY_FILE"])
    assert service.stop() == 0

    async def remember() -> None:
        history = SqliteHistory(file)
        await history.start()
        await history.keep(replace(a_record(), id="m-old", phase=Phase.COMPLETED))
        await history.close()

    asyncio.run(remember())
    service.start()
    shown = service.answer("migrate", "show", "m-old")
    assert (shown["phase"], shown["from_history"]) == ("completed", True)
    assert service.answer("migrate", "list")["migrations"] == []
    assert [one["id"] for one in service.answer("migrate", "list", "--all")["migrations"]] == ["m-old"]
    assert service.cli("migrate", "cancel", "m-old")[0] == 4, "it has ended"
    assert service.stop() == 0
    file.unlink()
    service.start()
    code, _, err = service.cli("migrate", "show", "m-old")
    assert (code, "the history file was lost" in " ".join(err.split())) == (3, True)
