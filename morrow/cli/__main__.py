"""``python -m morrow.cli``: the command line where no script was installed."""

from __future__ import annotations

from morrow.cli import main

main()
