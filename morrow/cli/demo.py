"""``morrow demo``: a small warehouse to try things on, made of numbers, the same each time but for ids and times."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import typer

import morrow
from morrow.cli.progress import working
from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.names import cols
from morrow.engine.telling import shown

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


def demo(folder: Path) -> None:
    """Make the warehouse, and say what to try on it.

    Raises:
        AlreadyExists: the folder has something in it. InvalidArgument: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"{folder}: a file; name a folder for the warehouse")
    if folder.exists() and any(folder.iterdir()):
        raise AlreadyExists(f"{folder}: the folder has something in it; name another: morrow demo DIR")
    catalog = morrow.Catalog(folder)
    with working("making tables"):
        _orders(catalog)
        _visits(catalog)
        _customers(catalog)
    for line in _told(shlex.quote(str(folder))):
        typer.echo(shown(line))


def _told(folder: str) -> Iterator[str]:
    yield f"A warehouse in {folder}:"
    yield "  shop.orders     primary key, partitions by day, deletion vectors; tags opening and sale, branch trial"
    yield "  shop.visits     rows appended, partitions by day"
    yield "  shop.customers  a partial-update feed: two sources fill the columns of the same rows"
    yield "Try:"
    for command in TRY:
        yield f"  {command.format(folder)}"


def _orders(catalog: morrow.Catalog) -> None:
    """Makes a table of one commit a day, then corrections, a sale, and a branch on which the sale did not happen."""
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


def _visits(catalog: morrow.Catalog) -> None:
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


def _customers(catalog: morrow.Catalog) -> None:
    """Names come from one source, cities from another, each with a version of its own."""
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
