"""Tables that Morrow writes itself, for tests of writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import morrow


def new_table(
    folder: Path,
    schema: str,
    *,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    name: str = "t",
) -> morrow.Table:
    """Makes an empty table ``db.<name>`` with the primary key `keys`, partitioned by `by`."""
    return morrow.Catalog(folder).create_table(
        f"db.{name}", schema=schema, primary_keys=keys, partition_keys=by, options=options
    )


def rows(table: morrow.Table, **scan: Any) -> list[tuple[Any, ...]]:
    """Reads all rows, sorted."""
    frame: pl.DataFrame = table.scan(**scan).to_polars()
    return sorted(frame.rows(), key=lambda row: tuple((value is None, value) for value in row))


def data_files(folder: Path) -> set[Path]:
    """Lists all files of a table but those of its schema."""
    return {path for path in folder.rglob("*") if path.is_file() and path.parent.name != "schema"}
