"""``python -m ovnmig``."""

from __future__ import annotations

from ovnmig.cli import main

if __name__ == "__main__":
    main()
