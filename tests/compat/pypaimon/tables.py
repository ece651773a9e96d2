"""Tables that programs make, write and read as they do with pypaimon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import Schema

COLUMNS = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("dt", pa.string()), ("at", pa.struct([("x", pa.int32())]))]
)
ROWS = [
    {"id": 1, "name": "apple", "dt": "a", "at": {"x": 1}},
    {"id": 2, "name": None, "dt": "a", "at": None},
    {"id": 3, "name": "a%b", "dt": "b", "at": {"x": 3}},
]
DATA = pa.Table.from_pylist(ROWS, COLUMNS)


def make(
    catalog: pypaimon.Catalog, name: str = "db.t", rows: pa.Table = DATA, **options: Any
) -> pypaimon.FileStoreTable:
    """Make a table with these rows."""
    catalog.create_table(name, Schema.from_pyarrow_schema(rows.schema, **options), False)
    table = catalog.get_table(name)
    if rows.num_rows:
        write(table, rows)
    return table


def write(table: pypaimon.FileStoreTable, rows: pa.Table, replaced: dict[str, Any] | None = None) -> None:
    builder = table.new_batch_write_builder()
    if replaced is not None:
        builder.overwrite(replaced)
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any, change: Callable[[Any], Any] = lambda builder: builder) -> list[dict[str, Any]]:
    return read_by(change(table.new_read_builder()))


def read_by(builder: Any) -> list[dict[str, Any]]:
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    return sorted(rows, key=lambda row: str(row.get("id", row)))
