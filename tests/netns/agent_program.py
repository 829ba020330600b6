"""Runs an agent as ``ovnmig agent`` does, settings as one JSON object on the command line."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

from ovnmig.agent.main import CannotStart, run
from ovnmig.agent.settings import AgentSettings


def main() -> int:
    """0: ended as asked; 1: could not start, the reason on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    given = json.loads(sys.argv[1])
    settings = AgentSettings(
        ovs_rundir=Path(given["ovs_rundir"]), pki_dir=Path(given["pki_dir"]), **given.get("more", {})
    )
    try:
        asyncio.run(run(settings))
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
