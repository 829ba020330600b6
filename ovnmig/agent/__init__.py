"""The node helper: control API, session streams, zones, transfer jobs, announcements."""

from __future__ import annotations
