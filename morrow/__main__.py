"""``python -m morrow``: the command line where no script was installed, or is not on the path."""

from __future__ import annotations

from morrow.cli import main

if __name__ == "__main__":
    main()
