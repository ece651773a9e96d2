"""Fractions of seconds before 1970 in ORC stripes.

A timestamp column is two integer streams: seconds since 2015, and nanoseconds. Writers round seconds towards zero where
there are more than 999,999 nanoseconds, and readers undo it; the nanoseconds themselves count upwards. Arrow's writer
writes negative nanoseconds before 1970 instead, which Java mishandles. Where a column has any, this module encodes both
of its streams and drops the statistics that Arrow made of it.

The last second before 1970 cannot be distinguished from the one after it. There, negative nanoseconds are kept, which
Java and Arrow read as long as they are whole milliseconds; others are refused.

Streams here are direct runs of run-length encoding version 2: a header of 2 bytes (2 bits: 1, 5 bits: code of the
width, 9 bits: count - 1), and up to 512 big-endian values.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.arrow_buffers import Ints, fixed_values
from morrow.engine.format.orc_columns import ZEROS_BITS
from morrow.engine.format.orc_layout import SECONDARY, OrcLayout
from morrow.engine.format.protobuf import Field, fields, message, numbered
from morrow.engine.units import NANOS_PER_MILLI, NANOS_PER_SECOND
from morrow.engine.values import replace
from morrow.writers.files.formats.orc_footer import STATISTICS, STRIPES, Tail, block_size, integer, split, stored

DATA, ROW_INDEX = 1, 6
STREAM_KIND, STREAM_COLUMN, STREAM_LENGTH = 1, 2, 3
STRIPE_STREAMS = 1
STRIPE_OFFSET, INDEX_LENGTH, DATA_LENGTH, FOOTER_LENGTH = 1, 2, 3, 4
STRIPE_STATISTICS, STRIPE_COLUMNS = 1, 1
INDEX_ENTRIES, ENTRY_STATISTICS = 1, 2
TIMESTAMP_BOUNDS = 9

ORC_EPOCH = 1_420_070_400
"""2015-01-01 in UTC."""
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
RUN = 512
DIRECT = 1
WIDTH_CODES = {5: 28, 8: 31}
"""Maps the bytes of a value to the code of that width."""


@dataclass(frozen=True)
class Times:
    """The non-null values of one timestamp column, as ORC stores them; `column` is its number in the file."""

    column: int
    seconds: Ints
    nanos: Ints


def early_times(columns: Sequence[pa.ChunkedArray], names: Sequence[str]) -> list[Times]:
    """Returns the timestamp columns of a block that have fractions of seconds before 1970.

    Raises:
        InvalidArgument: a time that ORC cannot hold.
    """
    found: list[Times] = []
    number = 1
    for column, name in zip(columns, names, strict=True):
        for leaf, array in _leaves(column, number):
            per_second = PER_SECOND[array.type.unit]
            ticks = fixed_values(array, "<i8") if len(array) else np.zeros(0, np.int64)
            if ((ticks < 0) & (ticks % per_second != 0)).any():
                found.append(_times(leaf, ticks, per_second, name))
        number += _nodes(column.type)
    return found


def with_times(file: pa.Buffer, times: Sequence[Times]) -> tuple[bytes, Tail]:
    """Returns the stripe of a file of one stripe, with replaced timestamps, and the tail of that file."""
    layout = OrcLayout(io.BytesIO(memoryview(file)), "a file in memory")
    _, tail = split(file)
    (stripe,) = (value for number, _, value in fields(tail.footer) if number == STRIPES and isinstance(value, bytes))
    block, columns = block_size(tail), {each.column for each in times}
    new = {(each.column, kind): data for each in times for kind, data in _encoded(each).items()}
    start, index, data, footer = (integer(stripe, n) for n in (STRIPE_OFFSET, INDEX_LENGTH, DATA_LENGTH, FOOTER_LENGTH))
    footer_at = start + index + data
    whole = bytes(memoryview(file)[start : footer_at + footer])
    streams: list[bytes] = []
    listed: list[Field] = []
    at = index_length = 0
    for number, wire, value in fields(layout.unpacked(whole[index + data :])):
        if number == STRIPE_STREAMS and isinstance(value, bytes):
            column, kind, length = (integer(value, n) for n in (STREAM_COLUMN, STREAM_KIND, STREAM_LENGTH))
            stream = whole[at : at + length]
            at += length
            if (column, kind) in new:
                stream = stored(new[column, kind], block)
            elif kind == ROW_INDEX and column in columns:
                stream = stored(_without_entry_bounds(layout.unpacked(stream)), block)
            streams.append(stream)
            index_length += len(stream) if at <= index else 0
            value = _with(value, {STREAM_LENGTH: len(stream)})
        listed.append((number, wire, value))
    stripe_footer = stored(message(listed), block)
    lengths = {
        INDEX_LENGTH: index_length,
        DATA_LENGTH: sum(map(len, streams)) - index_length,
        FOOTER_LENGTH: len(stripe_footer),
    }
    changed = [(n, w, _with(stripe, lengths) if n == STRIPES else v) for n, w, v in fields(tail.footer)]
    footer_message = message(_without_bounds(changed, STATISTICS, columns))
    metadata = message(
        numbered(n, message(_without_bounds(fields(v), STRIPE_COLUMNS, columns)))
        for n, _, v in fields(tail.metadata)
        if n == STRIPE_STATISTICS and isinstance(v, bytes)
    )
    return b"".join([*streams, stripe_footer]), replace(tail, footer=footer_message, metadata=metadata)


# --- values ---


def _times(column: int, ticks: Ints, per_second: int, name: str) -> Times:
    seconds, rest = np.divmod(ticks, per_second)
    nanos = rest * (NANOS_PER_SECOND // per_second)
    cut = (seconds < 0) & (nanos >= NANOS_PER_MILLI)
    last = cut & (seconds == -1)
    lost = last & (nanos % NANOS_PER_MILLI != 0)
    if lost.any():
        raise InvalidArgument(
            f"column {name!r} holds one with {int(nanos[lost][0])} nanoseconds: of the last second before 1970 ORC "
            "files hold whole milliseconds only; choose Parquet for the table"
        )
    return Times(column, seconds + cut - ORC_EPOCH, np.where(last, nanos - NANOS_PER_SECOND, nanos))


def _leaves(column: pa.Array | pa.ChunkedArray, number: int) -> Iterator[tuple[int, pa.Array]]:
    """Yields numbers and values (without the nulls) of the timestamp columns at and below a node of the type tree."""
    if not holds_timestamps(column.type):
        return
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kept = array.drop_null()
    if pa.types.is_timestamp(kept.type):
        yield number, kept
        return
    for child in _children(kept):
        number += 1
        yield from _leaves(child, number)
        number += _nodes(child.type) - 1


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    # Concatenating with nothing drops values outside of the lists.
    joined = pa.concat_arrays([array, array[:0]])
    return [joined.keys, joined.items] if pa.types.is_map(array.type) else [joined.values]


def holds_timestamps(type_: pa.DataType) -> bool:
    """Returns whether a column has timestamps, at any depth."""
    return bool(pa.types.is_timestamp(type_)) or any(map(holds_timestamps, _parts(type_)))


def _nodes(type_: pa.DataType) -> int:
    return 1 + sum(map(_nodes, _parts(type_)))


def _parts(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    if pa.types.is_list(type_):
        return [type_.value_type]
    return [member.type for member in type_] if pa.types.is_struct(type_) else []


# --- streams ---


def _encoded(times: Times) -> dict[int, bytes]:
    zigzag = (times.seconds << 1) ^ (times.seconds >> 63)
    return {DATA: _runs(zigzag), SECONDARY: _runs(times.nanos << ZEROS_BITS)}


def _runs(values: Ints) -> bytes:
    """Returns the values, taken as unsigned, in direct runs of one width."""
    width = 5 if len(values) and int(values.min()) >= 0 and int(values.max()) < 1 << 40 else 8
    digits = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    runs = (digits[at : at + RUN] for at in range(0, len(values), RUN))
    return b"".join(_header(width, len(run)) + run.tobytes() for run in runs)


def _header(width: int, count: int) -> bytes:
    return (DIRECT << 14 | WIDTH_CODES[width] << 9 | count - 1).to_bytes(2, "big")


# --- messages ---


def _with(data: bytes, values: Mapping[int, int]) -> bytes:
    return message((number, wire, values.get(number, value)) for number, wire, value in fields(data))


def _without_bounds(parts: Iterator[Field] | Sequence[Field], number: int, columns: Collection[int]) -> list[Field]:
    """Returns the fields without the bounds of `columns`; fields `number` are statistics, one per column in order."""
    out: list[Field] = []
    column = 0
    for part in parts:
        if part[0] == number:
            out.append(numbered(number, _dropped(part[2])) if column in columns else part)
            column += 1
        else:
            out.append(part)
    return out


def _without_entry_bounds(index: bytes) -> bytes:
    def entry(value: int | bytes) -> bytes:
        assert isinstance(value, bytes)
        return message((n, w, _dropped(v) if n == ENTRY_STATISTICS else v) for n, w, v in fields(value))

    return message(numbered(INDEX_ENTRIES, entry(value)) for _, _, value in fields(index))


def _dropped(statistics: int | bytes) -> bytes:
    assert isinstance(statistics, bytes)
    return message(part for part in fields(statistics) if part[0] != TIMESTAMP_BOUNDS)
