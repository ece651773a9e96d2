"""Encoders of VARIANT columns: objects and arrays from the bytes of their members, plain values, metadata.

Everything is written into one array of bytes, for all rows at once; see `variant` for the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.types import VariantType
from morrow.engine.format.variant import (
    ARRAY,
    INTEGERS,
    MAX_ROW_BYTES,
    MAX_SHORT_TEXT_BYTES,
    OBJECT,
    SHORT_TEXT,
    VERSION,
    Primitive,
    encode,
    encode_metadata,
    to_header,
)
from morrow.engine.format.variant_bytes import ByteStrings, scatter, spread

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

MAX_SMALL_COUNT = 255
"""Maximum members of an object or array for a count of 1 byte; a larger count has 4 bytes."""
MAX_BYTES = 4
"""The most bytes of a length."""


def find_widths(numbers: Ints) -> Ints:
    """Return the bytes (1 to 4) that hold each unsigned number."""
    return 1 + (numbers > 0xFF) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)


def _put(out: Bytes, at: Ints, numbers: Ints, widths: Ints) -> None:
    """Write numbers of 1 to 4 bytes at these positions."""
    for i in range(MAX_BYTES):
        wide = widths > i
        if wide.any():
            out[at[wide] + i] = (numbers[wide] >> (8 * i)) & 0xFF


def _put_blocks(out: Bytes, at: Ints, source: Bytes, starts: Ints, sizes: Ints) -> None:
    """Copy blocks of bytes to these positions."""
    step = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out[np.repeat(at, sizes) + step] = source[np.repeat(starts, sizes) + step]


def to_array(out: Bytes, sizes: Ints) -> pa.Array:
    """Return consecutive byte strings of these sizes as large binary."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(out.tobytes())]
    )


def build_containers(
    counts: Ints, members: pa.Array, is_object: Bools, numbers: Ints | None = None, order: Ints | None = None
) -> pa.Array:
    """Return objects and arrays from their members' bytes.

    Args:
        counts: the number of members of each.
        members: the bytes of all members, one container after the other.
        numbers: the ids of the members' names in the metadata; ignored for elements of arrays.
        order: the places of all members, container by container, with the members of objects sorted by name; None:
            they are sorted already.
    """
    strings = ByteStrings.of(members)
    sizes = strings.ends - strings.starts
    ids = np.zeros(len(sizes), np.int64) if numbers is None else numbers
    owner, place = spread(counts)
    firsts = np.cumsum(counts) - counts
    ends = np.cumsum(sizes)
    bounds = np.concatenate([[0], ends])
    totals = bounds[firsts + counts] - bounds[firsts]
    relative = bounds[:-1] - np.repeat(bounds[firsts], counts) if len(sizes) else np.zeros(0, np.int64)
    most = np.zeros(len(counts), np.int64)
    np.maximum.at(most, owner, ids)
    id_widths = np.where(is_object, find_widths(most), 0)
    widths, large = find_widths(totals), counts > MAX_SMALL_COUNT
    count_widths = np.where(large, MAX_BYTES, 1)
    lengths = 1 + count_widths + counts * id_widths + (counts + 1) * widths + totals
    if len(lengths) and lengths.max() > MAX_ROW_BYTES:
        raise InvalidArgument(f"a VARIANT of {lengths.max()} bytes; its limit is {MAX_ROW_BYTES} bytes")
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    info = np.where(is_object, (large << 4) | (id_widths - 1) << 2 | (widths - 1), (large << 2) | (widths - 1))
    out[starts] = info << 2 | np.where(is_object, OBJECT, ARRAY)
    _put(out, starts + 1, counts, count_widths)
    listed = np.arange(len(sizes)) if order is None else order
    at_ids = starts + 1 + count_widths
    _put(out, at_ids[owner] + place * id_widths[owner], ids[listed], id_widths[owner])
    at_offsets = at_ids + counts * id_widths
    _put(out, at_offsets[owner] + place * widths[owner], relative[listed], widths[owner])
    _put(out, at_offsets + counts * widths, totals, widths)
    _put_blocks(out, at_offsets + (counts + 1) * widths, strings.data, bounds[firsts], totals)
    return to_array(out, lengths)


