"""The ten tasks with pyiceberg, in a catalog of SQLite."""

import polars as pl
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

NAME = "pyiceberg"
IMPOSSIBLE = {
    "changes": "no reads of changes",
    "compact": "no compaction; snapshots expire, their files stay",
}


def catalog(folder):
    return SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def everything(folder):
    return catalog(folder).load_table("db.t").scan().to_arrow()


def create(folder, rows):
    lake = catalog(folder)
    lake.create_namespace("db")
    fields = (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "amount", DoubleType()),
    )
    table = lake.create_table("db.t", schema=Schema(*fields, identifier_field_ids=[1]))
    table.append(rows.cast(table.schema().as_arrow()))


def upsert(folder, rows):
    table = catalog(folder).load_table("db.t")
    table.upsert(rows.cast(table.schema().as_arrow()))


def read(folder):
    return catalog(folder).load_table("db.t").scan("amount > 98", ("id", "amount")).to_arrow()


def aggregate(folder):
    table = catalog(folder).load_table("db.t")
    return pl.scan_iceberg(table).group_by("name").agg(pl.col("amount").sum()).collect()


def update(folder):
    table = catalog(folder).load_table("db.t")
    rows = table.scan("id < 1000").to_arrow()
    rows = rows.set_column(2, rows.schema.field(2), pc.add(rows["amount"], 1))
    table.overwrite(rows, "id < 1000")


def delete(folder):
    catalog(folder).load_table("db.t").delete("id >= 104000")


def travel(folder):
    table = catalog(folder).load_table("db.t")
    return table.scan(snapshot_id=table.history()[0].snapshot_id).to_arrow()


def evolve(folder, rows):
    table = catalog(folder).load_table("db.t")
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.overwrite(rows.cast(table.schema().as_arrow()), "id = 0")
