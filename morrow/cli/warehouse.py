"""Commands for warehouses: ``morrow ls``, ``create``, ``alter``, ``drop``, ``rename``, ``demo``, ``spark-sql`` and
``thrift-server``.

The warehouse of ``demo`` is generated deterministically, except for ids and times.
"""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.cli.targets import has_catalog, is_name, open_catalog, open_table, resolve_name
from morrow.cli.terminal import confirm, show_progress
from morrow.engine.catalog.filesystem import check_warehouse
from morrow.engine.errors import (
    AlreadyExists,
    CorruptFile,
    DatabaseNotFound,
    FileMissing,
    InvalidArgument,
    TableNotFound,
    Unsupported,
)
from morrow.engine.names import cols
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import clean_text, hide_secrets
from morrow.engine.units import format_count

TABLES = pa.schema([("database", pa.string()), ("table", pa.string())])

LONG = pa.schema(
    [
        *TABLES,
        ("kind", pa.string()),
        *((name, pa.int64()) for name in ("rows", "files", "live_bytes", "history_bytes")),
        *((name, pa.int64()) for name in ("snapshots", "tags", "branches")),
        ("changed", pa.timestamp("ms", "UTC")),
    ]
)
"""`rows` are stored rows of the newest snapshot, before merging; `history_bytes` are kept by snapshots, tags, branches
and changelogs alone. Null for tables in other formats, and for damaged ones."""


def write_listing(what: str | None, long: bool, form: Format, output: Path | None) -> None:
    """Write databases and tables. Databases without tables come last, with a null."""
    by_name = what is not None and has_catalog() and "/" not in what and what not in (".", "..")
    catalog = open_catalog(None if by_name else what)
    check_warehouse(catalog._catalog)
    if not by_name and not catalog.databases() and not _is_there(catalog):
        raise DatabaseNotFound(f"{catalog.warehouse}: there is no warehouse of this name, or it has no databases")
    if long:
        long_rows = [
            _build_long_row(catalog, database, name)
            for database in ([what] if by_name and what is not None else catalog.databases())
            for name in catalog.tables(database)
        ]
        write_rows(LONG, pa.Table.from_pylist(long_rows, LONG).to_batches(), form, output)
        return
    with show_progress("listing"):
        databases = [what] if by_name and what is not None else catalog.databases()
        found = {database: catalog.tables(database) for database in databases}
        rows = [{"database": database, "table": name} for database, names in found.items() for name in names]
        rows += [{"database": database} for database, names in found.items() if not names]
    write_rows(TABLES, pa.Table.from_pylist(rows, TABLES).to_batches(), form, output)


def _build_long_row(catalog: morrow.Catalog, database: str, name: str) -> dict[str, object]:
    row: dict[str, object] = {"database": database, "table": name}
    try:
        table = catalog.table(f"{database}.{name}")
        storage, snapshots = table.storage(), table.snapshots()
    except Unsupported:
        return row
    except (CorruptFile, FileMissing) as error:
        typer.echo(clean_text(f"{database}.{name}: {error}"), err=True)
        return row
    live = storage.filter(pl.col("kept_by") == "live")
    whole, live_bytes = int(storage["bytes"].sum()), int(live["bytes"].sum())
    keyed = f"primary key ({', '.join(table.primary_keys)})" if table.primary_keys else "append"
    newest = snapshots[-1] if snapshots else None
    return {
        **row,
        "kind": keyed,
        "rows": 0 if newest is None else newest.total_record_count,
        "files": live["files"].sum(),
        "live_bytes": live_bytes,
        "history_bytes": whole - live_bytes,
        "snapshots": len(snapshots),
        "tags": len(table.tags),
        "branches": len(table.branches),
        "changed": None if newest is None else newest.time,
    }


