"""Tuesday: questions and changes, in Python and in SQL, with options for one read or one session."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import morrow


def run(warehouse: Path, rows: int) -> None:
    """Change orders, and ask about them in each way."""
    catalog = morrow.Catalog(warehouse / "lake")
    orders = catalog.table("shop.orders")
    first = orders.snapshots()[-1]

    orders.upsert(orders.scan(filter="id < 100").to_polars().with_columns(amount=pl.lit(1.0)))
    orders.update({"amount": "amount + 1"}, "id < 10")
    orders.delete("id = 3")
    total = catalog.sql("SELECT count(*), sum(amount) FROM shop.orders WHERE id < $limit", params={"limit": 100})
    assert total.fetchall() == [(99, 99.0 + 9)]

    cities = orders.scan(["id", "address.city"], "amount BETWEEN 0.5 AND 2.5 AND id < 100").to_polars()
    assert cities.columns == ["id", "city"]
    assert cities.height == 99

    catalog.sql(f"SET 'paimon.shop.orders.scan.snapshot-id' = '{first.id}'")
    assert catalog.sql("SELECT count(*) FROM shop.orders").fetchall() == [(rows,)]
    catalog.sql("RESET 'paimon.shop.orders.scan.snapshot-id'")
    assert catalog.sql("SELECT count(*) FROM shop.orders").fetchall() == [(rows - 1,)]
    assert orders.with_options({"scan.snapshot-id": str(first.id)}).scan().count() == rows
    print(orders.scan(filter="id = 7").explain())
