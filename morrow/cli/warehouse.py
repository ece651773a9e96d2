"""The commands for the tables of a warehouse: ``ls``, ``create``, ``alter``, ``drop``, ``rename``, for `app`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from morrow.cli import arguments as arg
from morrow.cli.argument_values import column_names, pairs
from morrow.cli.arguments import Format

Texts = list[str] | None
Place = Annotated[
    str, typer.Argument(metavar="NAME", help="db.table, or the path WAREHOUSE/db.db/table.", show_default=False)
]
Database = Annotated[
    str, typer.Argument(metavar="NAME", help="db.table, a path, or a database by its name.", show_default=False)
]
Which = Annotated[
    str | None,
    typer.Argument(metavar="[DATABASE|WAREHOUSE]", help="Default: all of --warehouse.", show_default=False),
]
Long = Annotated[bool, typer.Option("--long", "-l", help="With what is known of each table.")]
Columns = Annotated[
    str | None,
    typer.Argument(
        metavar="[COLUMNS]", help="As in SQL: 'id BIGINT, name STRING'. None: a database.", show_default=False
    ),
]
Keys = Annotated[str | None, typer.Option("--primary-key", "-k", metavar="A,B", help="Columns of the primary key.")]
PartitionBy = Annotated[str | None, typer.Option("--partition-by", metavar="A,B", help="Columns of the partitions.")]
Options = Annotated[Texts, typer.Option("--set", metavar="KEY=VALUE", help="An option of the table; may be repeated.")]
Comment = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Of the table.")]
IfNot = Annotated[bool, typer.Option("--if-not-exists", help="Leave one that exists as it is.")]
If = Annotated[bool, typer.Option("--if-exists", help="Do nothing where there is none.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="A database with its tables.")]
Add = Annotated[Texts, typer.Option("--add", metavar="NAME=TYPE", help="Add a column; all of these may be repeated.")]
Remove = Annotated[Texts, typer.Option("--drop", metavar="NAME", help="Drop a column.")]
Renames = Annotated[Texts, typer.Option("--rename", metavar="OLD=NEW", help="Rename a column.")]
Types = Annotated[Texts, typer.Option("--type", metavar="NAME=TYPE", help="Change the type of a column.")]
Lossy = Annotated[bool, typer.Option("--lossy", help="Change types also where values are lost.")]
Unset = Annotated[Texts, typer.Option("--unset", metavar="KEY", help="Reset an option of the table.")]


def ls(
    what: Which = None, long: Long = False, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """List the tables of a warehouse, or of one database."""
    from morrow.cli import catalogs

    catalogs.ls(what, long, form, output)


def create(
    name: Database,
    columns: Columns = None,
    primary_key: Keys = None,
    partition_by: PartitionBy = None,
    options: Options = None,
    comment: Comment = None,
    if_not_exists: IfNot = False,
) -> None:
    """Create a table, or a database if only its name is given."""
    from morrow.cli import catalogs

    keys, partitions = column_names(primary_key) or [], column_names(partition_by) or []
    catalogs.create(name, columns, keys, partitions, pairs("--set", options), comment, if_not_exists)


def alter(
    path: arg.TablePath,
    add: Add = None,
    drop: Remove = None,
    rename: Renames = None,
    types: Types = None,
    lossy: Lossy = False,
    options: Options = None,
    unset: Unset = None,
    comment: Comment = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Change columns and options of a table, all in one new schema; or what a catalog keeps of a database."""
    from morrow.cli import catalogs

    catalogs.alter(
        path,
        branch,
        add=pairs("--add", add, last=True),
        drop=drop or [],
        rename=pairs("--rename", rename),
        types=pairs("--type", types, last=True),
        lossy=lossy,
        options=pairs("--set", options),
        unset=unset or [],
        comment=comment,
        yes=yes,
        dry_run=dry_run,
    )


def drop(
    name: Database,
    if_exists: If = False,
    cascade: Cascade = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Drop a table, or a database, with all its files."""
    from morrow.cli import catalogs

    catalogs.drop(name, if_exists, cascade, yes=yes, dry_run=dry_run)


def rename(name: Database, new: Annotated[str, typer.Argument(metavar="NEW", show_default=False)]) -> None:
    """Rename a table (db.new, also into another database), or a database."""
    from morrow.cli import catalogs

    catalogs.rename(name, new)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="A folder that is empty or not there.", show_default=True)
    ] = Path("demo"),
) -> None:
    """Make a small warehouse to try things on, and say what to try."""
    from morrow.cli import demo as work

    work.demo(folder)


COMMANDS: tuple[Callable[..., None], ...] = (ls, create, alter, drop, rename, demo)
