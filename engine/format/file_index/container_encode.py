"""Encoders of data file indexes and of the container that holds them; `container` describes the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.file_index import (
    bitmap,
    bitmap_encode,
    bloom_filter,
    bloom_filter_encode,
    bsi,
    bsi_encode,
    range_bitmap,
    range_bitmap_encode,
)
from morrow.engine.format.file_index.container import INDEX_KINDS, MAGIC, NO_ROWS, VERSION
from morrow.engine.format.file_index.keys import KINDS
from morrow.engine.format.file_index.keys_encode import ColumnKeys, column_keys
from morrow.engine.format.types import DataField, DataType

FIXED_HEAD = 8 + 4 + 4 + 4
"""Magic, version, size of the head, number of columns."""
LONGEST_NAME = 2**16 - 1

ENCODERS: Mapping[str, Callable[[ColumnKeys, Mapping[str, str]], bytes]] = {
    bloom_filter.NAME: bloom_filter_encode.encode,
    bitmap.NAME: bitmap_encode.encode,
    bsi.NAME: bsi_encode.encode,
    range_bitmap.NAME: range_bitmap_encode.encode,
}


def check_kind(kind: str, data_type: DataType, name: str) -> None:
    """Refuses an index that Java would not build either.

    Raises:
        Unsupported: an unknown kind, or one that has no keys for the type of the column.
    """
    if kind not in ENCODERS:
        raise Unsupported(f"the file index {kind!r}", hint=f"known kinds: {', '.join(sorted(ENCODERS))}")
    if type(data_type) not in KINDS or not INDEX_KINDS[kind].supports(data_type):
        raise Unsupported(f"a {kind} index on the column {name!r} of type {data_type}")


def build_index(column: pl.Series, field: DataField, kind: str, options: Mapping[str, str]) -> bytes:
    """Returns one index of one column of a data file.

    Args:
        column: all values of the file in file order, in the dtype in which frames hold the type; nulls allowed.
        field: the column; of a MAP key the values' type.
        kind: ``bloom-filter``, ``bitmap``, ``bsi`` or ``range-bitmap``.
        options: the parameters of the index: ``items`` and ``fpp``; ``version`` and ``index-block-size``; none;
            ``chunk-size``.

    Raises:
        Unsupported: the kind, or the type of the column for this kind.
        InvalidArgument: a parameter that does not parse or is out of range.
    """
    check_kind(kind, field.type, field.name)
    return ENCODERS[kind](column_keys(column, field.type), options)


def write_container(columns: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Returns the container of these indexes.

    Args:
        columns: the indexes by column (``col[key]`` for a key of a MAP column) and kind, None where no row was indexed;
            they are written in this order.

    Raises:
        InvalidArgument: a name longer than the 65,535 bytes that its length field can hold.
    """
    names = sum(len(_utf(name)) + 4 for name in columns)
    size = FIXED_HEAD + names + sum(len(_utf(kind)) + 8 for kinds in columns.values() for kind in kinds) + 4
    head = [struct.pack(">qiii", MAGIC, VERSION, size, len(columns))]
    bodies: list[bytes] = []
    at = size
    for name, kinds in columns.items():
        head.append(_utf(name) + struct.pack(">i", len(kinds)))
        for kind, body in kinds.items():
            head.append(_utf(kind) + struct.pack(">ii", NO_ROWS if body is None else at, len(body or b"")))
            bodies.append(body or b"")
            at += len(body or b"")
    return b"".join([*head, struct.pack(">i", 0), *bodies])


def _utf(text: str) -> bytes:
    """Encodes text as `DataOutput.writeUTF` does: NUL in two bytes, characters beyond the BMP as two surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(unit) for unit in struct.unpack(f">{len(units) // 2}H", units))
    raw = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(raw) > LONGEST_NAME:
        raise InvalidArgument(f"a name of {len(raw)} bytes in a file index; at most {LONGEST_NAME} fit")
    return struct.pack(">H", len(raw)) + raw
