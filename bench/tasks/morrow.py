"""The ten tasks with Morrow."""

import polars as pl

import morrow

NAME = "Morrow"
IMPOSSIBLE = {}


def everything(folder):
    return morrow.open(f"{folder}/db.db/t").to_arrow()


def create(folder, rows):
    table = morrow.Catalog(folder).create_table("db.t", schema=rows.schema, primary_keys="id")
    table.append(rows)


def upsert(folder, rows):
    morrow.open(f"{folder}/db.db/t").upsert(rows)


def read(folder):
    return morrow.open(f"{folder}/db.db/t").to_arrow(["id", "amount"], "amount > 98")


def aggregate(folder):
    return morrow.scan(f"{folder}/db.db/t").group_by("name").agg(pl.col("amount").sum()).collect()


def update(folder):
    morrow.open(f"{folder}/db.db/t").update({"amount": "amount + 1"}, where="id < 1000")


def delete(folder):
    morrow.open(f"{folder}/db.db/t").delete("id >= 104000")


def travel(folder):
    return morrow.open(f"{folder}/db.db/t").to_arrow(snapshot=1)


def changes(folder):
    return morrow.open(f"{folder}/db.db/t").changes(1, 2).to_arrow()


def evolve(folder, rows):
    morrow.open(f"{folder}/db.db/t").upsert(rows, schema_mode="merge")


def compact(folder):
    table = morrow.open(f"{folder}/db.db/t")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
