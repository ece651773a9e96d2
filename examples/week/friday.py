"""Friday: a person asks to be forgotten, and a program for pypaimon reads what is left."""

from __future__ import annotations

from pathlib import Path

from pyarrow import csv

import morrow
from morrow.compat.pypaimon import CatalogFactory

PERSON = 7


def run(warehouse: Path, rows: int) -> None:
    """Erase a person from all tables and their history, then read on."""
    catalog = morrow.Catalog(warehouse / "lake")
    for name in ("shop.orders", "shop.users", "shop.clicks"):
        table = catalog.table(name)
        print(table.erase(f"user_id = {PERSON}", history=True, dry_run=True))
        receipt = table.erase(f"user_id = {PERSON}", history=True, older_than="0 s")
        print(receipt)
        assert receipt.complete
        assert table.scan(filter=f"user_id = {PERSON}").count() == 0
    assert catalog.table("shop.orders").scan().count() < rows

    users = CatalogFactory.create({"warehouse": str(warehouse / "lake")}).get_table("shop.users")
    read_builder = users.new_read_builder()
    splits = read_builder.new_scan().plan().splits()
    left = read_builder.new_read().to_arrow(splits)
    assert left.num_rows == catalog.table("shop.users").scan().count()
    csv.write_csv(left.select(["user_id", "zip"]), warehouse / "users.csv")
