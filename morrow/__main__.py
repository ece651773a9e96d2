"""``python -m morrow``: the command line, if its script is not installed or not on the path."""

from __future__ import annotations

from morrow.cli import main

if __name__ == "__main__":
    main()