def create(
    name: str,
    columns: str | None,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, str],
    comment: str | None,
    if_not_exists: bool,
) -> None:
    """Create a table, or a database if no columns are given."""
    if columns is None:
        if primary_key or partition_by or not _is_database(name):
            raise InvalidArgument(f"{name}: a table needs columns, such as 'id BIGINT, name STRING'; nothing was made")
        open_catalog().create_database(name, properties=options, comment=comment, ignore_if_exists=if_not_exists)
        typer.echo(clean_text(f"database {name}"))
        return
    catalog, table = resolve_name(name)
    made = catalog.create_table(
        table,
        schema=columns,
        primary_keys=primary_key,
        partition_keys=partition_by,
        options=options,
        comment=comment,
        ignore_if_exists=if_not_exists,
    )
    typer.echo(clean_text(f"table {table}: {made.path}"))


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
    """Change columns and options, in one schema version. Raises `InvalidArgument` if no change is requested."""
    if not (add or drop or rename or types or options or unset or comment is not None):
        raise InvalidArgument("no change was asked for: --add, --drop, --rename, --type, --set, --unset or --comment")
    if _is_database(path) and has_catalog() and not Path(path).exists():
        if add or drop or rename or types or branch is not None:
            raise InvalidArgument(f"{path} is a database, which has no columns; nothing was changed")
        _alter_database(path, options, unset, comment, yes=yes, dry_run=dry_run)
        return
    table = open_table(path, branch)
    gone = f"drop {format_count(len(drop), 'column')} of {table.name}: {', '.join(drop)}"
    others = [
        *(f"rename {name} to {new}" for name, new in rename.items()),
        *(f"make {name} {kind}" for name, kind in types.items()),
        *(f"add {name} {kind}" for name, kind in add.items()),
        *(f"set {name}={value}" for name, value in hide_secrets(options).items()),
        *(f"unset {name}" for name in unset),
        *(["set the comment"] if comment is not None else []),
    ]
    deed = gone if drop else f"alter {table.name}"
    if dry_run and others:
        deed += f"{', ' if drop else ': '}{', '.join(others)}"
    if (drop or dry_run) and not confirm(deed, yes=yes, dry_run=dry_run):
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
    told = [*(f"set {key}={value}" for key, value in hide_secrets(options).items()), *(f"unset {k}" for k in unset)]
    told += ["set the comment"] if comment is not None else []
    if dry_run and not confirm(f"alter the database {name}: {', '.join(told)}", yes=yes, dry_run=dry_run):
        return
    open_catalog().alter_database(name, options, unset=unset, comment=comment)
    typer.echo(clean_text(f"database {name} altered"))


def drop(name: str, if_exists: bool, cascade: bool, *, yes: bool, dry_run: bool) -> None:
    """Drop a table or a database."""
    if _is_database(name):
        _drop_database(open_catalog(), name, if_exists, cascade, yes=yes, dry_run=dry_run)
        return
    catalog, table = resolve_name(name)
    try:
        found = catalog.table(table)
    except (TableNotFound, DatabaseNotFound):
        if not if_exists:
            raise
        typer.echo("nothing to do")
        return
    deed = f"drop {table} in {catalog.warehouse} with {format_count(len(found.snapshots()), 'snapshot')}"
    if confirm(deed, yes=yes, dry_run=dry_run):
        catalog.drop_table(table, ignore_if_not_exists=if_exists)
        typer.echo(clean_text(f"table {table} dropped"))


def _drop_database(
    catalog: morrow.Catalog, name: str, if_exists: bool, cascade: bool, *, yes: bool, dry_run: bool
) -> None:
    if if_exists and name not in catalog.databases():
        typer.echo("nothing to do")
        return
    tables = catalog.tables(name)
    if tables and not cascade:
        raise InvalidArgument(f"the database {name} has {format_count(len(tables), 'table')}: give --cascade")
    if confirm(f"drop the database {name} with {format_count(len(tables), 'table')}", yes=yes, dry_run=dry_run):
        catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=if_exists)
        typer.echo(clean_text(f"database {name} dropped"))


