"""The command line, ``morrow``: its commands are registered in `morrow.cli.app`.

Rows, tables and plans go to standard output, everything else (errors, progress, notes on how to use the command) to
standard error. Exit codes: `morrow.cli.app.OK`, `FAILED` and `USAGE`.
"""

from __future__ import annotations

__all__ = ["main"]

YOUNG_OBJECTS = 50_000
"""New objects after which the collector looks for garbage: a command imports a hundred times Python's 700, and keeps
them."""


def main() -> None:
    """The console script ``morrow``; leaves by `SystemExit`."""
    import gc
    import sys

    gc.set_threshold(YOUNG_OBJECTS)
    try:
        from morrow.cli.app import run

        run(sys.argv[1:])
    finally:
        if "duckdb" not in sys.modules:  # its binding prints what was not freed, as if that were a defect
            gc.freeze()  # the process ends: Python would go through all modules once more to find what to free
