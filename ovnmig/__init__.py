"""Keeps the TCP sessions of virtual machines on OVN layer-2 networks alive across live migration."""

from __future__ import annotations

__version__ = "0.1.0"
