"""The entry point of `devenv/sandbox`: parses, runs the verb, tells an error on one screen."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from devenv.host.errors import EXIT_FAILED, SandboxError
from devenv.host.options import parse
from devenv.host.stage import StageError
from devenv.host.verbs import VERBS

INTERRUPTED = 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        return VERBS[options.verb](options)
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return error.code
    except StageError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("sandbox: interrupted", file=sys.stderr)
        return INTERRUPTED