def build_metadata(counts: Ints, names: pa.Array) -> pa.Array:
    """Return the metadata of rows that have these numbers of names; `names` are all of them, row by row."""
    strings = ByteStrings.of(names)
    sizes = strings.ends - strings.starts
    owner, place = spread(counts)
    firsts = np.cumsum(counts) - counts
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    totals = bounds[firsts + counts] - bounds[firsts]
    widths = find_widths(np.maximum(totals, counts))
    lengths = 1 + widths * (counts + 2) + totals
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    out[starts] = VERSION | (widths - 1) << 6
    _put(out, starts + 1, counts, widths)
    relative = bounds[1:] - np.repeat(bounds[firsts], counts)
    _put(out, starts[owner] + 1 + widths[owner] * (place + 2), relative, widths[owner])
    _put_blocks(out, starts + 1 + widths * (counts + 2), strings.data, bounds[firsts], totals)
    return to_array(out, lengths)


# --- leaves ---


def encode_integers(numbers: Ints) -> pa.Array:
    """Return integers in the fewest bytes."""
    magnitude = np.where(numbers < 0, ~numbers, numbers)
    level = (magnitude > 0x7F).astype(np.int64) + (magnitude > 0x7FFF) + (magnitude > 0x7FFFFFFF)
    kinds = np.array([to_header(kind) for kind, _ in INTEGERS])
    widths = np.array([width for _, width in INTEGERS])[level]
    sizes = 1 + widths
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), np.uint8)
    out[starts] = kinds[level]
    for i in range(8):
        wide = widths > i
        out[starts[wide] + 1 + i] = (numbers[wide] >> (8 * i)) & 0xFF
    return to_array(out, sizes)


def encode_texts(texts: pa.Array, *, binary: bool = False) -> pa.Array:
    """Return texts, or with `binary` byte strings."""
    strings = ByteStrings.of(texts)
    lengths = strings.ends - strings.starts
    short = np.zeros(len(lengths), np.bool_) if binary else lengths <= MAX_SHORT_TEXT_BYTES
    heads = np.where(short, 1, 1 + MAX_BYTES)
    sizes = heads + lengths
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), np.uint8)
    kind = to_header(Primitive.BINARY if binary else Primitive.STRING)
    out[starts] = np.where(short, lengths << 2 | SHORT_TEXT, kind)
    _put(out, starts + 1, lengths, np.where(short, 0, MAX_BYTES))
    _put_blocks(out, starts + heads, strings.data, strings.starts, lengths)
    return to_array(out, sizes)


def encode_fixed(kind: Primitive, numbers: npt.NDArray[np.generic]) -> pa.Array:
    """Return numbers of a fixed width as values of a primitive type."""
    width = numbers.dtype.itemsize
    out = np.zeros((len(numbers), 1 + width), np.uint8)
    out[:, 0] = to_header(kind)
    out[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, width)
    return to_array(out.ravel(), np.full(len(numbers), 1 + width))


def encode_distinct(array: pa.Array) -> pa.Array:
    """Return values of any type; each distinct value is encoded once."""
    encoded = array.dictionary_encode()
    made = pa.array([encode(value)[0] for value in encoded.dictionary.to_pylist()], pa.large_binary())
    return made.take(encoded.indices)


def encode_leaves(array: pa.Array) -> pa.Array:
    """Return the values of an Arrow array that is not nested; null for null."""
    present = np.flatnonzero(read_validity(array))
    values = array if len(present) == len(array) else array.take(pa.array(present))
    return scatter([(present, _encode_present(values))], len(array), pa.large_binary())


