"""The pure core: data in, decisions out. No I/O, no clock, no vendor library."""