def rename(name: str, new: str) -> None:
    """Rename a table or a database."""
    if _is_database(name):
        if not _is_database(new):
            raise InvalidArgument(f"{new!r} is not the name of a database, as {name!r} is; nothing was renamed")
        open_catalog().rename_database(name, new)
    else:
        catalog, table = resolve_name(name)
        if not is_name(new):
            raise InvalidArgument(f"{new!r}: the new name is db.table; nothing was renamed")
        catalog.rename_table(table, new)
    typer.echo(clean_text(f"{name} renamed to {new}"))


def _is_database(name: str) -> bool:
    return "." not in name and "/" not in name


def _is_there(catalog: morrow.Catalog) -> bool:
    return "://" in catalog.warehouse or Path(catalog.warehouse).is_dir()


FIRST_DAY = date(2024, 5, 13)
DAYS, ORDERS, VISITS = 3, 1_200, 5_000
ITEMS = ("nut", "bolt", "screw", "washer")
CITIES = ("Aachen", "Köln", "Łódź", "New York")

TRY = (
    "morrow ls {}",
    "morrow describe {}/shop.db/orders",
    "morrow read {}/shop.db/orders --filter \"item = 'nut' AND amount > 40\" --limit 5",
    "morrow snapshots {}/shop.db/orders",
    "morrow diff {}/shop.db/orders opening sale --limit 5",
    "morrow count {}/shop.db/orders --tag opening",
    "morrow count {}/shop.db/orders --branch trial",
    "morrow partitions {}/shop.db/visits",
    "morrow explain {}/shop.db/visits --filter \"day = '2024-05-14'\"",
    "morrow read {}/shop.db/customers --limit 3",
    'morrow sql {} "SELECT item, count(*) AS orders, sum(amount) AS amount FROM shop.orders GROUP BY item ORDER BY 1"',
)


