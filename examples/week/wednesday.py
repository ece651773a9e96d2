"""Wednesday: the schema changes. A type that stored values do not fit is refused."""

from __future__ import annotations

from pathlib import Path

import morrow


def run(warehouse: Path, rows: int) -> None:
    """Add, widen and refuse."""
    catalog = morrow.Catalog(warehouse / "lake")
    orders, users = catalog.table("shop.orders"), catalog.table("shop.users")
    orders.alter.add_column("note", "STRING")
    orders.alter.set_type("address.floor", "BIGINT")
    try:
        users.alter.set_type("zip", "INT")
    except morrow.MorrowError as error:
        print(f"   refused: {error}")
    else:
        raise AssertionError("zip codes with zeros became numbers")
    assert users.scan(filter="zip = '00001'").count() > 0
    assert orders.doctor(data=True).healthy
    assert orders.scan().count() == rows - 1
