"""Thursday: who wrote what, how much it takes, and what can go."""

from __future__ import annotations

from pathlib import Path

import morrow


def run(warehouse: Path, rows: int) -> None:
    """Write with properties, read the history, compact and expire."""
    catalog = morrow.Catalog(warehouse / "lake")
    orders = catalog.table("shop.orders")
    orders.update({"note": "'checked'"}, "id < 20", properties={"job": "nightly-check"})
    newest = orders.history().row(0, named=True)
    print(f"   {newest['operation']} by {newest['commit_user']}: {newest['properties']}")

    before = orders.storage()
    orders.tags.create("before-friday")
    orders.compact(full=True)
    orders.expire_snapshots(retain_max=1, retain_min=1)
    print(before)
    print(orders.storage())
    print(orders.doctor())
    assert orders.scan(filter="note = 'checked'").count() == 19
    assert orders.scan().count() == rows - 1
