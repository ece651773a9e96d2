"""The ten tasks with deltalake (delta-rs)."""

import polars as pl
from deltalake import DeltaTable, write_deltalake

NAME = "deltalake"
IMPOSSIBLE = {}


def everything(folder):
    return DeltaTable(f"{folder}/t").to_pyarrow_table()


def create(folder, rows):
    write_deltalake(f"{folder}/t", rows, configuration={"delta.enableChangeDataFeed": "true"})


def upsert(folder, rows):
    merge = DeltaTable(f"{folder}/t").merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def read(folder):
    return DeltaTable(f"{folder}/t").to_pyarrow_table(columns=["id", "amount"], filters=[("amount", ">", 98.0)])


def aggregate(folder):
    return pl.scan_delta(f"{folder}/t").group_by("name").agg(pl.col("amount").sum()).collect()


def update(folder):
    DeltaTable(f"{folder}/t").update(updates={"amount": "amount + 1"}, predicate="id < 1000")


def delete(folder):
    DeltaTable(f"{folder}/t").delete("id >= 104000")


def travel(folder):
    return DeltaTable(f"{folder}/t", version=0).to_pyarrow_table()


def changes(folder):
    return DeltaTable(f"{folder}/t").load_cdf(starting_version=1, ending_version=1).read_all()


def evolve(folder, rows):
    table = DeltaTable(f"{folder}/t")
    merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def compact(folder):
    table = DeltaTable(f"{folder}/t")
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