def create_demo(folder: Path) -> None:
    """Create the demo warehouse, and print commands to try.

    Raises `AlreadyExists`: the folder is not empty. `InvalidArgument`: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"{folder}: a file; name a folder for the warehouse")
    if folder.exists() and any(folder.iterdir()):
        raise AlreadyExists(f"{folder}: the folder has something in it; name another: morrow demo DIR")
    catalog = morrow.Catalog(folder)
    with show_progress("making tables"):
        _create_orders(catalog)
        _create_visits(catalog)
        _create_customers(catalog)
    for line in _list_hints(shlex.quote(str(folder))):
        typer.echo(clean_text(line))


def _list_hints(folder: str) -> Iterator[str]:
    yield f"A warehouse in {folder}:"
    yield "  shop.orders     primary key, partitions by day, deletion vectors; tags opening and sale, branch trial"
    yield "  shop.visits     rows appended, partitions by day"
    yield "  shop.customers  a partial-update feed: two sources fill the columns of the same rows"
    yield "Try:"
    for command in TRY:
        yield f"  {command.format(folder)}"


def _create_orders(catalog: morrow.Catalog) -> None:
    """Create a table with one commit per day, then corrections, a sale, and a branch without the sale."""
    table = catalog.create_table(
        "shop.orders",
        schema="day DATE, id BIGINT, item STRING, amount DECIMAL(10, 2), paid BOOLEAN",
        primary_keys=["day", "id"],
        partition_keys=["day"],
        options={"bucket": 1, "deletion-vectors.enabled": True},
        comment="orders of a small shop",
    )
    ids = pl.DataFrame({"id": range(ORDERS)}).with_columns(
        day=FIRST_DAY + pl.duration(days=pl.col("id") // (ORDERS // DAYS)),
        item=pl.lit(pl.Series(ITEMS)).gather(pl.col("id") * 7 % len(ITEMS)),
        amount=((pl.col("id") * 37 % 5_000 + 100) / 100).cast(pl.Decimal(10, 2)),
        paid=pl.col("id") % 5 != 0,
    )
    for day in range(DAYS):
        table.append(ids.filter(pl.col("day") == FIRST_DAY + timedelta(days=day)))
    table.tags.create("opening")
    table.branches.create("trial", tag="opening")
    table.delete("id % 50 = 3")
    table.update({"amount": "CAST(amount * 0.9 AS DECIMAL(10, 2))"}, where="item = 'bolt'")
    table.tags.create("sale")


def _create_visits(catalog: morrow.Catalog) -> None:
    table = catalog.create_table(
        "shop.visits", schema="day DATE, customer BIGINT, page STRING, seconds DOUBLE", partition_keys=["day"]
    )
    rows = pl.DataFrame({"n": range(VISITS)}).select(
        day=FIRST_DAY + pl.duration(days=pl.col("n") % DAYS),
        customer=pl.col("n") * 13 % 400,
        page="/" + pl.lit(pl.Series(ITEMS)).gather(pl.col("n") * 3 % len(ITEMS)),
        seconds=pl.col("n") * 17 % 600 / 10,
    )
    for part in rows.iter_slices(VISITS // 2):
        table.append(part)


def _create_customers(catalog: morrow.Catalog) -> None:
    """Create a table with names from one source and cities from another, each with its own sequence column."""
    table = catalog.create_table(
        "shop.customers",
        schema="id BIGINT, name_version INT, name STRING, city_version INT, city STRING",
        primary_keys=["id"],
        options={
            "bucket": 1,
            "merge-engine": "partial-update",
            "fields.name_version.sequence-group": "name",
            "fields.city_version.sequence-group": "city",
        },
    )
    ids, columns = pl.DataFrame({"id": range(400)}), cols(table.schema.names)
    nothing = {name: pl.lit(None, kind) for name, kind in (("name_version", pl.Int32), ("name", pl.String))}
    names = ids.with_columns(name_version=pl.lit(1, pl.Int32), name="customer " + pl.col("id").cast(pl.String))
    cities = ids.with_columns(
        city_version=pl.lit(2, pl.Int32), city=pl.lit(pl.Series(CITIES)).gather(pl.col("id") % len(CITIES))
    )
    table.append(names.with_columns(city_version=pl.lit(None, pl.Int32), city=pl.lit(None, pl.String)).select(columns))
    table.append(cities.with_columns(**nothing).select(columns))


def run_sql(
    warehouse: str | None, name: str, query: str | None, file: Path | None, conf: Mapping[str, str], form: Format
) -> None:
    """Run the statements of a text, a file or standard input in Spark, and write their rows."""
    with require_extra("spark-sql", "pyspark", "spark"):
        from pyspark.errors import PySparkException

    from morrow.spark.servers import open_session, run_statements
    from morrow.spark.versions import to_arrow

    text = query if query is not None else file.read_text() if file is not None else sys.stdin.read()
    spark = open_session(open_catalog(warehouse), name, conf)
    try:
        for rows in run_statements(spark, text):
            if rows.columns:
                found = to_arrow(rows)
                write_rows(found.schema, found.to_batches(), form)
    except PySparkException as error:
        raise InvalidArgument(clean_text(str(error))) from error
    finally:
        spark.stop()


def serve(warehouse: str | None, name: str, host: str, port: int, conf: Mapping[str, str]) -> None:
    """Serve JDBC clients until a signal ends the process."""
    with require_extra("thrift-server", "pyspark", "spark"):
        from morrow.spark.servers import open_session, start_thrift_server

    spark = open_session(open_catalog(warehouse), name, conf)
    server = start_thrift_server(spark, host, port)
    typer.echo(f"{server.url} serves the catalog {name}; end it by Ctrl-C")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with suppress(KeyboardInterrupt):
        ended.wait()
    server.stop()
    spark.stop()