def _encode_present(values: pa.Array) -> pa.Array:
    kinds, kind = pa.types, values.type
    if kinds.is_integer(kind):
        return encode_integers(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return encode_texts(values.cast(pa.large_string()))
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return encode_texts(values.cast(pa.large_binary()), binary=True)
    if kinds.is_boolean(kind):
        headers = [to_header(Primitive.FALSE), to_header(Primitive.TRUE)]
        flags = values.cast(pa.int8()).to_numpy(zero_copy_only=False)
        return to_array(np.array(headers, np.uint8)[flags], np.ones(len(values), np.int64))
    if kinds.is_float64(kind):
        return encode_fixed(Primitive.DOUBLE, values.to_numpy(zero_copy_only=False))
    if kinds.is_float32(kind):
        return encode_fixed(Primitive.FLOAT, values.to_numpy(zero_copy_only=False))
    if kinds.is_date32(kind):
        return encode_fixed(Primitive.DATE, values.cast(pa.int32()).to_numpy(zero_copy_only=False))
    if kinds.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return encode_fixed(Primitive.TIMESTAMP_NTZ if kind.tz is None else Primitive.TIMESTAMP, micros)
    return encode_distinct(values)


def encode_arrow(array: pa.Array) -> pa.Array:
    """Return any Arrow array as a column of variants: structs as objects, lists as arrays; null stays null.

    Members and elements that are null become the null of JSON.

    Raises `InvalidArgument`: a map, or a value of a type that `encode` does not take.
    """
    names: dict[str, int] = {}
    value = _encode_nested(array, names)
    metadata = pa.array([encode_metadata(names)], pa.large_binary()).take(pa.array(np.zeros(len(array), np.int64)))
    return build_variants(value, metadata)


def _encode_nested(array: pa.Array, names: dict[str, int]) -> pa.Array:
    kinds, kind, length = pa.types, array.type, len(array)
    null = to_header(Primitive.NULL).to_bytes()
    if kinds.is_struct(kind):
        ids = np.array([names.setdefault(member.name, len(names)) for member in kind], np.int64)
        width = len(ids)
        if width != len({member.name for member in kind}):
            raise InvalidArgument(f"the members of {kind} do not have distinct names, which a VARIANT needs")
        parts = [_encode_nested(array.field(i), names).fill_null(null) for i in range(width)]
        by_row = np.arange(length)[:, None] + np.arange(width) * length
        members = pa.concat_arrays([pa.array([], pa.large_binary()), *parts]).take(pa.array(by_row.ravel()))
        by_name = np.array(sorted(range(width), key=lambda i: kind.field(i).name.encode()), np.int64)
        order = (np.arange(length)[:, None] * width + by_name).ravel()
        made = build_containers(np.full(length, width), members, np.ones(length, np.bool_), np.tile(ids, length), order)
    elif kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        lists = array.cast(pa.large_list(kind.value_type))
        counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        members = _encode_nested(lists.flatten(), names).fill_null(null)
        made = build_containers(counts, members, np.zeros(length, np.bool_))
    elif kinds.is_nested(kind):
        raise InvalidArgument(f"values of {kind} in a VARIANT; give structs and lists")
    elif kinds.is_null(kind):
        return pa.nulls(length, pa.large_binary())
    else:
        return encode_leaves(array)
    return scatter([(np.flatnonzero(read_validity(array)), made.filter(array.is_valid()))], length, pa.large_binary())


def build_variants(value: pa.Array, metadata: pa.Array) -> pa.Array:
    """Return a column of variants from values and metadata; null if the value is null."""
    nulls = value.is_null() if value.null_count else None
    members = [each.fill_null(b"").cast(pa.binary()) for each in (value, metadata)]
    return pa.StructArray.from_arrays(members, fields=list(VariantType().arrow()), mask=nulls)


def encode_values(values: Sequence[object]) -> pa.Array:
    """Return Python values as a column of variants; None is a null row. Raises `InvalidArgument` with the row."""
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for row, value in enumerate(values):
        try:
            pairs.append((None, None) if value is None else encode(value))
        except InvalidArgument as error:
            raise InvalidArgument(f"row {row}: {error}") from error
    columns = [pa.array([pair[i] for pair in pairs], pa.large_binary()) for i in (0, 1)]
    return build_variants(*columns)
