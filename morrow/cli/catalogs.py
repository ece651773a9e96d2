"""``morrow ls``, ``create``, ``alter``, ``drop`` and ``rename``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.asking import may
from morrow.cli.opening import is_name, knows_names, open_catalog, open_table, place
from morrow.cli.output import write_rows
from morrow.cli.progress import working
from morrow.engine.catalog.filesystem import check_warehouse
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.telling import shown, without_secrets
from morrow.engine.wording import plural

TABLES = pa.schema([("database", pa.string()), ("table", pa.string())])


def ls(what: str | None, long: bool, form: Format, output: Path | None) -> None:
    """Write databases and tables; those without tables come last, with a null."""
    by_name = what is not None and knows_names() and "/" not in what and what not in (".", "..")
    catalog = open_catalog(None if by_name else what)
    check_warehouse(catalog._catalog)
    if not by_name and not catalog.databases() and not _is_there(catalog):
        raise DatabaseNotFound(f"{catalog.warehouse}: there is no warehouse of this name, or it has no databases")
    if long:
        scan = catalog.system("all_tables")
        frame = scan.to_arrow()
        if by_name:
            frame = frame.filter(pa.compute.equal(frame[frame.column_names[0]], what))
        write_rows(frame.schema, frame.to_batches(), form, output)
        return
    with working("listing"):
        databases = [what] if by_name and what is not None else catalog.databases()
        found = {database: catalog.tables(database) for database in databases}
        rows = [{"database": database, "table": name} for database, names in found.items() for name in names]
        rows += [{"database": database} for database, names in found.items() if not names]
    write_rows(TABLES, pa.Table.from_pylist(rows, TABLES).to_batches(), form, output)


def create(
    name: str,
    columns: str | None,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, str],
    comment: str | None,
    if_not_exists: bool,
) -> None:
    """Create a table, or without columns a database."""
    if columns is None:
        if primary_key or partition_by or not _is_database(name):
            raise InvalidArgument(f"{name}: a table needs columns, such as 'id BIGINT, name STRING'; nothing was made")
        open_catalog().create_database(name, properties=options, comment=comment, ignore_if_exists=if_not_exists)
        typer.echo(shown(f"database {name}"))
        return
    catalog, table = place(name)
    made = catalog.create_table(
        table,
        schema=columns,
        primary_keys=primary_key,
        partition_keys=partition_by,
        options=options,
        comment=comment,
        ignore_if_exists=if_not_exists,
    )
    typer.echo(shown(f"table {table}: {made.path}"))


def alter(
    path: str,
    branch: str | None,
    *,
    add: Mapping[str, str],
    drop: Sequence[str],
    rename: Mapping[str, str],
    types: Mapping[str, str],
    lossy: bool,
    options: Mapping[str, str],
    unset: Sequence[str],
    comment: str | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Change columns and options, in one schema. Raises `InvalidArgument` where no change is asked for."""
    if not (add or drop or rename or types or options or unset or comment is not None):
        raise InvalidArgument("no change was asked for: --add, --drop, --rename, --type, --set, --unset or --comment")
    if _is_database(path) and knows_names() and not Path(path).exists():
        if add or drop or rename or types or branch is not None:
            raise InvalidArgument(f"{path} is a database, which has no columns; nothing was changed")
        _alter_database(path, options, unset, comment, yes=yes, dry_run=dry_run)
        return
    table = open_table(path, branch)
    gone = f"drop {plural(len(drop), 'column')} of {table.name}: {', '.join(drop)}"
    others = [
        *(f"rename {name} to {new}" for name, new in rename.items()),
        *(f"make {name} {kind}" for name, kind in types.items()),
        *(f"add {name} {kind}" for name, kind in add.items()),
        *(f"set {name}={value}" for name, value in without_secrets(options).items()),
        *(f"unset {name}" for name in unset),
        *(["set the comment"] if comment is not None else []),
    ]
    deed = gone if drop else f"alter {table.name}"
    if dry_run and others:
        deed += f"{', ' if drop else ': '}{', '.join(others)}"
    if (drop or dry_run) and not may(deed, yes=yes, dry_run=dry_run):
        return
    with table.alter() as batch:
        for name, new in rename.items():
            batch.rename_column(name, new)
        for name in drop:
            batch.drop_column(name)
        for name, kind in types.items():
            batch.set_type(name, kind, lossy=lossy)
        for name, kind in add.items():
            batch.add_column(name, kind)
        if options:
            batch.set_options(options)
        if unset:
            batch.unset_options(*unset)
        if comment is not None:
            batch.set_table_comment(comment or None)
    typer.echo(f"schema {table.schemas()[-1].id}")


def _alter_database(
    name: str, options: Mapping[str, str], unset: Sequence[str], comment: str | None, *, yes: bool, dry_run: bool
) -> None:
    told = [*(f"set {key}={value}" for key, value in without_secrets(options).items()), *(f"unset {k}" for k in unset)]
    told += ["set the comment"] if comment is not None else []
    if dry_run and not may(f"alter the database {name}: {', '.join(told)}", yes=yes, dry_run=dry_run):
        return
    open_catalog().alter_database(name, options, unset=unset, comment=comment)
    typer.echo(shown(f"database {name} altered"))


def drop(name: str, if_exists: bool, cascade: bool, *, yes: bool, dry_run: bool) -> None:
    """Drop a table or a database."""
    if _is_database(name):
        _drop_database(open_catalog(), name, if_exists, cascade, yes=yes, dry_run=dry_run)
        return
    catalog, table = place(name)
    try:
        found = catalog.table(table)
    except (TableNotFound, DatabaseNotFound):
        if not if_exists:
            raise
        typer.echo("nothing to do")
        return
    deed = f"drop {table} in {catalog.warehouse} with {plural(len(found.snapshots()), 'snapshot')}"
    if may(deed, yes=yes, dry_run=dry_run):
        catalog.drop_table(table, ignore_if_not_exists=if_exists)
        typer.echo(shown(f"table {table} dropped"))


def _drop_database(
    catalog: morrow.Catalog, name: str, if_exists: bool, cascade: bool, *, yes: bool, dry_run: bool
) -> None:
    if if_exists and name not in catalog.databases():
        typer.echo("nothing to do")
        return
    tables = catalog.tables(name)
    if tables and not cascade:
        raise InvalidArgument(f"the database {name} has {plural(len(tables), 'table')}: give --cascade")
    if may(f"drop the database {name} with {plural(len(tables), 'table')}", yes=yes, dry_run=dry_run):
        catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=if_exists)
        typer.echo(shown(f"database {name} dropped"))


def rename(name: str, new: str) -> None:
    """Rename a table or a database."""
    if _is_database(name):
        if not _is_database(new):
            raise InvalidArgument(f"{new!r} is no name of a database, as {name!r} is; nothing was renamed")
        open_catalog().rename_database(name, new)
    else:
        catalog, table = place(name)
        if not is_name(new):
            raise InvalidArgument(f"{new!r}: the new name is db.table; nothing was renamed")
        catalog.rename_table(table, new)
    typer.echo(shown(f"{name} renamed to {new}"))


def _is_database(name: str) -> bool:
    return "." not in name and "/" not in name


def _is_there(catalog: morrow.Catalog) -> bool:
    return "://" in catalog.warehouse or Path(catalog.warehouse).is_dir()
