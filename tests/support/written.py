"""Tables that Morrow writes itself, for tests of writing."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

import morrow
from morrow.engine.io.local import disable_fsync
from morrow.engine.plan.metadata import METADATA_CACHE


def new_table(
    folder: Path,
    schema: str,
    *,
    keys: Sequence[str] = (),
    by: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    name: str = "t",
) -> morrow.Table:
    """Make an empty table ``db.<name>`` with the primary key `keys`, partitioned by `by`."""
    return morrow.Catalog(folder).create_table(
        f"db.{name}", schema=schema, primary_keys=keys, partition_keys=by, options=options
    )


def renamed_by_others(table: morrow.Table, names: Mapping[str, str]) -> morrow.Table:
    """Rename columns and members of an empty table in its only schema file, even to names that Morrow refuses."""
    file = Path(table.path) / "schema" / "schema-0"
    text = file.read_text()
    for old, new in names.items():
        text = re.sub(rf'"{old}"(?= *,)', f'"{new}"', text)
    file.write_text(text)
    METADATA_CACHE.clear()
    return morrow.open(table.path)


def with_packed_blobs(folder: Path) -> tuple[morrow.Table, Path]:
    """Make a table with a key and BLOBs as Paimon 2.0 does, with descriptors in rows and blobs in a pack.

    Returns: the table, and the pack, an old file that no manifest names.
    """
    table = new_table(folder, "k INT NOT NULL, v INT, photo BYTES", keys=["k"], options={"bucket": 1})
    table.append([{"k": 1, "v": 1, "photo": b"\1descriptor"}])
    table.tags.create("t")
    schema = Path(table.path) / "schema/schema-0"
    schema.write_text(schema.read_text().replace("BYTES", "BLOB"))
    pack = Path(table.path) / "bucket-0/data-0d4d3b4c-8dbb-4fdc-b5b9-6f2b5b7b3d52-0.managed.blob"
    pack.write_bytes(b"a photo")
    os.utime(pack, (0, 0))
    return morrow.open(table.path), pack


def made_once(name: str, folder: Path, make: Callable[[Path], morrow.Table]) -> morrow.Table:
    """Make the table ``db.t`` in a folder, or copy it if this process has already made one under this name."""
    template = Path(_templates().name) / name
    if not template.exists():
        with disable_fsync():
            make(template)
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return morrow.Catalog(folder).table("db.t")


@functools.cache
def _templates() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="templates-")


def rows(table: morrow.Table, **scan: Any) -> list[tuple[Any, ...]]:
    """Read all rows and sort them."""
    frame: pl.DataFrame = table.scan(**scan).to_polars()
    return sorted(frame.rows(), key=lambda row: tuple((value is None, value) for value in row))


def data_files(folder: Path) -> set[Path]:
    """Return all files of a table except its schema files."""
    return {path for path in folder.rglob("*") if path.is_file() and path.parent.name != "schema"}
