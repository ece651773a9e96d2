"""The commands that bring rows in and out: ``upsert``, ``update``, ``import``, ``export``. `app` takes them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from morrow.cli import arguments as arg
from morrow.cli.argument_values import column_names, pairs
from morrow.cli.shared_options import travels

Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="COLUMN=SQL", help="A new value, over the old row; may be repeated.", show_default=False
    ),
]
Keys = Annotated[
    str | None, typer.Option("--primary-key", "-k", metavar="A,B", help="Of a table that is made; none: append.")
]
Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="By its ending: .parquet, .arrow, .csv or .json (lines); or --output.", show_default=False
    ),
]


def upsert(path: arg.TablePath, file: arg.RowsFile) -> None:
    """Put the rows of a file into a table with a primary key: in place of those with the same key, or beside them."""
    from morrow.cli import writing

    writing.upsert(path, file)


def update(path: arg.TablePath, set_: Set, where: arg.Where = None, dry_run: arg.DryRun = False) -> None:
    """Change columns of the rows for which a condition is true (all without one), in one commit."""
    from morrow.cli import writing

    writing.update(path, pairs("--set", set_), where, dry_run)


def import_(path: arg.TablePath, file: arg.RowsFile, primary_key: Keys = None) -> None:
    """Add the rows of a file as append does; a table that does not exist is made of the columns of the file."""
    from morrow.cli import writing

    writing.import_(path, file, column_names(primary_key) or [])


@travels
def export(
    at: arg.At,
    path: arg.Readable,
    file: Target = None,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    output: arg.Output = None,
) -> None:
    """Write the rows of a table to a file."""
    from morrow.cli import writing

    if (file is None) == (output is None):
        raise typer.BadParameter("name one file, after the table or by --output")
    writing.export(path, file or output or Path(), at, column_names(columns), where, limit)


import_.__name__ = "import"
COMMANDS: tuple[Callable[..., None], ...] = (upsert, update, import_, export)
