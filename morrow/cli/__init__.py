"""The command line, ``morrow``: its commands are registered in `morrow.cli.app`.

Rows, tables and plans go to standard output, everything else (errors, progress, notes on how to use the command) to
standard error. Exit codes: `morrow.cli.app.OK`, `FAILED` and `USAGE`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from morrow.cli import differences, maintenance, metadata, queries, warehouse, writing

__all__ = ["differences", "main", "maintenance", "metadata", "queries", "warehouse", "writing"]

YOUNG_OBJECTS = 50_000
"""New objects between garbage collections. Imports of a command create a hundred times Python's default of 700, and
never free them."""


def __getattr__(name: str) -> Any:
    """Import a module of commands when a command of it runs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


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
