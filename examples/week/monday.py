"""Monday: moving in. Files of three kinds become tables; nothing is read in another sense than it was written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl

import morrow

FIRST_DAY = dt.date(2026, 6, 1)
DAYS = 4


def make_orders(rows: int) -> pl.DataFrame:
    """Return made orders: id, day, user, amount, zip code, address."""
    number = pl.int_range(rows, dtype=pl.Int64, eager=True).alias("id")
    user = number % max(rows // 10, 1)
    return pl.DataFrame({"id": number, "user_id": user}).with_columns(
        day=pl.lit(FIRST_DAY) + pl.duration(days=pl.col("id") % DAYS),
        amount=(pl.col("id") % 9_973).cast(pl.Float64) / 4,
        zip=pl.format("{}", pl.col("user_id") % 90_000).str.zfill(5),
        address=pl.struct(city=pl.format("city {}", pl.col("user_id") % 50), floor=(pl.col("id") % 7).cast(pl.Int32)),
    )


def run(warehouse: Path, rows: int) -> None:
    """Import a folder of Parquet files, CSV files with zip codes, and a frame."""
    old, orders = warehouse / "old", make_orders(rows)
    for (day,), part in orders.partition_by("day", as_dict=True, include_key=False).items():
        part.write_parquet(old / f"orders/day={day}/part-0.parquet", mkdir=True)
    (old / "users").mkdir(parents=True, exist_ok=True)
    users = orders.select("user_id", "zip").unique("user_id").sort("user_id")
    users.write_csv(old / "users/a.csv")

    catalog = morrow.Catalog(warehouse / "lake")
    plan = catalog.import_table(
        old / "orders", "shop.orders", primary_keys=["day", "id"], options={"bucket": 2}, dry_run=True
    )
    print(plan)
    table = plan.run()
    assert table.partition_keys == ("day",)
    assert table.scan().count() == rows
    catalog.import_table(old / "orders", "shop.orders")  # each file once: nothing is added
    assert table.scan().count() == rows

    people = catalog.import_table(old / "users", "shop.users")
    assert people.schema.field("zip").type == "string", "a zip code would lose its zeros as a number"

    clicks = pl.DataFrame({"user_id": np.arange(rows // 10), "page": "home"})
    catalog.import_table(clicks, "shop.clicks")
    print(f"   tables: {', '.join(catalog.tables())}")
