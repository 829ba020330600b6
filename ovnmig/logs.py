"""Logging: structlog for our words, the same form for what libraries log. JSON where nobody watches a
terminal."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TextIO

import structlog
from structlog.typing import Processor


class LogFormat(StrEnum):
    """``auto``: text on a terminal, JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The least level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.StackInfoRenderer(),
)


def configure(
    form: LogFormat = LogFormat.AUTO, level: LogLevel = LogLevel.INFO, stream: TextIO | None = None
) -> None:
    """Send everything to ``stream`` (default: stderr), one event a line. May be called again."""
    out = stream or sys.stderr
    as_json = form is LogFormat.JSON or (form is LogFormat.AUTO and not out.isatty())
    renderer: list[Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(ensure_ascii=False)]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=out.isatty())]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=list(_SHARED),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    # One line per request is noise at info; the events tell what requests did.
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    for name in ("httpx2", "httpcore2", "ovsdbapp"):
        logging.getLogger(name).setLevel(logging.WARNING)
