"""The command line, ``morrow``: its commands are in `morrow.cli.app`, those for tags, branches, rollback and expiry in
`morrow.cli.life`.

Rows, tables and plans go to standard output, everything else (errors, progress, notes on how to use the command) to
standard error. Exit codes: `morrow.cli.app.OK`, `FAILED` and `USAGE`.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The console script ``morrow``; leaves by `SystemExit`."""
    import sys

    from morrow.cli.app import run

    run(sys.argv[1:])
