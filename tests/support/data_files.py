"""Data files of `TableFactory`: Paimon's system columns, key order, and one writer per file format."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet

from morrow.engine.format import types as t

KIND_CODES: dict[Any, int] = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
FIRST_KEY_ID = 2**30 - 1
SEQUENCE_ID = 2**31 - 2
VALUE_KIND_ID = 2**31 - 3
BLOB_MAGIC = bytes.fromhex("cf114e58")
BLOB_LENGTH_BYTES = 8


def stored_table(
    table: pa.Table,
    fields: Sequence[t.DataField],
    keys: Sequence[t.DataField],
    sequence: np.ndarray[Any, Any],
    kinds: np.ndarray[Any, Any],
) -> pa.Table:
    """Build a primary-key data file: ``_KEY_<k>``..., sequence number, row kind, then the value columns."""
    system = [(pa.field(f"_KEY_{k.name}", k.type.arrow(), nullable=False), table.column(k.name)) for k in keys]
    system.append((pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False), pa.array(sequence, pa.int64())))
    system.append((pa.field("_VALUE_KIND", pa.int8(), nullable=False), pa.array(kinds, pa.int8())))
    columns = [column for _, column in system] + [table.column(f.name) for f in fields]
    return pa.table(columns, schema=pa.schema([field for field, _ in system] + [f.arrow() for f in fields]))


def key_order(table: pa.Table, keys: Sequence[t.DataField], sequence: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sort a file's rows by key, then sequence number; texts as UTF-8 bytes, floats as Java does."""
    columns = {f"k{i}": _sortable(table.column(k.name)) for i, k in enumerate(keys)}
    columns["sequence"] = pa.chunked_array([pa.array(sequence)])
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    return np.asarray(order.to_numpy())


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert floats to integers in the order of ``Double.compare``: -0.0 before 0.0, NaN last."""
    if not pa.types.is_floating(column.type):
        return column
    bits = column.cast(pa.float64()).to_numpy().view(np.int64)
    return pa.chunked_array([pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))])


def _field_id(name: str, ids: dict[str, int]) -> int:
    system = {"_SEQUENCE_NUMBER": SEQUENCE_ID, "_VALUE_KIND": VALUE_KIND_ID}
    if name in ids:
        return ids[name]
    return system[name] if name in system else FIRST_KEY_ID + ids[name.removeprefix("_KEY_")]


def write_parquet(
    table: pa.Table,
    fields: Sequence[t.DataField],
    path: Path,
    row_group_size: int | None,
    *,
    store_schema: bool = False,
) -> None:
    """Write Parquet with Java's field ids; timestamps are 64-bit integers, so at most microseconds."""
    ids = {f.name: f.id for f in fields}
    schema = pa.schema([f.with_metadata({"PARQUET:field_id": str(_field_id(f.name, ids))}) for f in table.schema])
    pyarrow.parquet.write_table(
        table.cast(schema),
        path,
        row_group_size=row_group_size,
        compression="zstd",
        store_schema=store_schema,
        write_page_checksum=True,
    )


def write_orc(table: pa.Table, fields: Sequence[t.DataField], path: Path, row_group_size: int | None) -> None:  # noqa: ARG001
    """Write ORC; times are stored as integers, since ORC lacks a time of day and Java writes milliseconds.

    Vectors are stored as lists.
    """
    plain = pa.schema([f.with_type(_to_orc_type(f.type)) for f in table.schema])
    pyarrow.orc.write_table(table.cast(plain), path, compression="zstd")


def _to_orc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field)
    return pa.int32() if pa.types.is_time(kind) else kind


def _encode_varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def blob_file(values: Sequence[bytes | None], version: int = 1, *, unchecked: int = 0) -> bytes:
    """Write a blob file whose checksums leave out the last `unchecked` bytes of a record."""
    records, lengths = b"", []
    for value in values:
        if value is None:
            lengths.append(-1)
            continue
        length = len(value) + 16
        body = BLOB_MAGIC + value + length.to_bytes(8, "little")
        records += body + zlib.crc32(body[: len(body) - unchecked]).to_bytes(4, "little")
        lengths.append(length)
    index = b"".join(_encode_varint(b - a) for a, b in zip([0, *lengths], lengths, strict=False))
    return records + index + len(index).to_bytes(4, "little") + bytes([version])


FORMATS: dict[str, Callable[[pa.Table, Sequence[t.DataField], Path, int | None], None]] = {
    "parquet": write_parquet,
    "orc": write_orc,
}
