"""A real ovsdb-server with OVN's schemas, in a folder of its own, for one test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SCHEMAS = Path(os.environ.get("OVN_SCHEMA_DIR", "/usr/share/ovn"))
_NOT_COMPARED = {"nb_cfg", "nb_cfg_timestamp", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "hv_cfg_timestamp"}


class DatabaseServer:
    """One server process with one database; ``stop`` and ``start`` keep the data."""

    def __init__(
        self,
        schema_name: str,
        schema_file: str,
        *,
        initial: list[dict[str, Any]] | None = None,
        without: dict[str, list[str]] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        """``without``: table -> columns left out, as in an old release. ``options``: for the command line."""
        # A short path: the name of a Unix socket may have 107 bytes at most.
        self.folder = Path(tempfile.mkdtemp(prefix="ovnmig-db-", dir="/tmp"))
        self.schema_name = schema_name
        self.file = self.folder / "data.db"
        self.socket = self.folder / "db.sock"
        self.remote = f"unix:{self.socket}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.schema = json.loads((SCHEMAS / schema_file).read_text(encoding="utf-8"))
        for table, columns in (without or {}).items():
            for column in columns:
                del self.schema["tables"][table]["columns"][column]
        changed = self.folder / "schema"
        changed.write_text(json.dumps(self.schema), encoding="utf-8")
        subprocess.run(["ovsdb-tool", "create", self.file, changed], check=True)
        self.start()
        if initial:
            self.transact(*initial)

    def start(self) -> None:
        """Serve the file; returns when the socket answers."""
        self._process = subprocess.Popen(
            [
                "ovsdb-server",
                self.file,
                f"--remote=punix:{self.socket}",
                f"--unixctl={self.folder}/ctl",
                "--log-file=" + str(self.folder / "log"),
                "--no-chdir",
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while subprocess.run(["ovsdb-client", "list-dbs", self.remote], capture_output=True).returncode:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"ovsdb-server does not answer; see {self.folder}/log")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process and wait for it."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(10)
            self._process = None
        self.socket.unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop answering, connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it and delete its folder."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def transact(self, *operations: dict[str, Any]) -> list[Any]:
        """Raw OVSDB operations in one transaction. Raises RuntimeError when one of them fails."""
        request = json.dumps([self.schema_name, *operations])
        done = subprocess.run(
            ["ovsdb-client", "transact", self.remote, request], check=True, capture_output=True, text=True
        )
        results: list[Any] = json.loads(done.stdout)
        failed = [result for result in results if result and "error" in result]
        if failed:
            raise RuntimeError(str(failed))
        return results

    def transactions(self) -> int:
        """How many transactions changed the database so far: the file is a log with a record for each."""
        with self.file.open("rb") as log:
            return sum(line.startswith(b"OVSDB JSON ") for line in log)

    def contents(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Table -> row UUID -> columns, all of the database but the counters of NB_Global and versions of
        rows."""
        tables = self.schema["tables"]
        operations = [{"op": "select", "table": table, "where": []} for table in tables]
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for table, result in zip(tables, self.transact(*operations), strict=True):
            found[table] = {
                row["_uuid"][1]: {
                    column: _sorted(value)
                    for column, value in row.items()
                    if column not in ("_uuid", "_version") and column not in _NOT_COMPARED
                }
                for row in result["rows"]
            }
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table as OVSDB gives them."""
        rows: list[dict[str, Any]] = self.transact({"op": "select", "table": table, "where": []})[0]["rows"]
        return rows


def _sorted(value: Any) -> Any:
    """Sets and maps come in no fixed order."""
    if isinstance(value, list) and len(value) == 2 and value[0] in ("set", "map"):
        return [value[0], sorted(value[1], key=str)]
    return value


def northbound(without: dict[str, list[str]] | None = None, options: tuple[str, ...] = ()) -> DatabaseServer:
    """An initialised Northbound database without switches."""
    initial = [{"op": "insert", "table": "NB_Global", "row": {}}]
    return DatabaseServer(
        "OVN_Northbound", "ovn-nb.ovsschema", initial=initial, without=without, options=options
    )


def southbound(without: dict[str, list[str]] | None = None) -> DatabaseServer:
    """An initialised Southbound database without chassis."""
    initial = [{"op": "insert", "table": "SB_Global", "row": {}}]
    return DatabaseServer("OVN_Southbound", "ovn-sb.ovsschema", initial=initial, without=without)
