"""The command line, ``morrow``: its commands are registered in `morrow.cli.app`.

Rows, tables and plans go to standard output, everything else (errors, progress, notes on how to use the command) to
standard error. Exit codes: `morrow.cli.app.OK`, `FAILED` and `USAGE`.
"""

from __future__ import annotations

__all__ = ["main"]

YOUNG_OBJECTS = 50_000
"""New objects between garbage collections. Imports of a command create a hundred times Python's default of 700, and
never free them."""


def main() -> None:
    """Run the console script ``morrow``; always raises `SystemExit`."""
    import gc
    import sys

    gc.set_threshold(YOUNG_OBJECTS)
    try:
        from morrow.cli.app import run

        run(sys.argv[1:])
    finally:
        if "duckdb" not in sys.modules:  # its binding would print objects that are not freed
            gc.freeze()  # the process ends; avoids a last collection of all modules
