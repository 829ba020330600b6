"""Exit codes, and the errors that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class Exit(IntEnum):
    """What a program that calls the CLI can rely on. 2 is the parser's own code for a wrong command line."""

    OK = 0
    REFUSED = 1
    """The service refused, or the migration did not end as asked."""
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    """The service, a database or an agent does not answer."""
    TIMEOUT = 6
    """It still goes on; only the waiting ended."""


class CliError(Exception):
    """An error for a person: one sentence, more lines, an exit code."""

    def __init__(self, message: str, *, code: Exit = Exit.REFUSED, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = tuple(details)

    def document(self) -> dict[str, object]:
        """For ``--json``: a problem document like the service's own; ``status`` None: no HTTP answer."""
        problems = [{"code": "detail", "message": line, "field": None} for line in self.details]
        kind = f"urn:ovnmig:problem:{self.code.name.lower().replace('_', '-')}"
        return {"type": kind, "title": "Error", "status": None, "detail": self.message, "problems": problems}


class Unreachable(CliError):
    """The REST service does not answer at all."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"no ovnmig service answers at {url} ({why})",
            code=Exit.UNREACHABLE,
            details=("start it with 'ovnmig serve', or say where it is with --url or OVNMIG_URL",),
        )


class ApiProblem(CliError):
    """A problem document from the service; ``received``: as it came."""

    def __init__(
        self, status: int, title: str, detail: str, problems: Sequence[str], received: dict[str, object]
    ) -> None:
        codes = {404: Exit.NOT_FOUND, 409: Exit.CONFLICT, 502: Exit.UNREACHABLE, 503: Exit.UNREACHABLE}
        many = len(problems) > 1
        message = f"{title}: {detail}" if not many else f"{title}:"
        super().__init__(message, code=codes.get(status, Exit.REFUSED), details=problems if many else ())
        self.status = status
        self._received = received

    def document(self) -> dict[str, object]:
        """The service's own words, untouched."""
        return self._received
