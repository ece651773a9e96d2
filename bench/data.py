"""Rows of the measured tables: 8 columns of an order table, identical on every machine.

Row number n gives the key: `id` 2n as BIGINT, or (`customer`, `line`) for the table with a composite key, both
ascending in n. A base contains every row number of a range. An update contains a sample of them, and odd ids that the
base lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]

BIGINT_KEY = ("id",)
COMPOSITE_KEY = ("customer", "line")

FIELDS = {
    "id": "BIGINT",
    "customer": "STRING",
    "line": "INT",
    "city": "STRING",
    "amount": "DOUBLE",
    "quantity": "INT",
    "price": "DOUBLE",
    "created": "TIMESTAMP(6)",
    "paid": "BOOLEAN",
}
"""`created` ascends with the key, so a range prunes row groups. `amount` is uniform in [0, 1000) and prunes none."""

LINES = 20
"""Lines of an order: the second key column repeats 0..19."""

CITIES = tuple(f"{name} {number}" for name in ("Oslo", "Porto", "Quito", "Riga", "Sofia") for number in range(10))
SPRING = np.datetime64("2024-03-01T00:00:00", "us")


def fields(key: tuple[str, ...]) -> dict[str, str]:
    """Return name -> Paimon type of the 8 columns of a table with this key, or without a key."""
    left_out = "id" if key == COMPOSITE_KEY else "line"
    return {name: kind + " NOT NULL" * (name in key) for name, kind in FIELDS.items() if name != left_out}


def rows(ids: Ids, key: tuple[str, ...], seed: int) -> pl.DataFrame:
    """Make one row per id, in the order of `ids` (int64)."""
    random = np.random.default_rng(seed)
    count = len(ids)
    orders = pl.DataFrame({"id": ids}).select(
        "id",
        customer=pl.format("customer-{}", (pl.col("id") // LINES).cast(pl.String).str.zfill(9)),
        line=(pl.col("id") % LINES).cast(pl.Int32),
        city=pl.Series(CITIES).gather(pl.Series(random.integers(0, len(CITIES), count))),
        amount=pl.Series(random.random(count) * 1000).round(2),
        quantity=pl.Series(random.integers(1, 100, count, dtype=np.int32)),
        price=pl.Series(random.random(count) * 90).round(2),
        created=pl.Series(SPRING + (ids * 250_000).astype("timedelta64[us]")),
        paid=pl.Series(random.random(count) < 0.8),
    )
    return orders.select(*fields(key))


def without(frame: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """Return the same rows with nulls in `columns`."""
    return frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in columns)


def base_ids(first: int, count: int) -> Ids:
    """Return the ids of rows first .. first + count."""
    return np.arange(first, first + count, dtype=np.int64) * 2


def update_ids(base_rows: int, count: int, seed: int, new: float = 0.2) -> Ids:
    """Return the ascending ids of an update: keys of the base, spread evenly, and a share `new` of others."""
    random = np.random.default_rng(seed)
    unknown = round(count * new)
    old = random.choice(base_rows, count - unknown, replace=False).astype(np.int64) * 2
    fresh = random.choice(base_rows, unknown, replace=False).astype(np.int64) * 2 + 1
    return np.sort(np.concatenate([old, fresh]))


def new_ids(updates: Sequence[Ids]) -> int:
    """Count the ids that updates have and the base lacks."""
    return len(np.unique(np.concatenate([np.zeros(0, np.int64), *(ids[ids % 2 == 1] for ids in updates)])))
