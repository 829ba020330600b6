"""The Northbound and Southbound drivers on real database servers, and OVN's own daemons on what they
write."""

from __future__ import annotations
