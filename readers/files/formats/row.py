"""Reader of row files (`morrow.engine.format.row_layout`): columns of many rows at a time.

Each row has a cursor, which moves past its values column by column. Columns that are not read are passed by, too.
Elements of arrays that vary in size are found element by element, for all rows at once: first all first elements, then
all second ones. So the work for an array of a million texts in a single row is a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import Bools, Bytes, Ints
from morrow.engine.format.avro import BadBlockError, decompress_zstandard
from morrow.engine.format.binary_row import (
    DECIMAL_WIDTH,
    MAX_COMPACT_DECIMAL_PRECISION,
    MAX_COMPACT_TIMESTAMP_PRECISION,
    build_array,
    build_decimals,
    build_timestamps,
    read_wide_integers,
    take_spans,
)
from morrow.engine.format.binary_row_encoder import iterate_waves
from morrow.engine.format.row_layout import (
    FOOTER,
    MAX_VARINT_BYTES,
    OFFSET_BYTES,
    VARINT_BITS,
    WIDTHS,
    BlockIndex,
    count_bitmap_bytes,
    decode_footer,
    decode_index,
)
from morrow.engine.units import MILLIS_PER_DAY
from morrow.readers.casts.dtypes import to_series
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource, check_rows

CHUNK_BYTES = 1 << 24
"""Uncompressed bytes of blocks that are decoded at a time, unless a single block is larger."""


def decode_row_file(source: FileSource, fields: Sequence[t.DataField]) -> Iterator[Chunk]:
    """Yield chunks of about `CHUNK_BYTES` each; the compressed file stays in memory until the end."""
    where, columns = source.path, source.columns or tuple(fields)
    numbers = {column.name: number for number, column in enumerate(columns)}
    if missing := [field.name for field in fields if field.name not in numbers]:
        raise Unsupported(f"a file of the columns {', '.join(numbers)}, without {missing[0]!r},", where=where)
    data = source.store.read(where)
    footer = decode_footer(data[-FOOTER.size :], len(data), where)
    check_rows(source, footer[0])
    index = decode_index(data[footer[2] : footer[2] + footer[3]], footer, where)
    wanted = {numbers[field.name] for field in fields}
    ends = np.cumsum(index.compressed)
    for first, last in _group_blocks(index):
        blocks = [
            _decompress(data[ends[number] - index.compressed[number] : ends[number]], index, number, where)
            for number in range(first, last)
        ]
        cursor, at, end = _locate_rows(blocks, index.rows[first:last], where)
        members = tuple(column.type for column in columns)
        # Without all columns, a file of other columns may go unnoticed: the first rows are read to their end.
        found = cursor.decode_members(members, at, end, np.ones(len(at), np.bool_), wanted, complete=first == 0)
        made = [to_series(field.name, found[numbers[field.name]], field.type) for field in fields]
        yield Chunk(len(at), pl.DataFrame(made))


def _group_blocks(index: BlockIndex) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(index.uncompressed)
    first = 0
    while first < len(ends):
        begin = int(ends[first] - index.uncompressed[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + CHUNK_BYTES, side="right")))
        yield first, last
        first = last


def _decompress(data: bytes, index: BlockIndex, number: int, where: str) -> bytes:
    size = int(index.uncompressed[number])
    try:
        block = bytes(decompress_zstandard(memoryview(data), size))
    except (BadBlockError, OSError) as error:
        raise CorruptFile(where, f"block {number} cannot be decompressed: {error}") from error
    rows = int.from_bytes(block[-OFFSET_BYTES:], "little")
    if len(block) != size or rows != index.rows[number]:
        raise CorruptFile(where, f"block {number} has {len(block)} bytes and {rows} rows, unlike the index")
    return block


def _locate_rows(blocks: Sequence[bytes], counts: Ints, where: str) -> tuple[_Cursor, Ints, Ints]:
    """Return the joined blocks, and begin and end of each row there."""
    starts, ends, base = [], [], 0
    for block, count in zip(blocks, counts.tolist()):
        limit = len(block) - OFFSET_BYTES * (count + 1)
        offsets = np.frombuffer(block, "<i4", count, limit).astype(np.int64)
        edges = np.append(offsets, limit)
        if edges[0] != 0 or (np.diff(edges) < 0).any():
            raise CorruptFile(where, "the rows of a block do not follow one another")
        starts.append(edges[:-1] + base)
        ends.append(edges[1:] + base)
        base += len(block)
    padding = bytes(DECIMAL_WIDTH)  # a value may be loaded from the last byte on
    data = np.frombuffer(b"".join((*blocks, padding)), np.uint8)
    return _Cursor(data, where), np.concatenate(starts), np.concatenate(ends)


class _Cursor:
    """Decompressed rows. Methods take the places of values: begin, end of the row, and whether there is a value.

    `skip` returns the places behind the values. Places are ascending.
    """

    def __init__(self, data: Bytes, where: str) -> None:
        self.data, self.where = data, where

    def require(self, good: Bools) -> None:
        if not good.all():
            raise CorruptFile(self.where, "a value extends beyond its row")

    def load(self, at: Ints, dtype: str) -> npt.NDArray[Any]:
        width = np.dtype(dtype).itemsize
        first = self.data[:width].view(dtype)
        return np.lib.stride_tricks.as_strided(first, (len(self.data) - width + 1,), (1,))[at]

    def load_fixed(self, at: Ints, end: Ints, valid: Bools, dtype: str) -> tuple[npt.NDArray[Any], Ints]:
        behind = at + np.dtype(dtype).itemsize * valid
        self.require(behind <= end)
        return np.where(valid, self.load(at, dtype), np.zeros(1, dtype)), behind

    def load_varints(self, at: Ints, end: Ints, valid: Bools) -> tuple[Ints, Ints]:
        values, behind = np.zeros(len(at), np.int64), at.copy()
        active = np.flatnonzero(valid)
        for place in range(MAX_VARINT_BYTES):
            if not len(active):
                break
            self.require(behind[active] < end[active])
            octets = self.data[behind[active]].astype(np.int64)
            values[active] |= (octets & 0x7F) << (place * VARINT_BITS)
            behind[active] += 1
            active = active[octets >= 0x80]
        self.require(np.zeros(min(len(active), 1), np.bool_))
        return values, behind

    def load_spans(self, at: Ints, end: Ints, valid: Bools) -> tuple[Ints, Ints, Ints]:
        """Return begin and size of byte strings, and the places behind them."""
        sizes, begin = self.load_varints(at, end, valid)
        self.require(sizes <= end - begin)
        return begin, sizes, begin + sizes

    def load_bits(self, bitmap: Ints, number: Any) -> Bools:
        places = np.minimum(bitmap + (number >> 3), len(self.data) - 1)
        bits: Bools = (self.data[places] >> np.asarray(number & 7, np.uint8)) & 1 == 1
        return bits

    # --- values passed by ---

    def skip(self, kind: t.DataType, at: Ints, end: Ints, valid: Bools) -> Ints:
        width = find_width(kind)
        if width:
            behind = at + width * valid
            self.require(behind <= end)
            return behind
        if isinstance(kind, t.RowType):
            return self.walk_members(tuple(field.type for field in kind.fields), at, end, valid)[-1]
        if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
            return self.load_varints(self.skip(t.BigIntType(), at, end, valid), end, valid)[1]
        for element in list_elements(kind):
            at = self.locate_elements(element, at, end, valid)[-1]
        if isinstance(kind, t.VectorType):
            return self.locate_vectors(kind, at, end, valid)[1]
        for _string in range(count_strings(kind)):
            at = self.load_spans(at, end, valid)[-1]
        return at

    def walk_members(self, members: Sequence[t.DataType], at: Ints, end: Ints, valid: Bools) -> list[Ints]:
        """Return the place of each member of rows, and the places behind the rows."""
        return [place for place, _ in self._walk(members, at, end, valid)]

    def _walk(self, members: Sequence[t.DataType], at: Ints, end: Ints, valid: Bools) -> Iterator[tuple[Ints, Bools]]:
        bitmap, at = at, at + (len(members) + 7) // 8 * valid
        self.require(at <= end)
        for number, member in enumerate(members):
            present = valid & ~self.load_bits(bitmap, number)
            yield at, present
            at = self.skip(member, at, end, present)
        yield at, valid

    def locate_elements(
        self, kind: t.DataType, at: Ints, end: Ints, valid: Bools
    ) -> tuple[Ints, Ints, Ints, Bools, Ints]:
        """Return the sizes of lists; begin, end and presence of their elements; and the places behind the lists."""
        sizes, bitmap = self.load_varints(at, end, valid)
        begin = bitmap + count_bitmap_bytes(sizes)
        self.require(begin <= end)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        firsts = np.cumsum(sizes) - sizes
        numbers = np.arange(len(rows)) - firsts[rows]
        present = ~self.load_bits(bitmap[rows], numbers)
        width = find_width(kind)
        if width:
            before = np.concatenate([[0], np.cumsum(present)]) * width
            places = begin[rows] + before[:-1] - before[firsts[rows]]
            behind = begin + before[firsts + sizes] - before[firsts]
            self.require(behind <= end)
            return sizes, places, end[rows], present, behind
        places, behind = np.zeros(len(rows), np.int64), begin.copy()
        for wave, active in iterate_waves(sizes):
            elements = firsts[active] + wave
            places[elements] = behind[active]
            behind[active] = self.skip(kind, behind[active], end[active], present[elements])
        return sizes, places, end[rows], present, behind

    def locate_vectors(self, kind: t.VectorType, at: Ints, end: Ints, valid: Bools) -> tuple[Ints, Ints]:
        """Return the places of the elements of vectors, 0 below a null, and the places behind the vectors."""
        sizes, begin = self.load_varints(at, end, valid)
        if (sizes[valid] != kind.length).any():
            raise CorruptFile(self.where, f"a {kind} of another length")
        width = np.dtype(WIDTHS[type(kind.element)]).itemsize
        behind = begin + width * sizes
        self.require(behind <= end)
        places = np.where(valid, begin, 0)[:, None] + width * np.arange(kind.length) * valid[:, None]
        return places.ravel(), behind

    # --- values read ---

    def decode_members(
        self,
        members: Sequence[t.DataType],
        at: Ints,
        end: Ints,
        valid: Bools,
        wanted: set[int] | None = None,
        *,
        complete: bool = False,
    ) -> dict[int, pa.Array]:
        """Return the `wanted` members of rows by their numbers; None: all.

        With `complete`, the rows must end behind their last member.
        """
        found = dict[int, pa.Array]()
        last = max(wanted, default=-1) if wanted is not None else len(members) - 1
        for number, (place, present) in enumerate(self._walk(members, at, end, valid)):
            if number < len(members) and (wanted is None or number in wanted):
                found[number] = self.decode(members[number], place, end, present)
            if number == len(members) and complete and (place != end).any():
                raise CorruptFile(self.where, "rows end behind their last column")
            if number >= last and not complete:
                break
        return found

    def decode(self, kind: t.DataType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        if type(kind) in WIDTHS:
            return self._build_fixed(kind, self.load_fixed(at, end, valid, WIDTHS[type(kind)])[0], valid)
        return DECODERS[type(kind)](self, kind, at, end, valid)

    def _build_fixed(self, kind: t.DataType, values: npt.NDArray[Any], valid: Bools) -> pa.Array:
        if isinstance(kind, t.BooleanType):
            values = np.packbits(values != 0, bitorder="little")
        elif isinstance(kind, t.TimeType) and ((values < 0) | (values >= MILLIS_PER_DAY)).any():
            raise CorruptFile(self.where, "a TIME is outside its day")
        return build_array(kind.arrow(), values, valid)

    def decode_bytes(self, kind: t.DataType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        begin, sizes, _ = self.load_spans(at, end, valid)
        return take_spans(self.data, begin, sizes, valid, kind, self.where)

    def decode_decimal(self, kind: t.DecimalType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
            low, _ = self.load_fixed(at, end, valid, "<i8")
            unscaled = np.stack([low, low >> 63], axis=1)
        else:
            begin, sizes, _ = self.load_spans(at, end, valid)
            if ((sizes == 0) & valid | (sizes > DECIMAL_WIDTH)).any():
                raise CorruptFile(self.where, "a DECIMAL is not 1 to 16 bytes long")
            unscaled = read_wide_integers(self.data, begin, sizes)
        return build_decimals(kind, unscaled, valid, self.where)

    def decode_timestamp(self, kind: Any, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        millis, at = self.load_fixed(at, end, valid, "<i8")
        compact = kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION
        nanos = np.zeros(len(at), np.int64) if compact else self.load_varints(at, end, valid)[0]
        return build_timestamps(kind, millis, nanos, valid, self.where)

    def decode_variant(self, _: t.DataType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        members = []
        for _string in range(2):
            begin, sizes, at = self.load_spans(at, end, valid)
            members.append(take_spans(self.data, begin, sizes, valid, t.VarBinaryType(), self.where))
        return _nest(pa.struct([("value", members[0].type), ("metadata", members[1].type)]), valid, members)

    def decode_row(self, kind: t.RowType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        found = self.decode_members(tuple(field.type for field in kind.fields), at, end, valid)
        members = [(field.name, found[number].type) for number, field in enumerate(kind.fields)]
        return _nest(pa.struct(members), valid, list(found.values()))

    def decode_vector(self, kind: t.VectorType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        places, _ = self.locate_vectors(kind, at, end, valid)
        values = self.load(places, WIDTHS[type(kind.element)])
        elements = self._build_fixed(kind.element, values, np.ones(len(places), np.bool_))
        return _nest(pa.list_(elements.type, kind.length), valid, [elements])

    def decode_lists(self, kind: t.DataType, at: Ints, end: Ints, valid: Bools) -> pa.Array:
        """Decode arrays, and maps as lists of entries."""
        made, counts = [], np.zeros(len(at), np.int64)
        for number, element in enumerate(list_elements(kind)):
            sizes, places, ends, present, at = self.locate_elements(element, at, end, valid)
            if number and (sizes != counts).any():
                raise CorruptFile(self.where, f"a {kind} has other values than keys")
            counts = sizes
            made.append(self.decode(element, places, ends, present))
        if len(made) == 1:
            (elements,) = made
        else:
            entry = pa.struct([("key", made[0].type), ("value", made[1].type)])
            elements = _nest(entry, np.ones(len(made[0]), np.bool_), made)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _nest(pa.large_list(elements.type), valid, [elements], pa.py_buffer(offsets))


def _nest(kind: pa.DataType, valid: Bools, members: list[pa.Array], *buffers: pa.Buffer) -> pa.Array:
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, *buffers], children=members)


def find_width(kind: t.DataType) -> int:
    """Return the bytes of each value of a type, 0 if they vary."""
    if isinstance(kind, t.DecimalType):
        return 8 if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION else 0
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return 8 if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION else 0
    return np.dtype(WIDTHS[type(kind)]).itemsize if type(kind) in WIDTHS else 0


def list_elements(kind: t.DataType) -> tuple[t.DataType, ...]:
    """Return the types of the elements of the arrays in a value."""
    if isinstance(kind, t.ArrayType):
        return (kind.element,)
    if isinstance(kind, t.MapType):
        return kind.key, kind.value
    return (kind.element, t.IntType()) if isinstance(kind, t.MultisetType) else ()


def count_strings(kind: t.DataType) -> int:
    """Return the number of byte strings in a value."""
    if list_elements(kind):
        return 0
    return 2 if isinstance(kind, t.VariantType) else 1


DECODERS: dict[type[t.DataType], Callable[[_Cursor, Any, Ints, Ints, Bools], pa.Array]] = {
    **dict.fromkeys((t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType, t.BlobType), _Cursor.decode_bytes),
    t.DecimalType: _Cursor.decode_decimal,
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _Cursor.decode_timestamp),
    t.VariantType: _Cursor.decode_variant,
    t.RowType: _Cursor.decode_row,
    t.VectorType: _Cursor.decode_vector,
    **dict.fromkeys((t.ArrayType, t.MapType, t.MultisetType), _Cursor.decode_lists),
}


def _count_rows(source: FileSource) -> int:
    size = source.size or source.store.size(source.path) or 0
    start = max(size - FOOTER.size, 0)
    return decode_footer(source.store.read_range(source.path, start, size - start), size, source.path)[0]


READER = FileReader(decode=decode_row_file, row_count=_count_rows)
