"""Runs the steps the core decides: record, effects, timers, recovery."""
