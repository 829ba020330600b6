"""Drivers implement the engine's Protocols. They translate between the core's data and the outside world and
decide nothing."""

from __future__ import annotations
