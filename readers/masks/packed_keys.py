"""Composite and text keys packed into one unsigned 64-bit number each, if that is exact, and cuts of sorted files.

Numbers sort fast, and sorted files stay sorted runs: a stable sort then only merges them. Columns are the digits of a
number. The base of each column is the span of its values in this section, so that keys that lie close stay close. Text
of one length is packed by its last eight bytes, if all keys share the bytes before. Eight digits become the number that
they spell, other bytes one big-endian number. Other text is packed by up to eight bytes after the common prefix, padded
with zeros. If 64 bits do not suffice, nothing is packed and the caller sorts the columns.

The words of texts are read without a copy from Polars' views (a length, and either the bytes or their location).

Sorted files are cut at the same keys, so that their parts are processed separately, several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.names import col, get_series

WORD_BITS = 64
INTEGERS = (
    *(t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DateType),
    *(t.TimeType, t.TimestampType, t.LocalZonedTimestampType),
)
TEXTS = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)

MIN_WIDE_DECIMAL = Decimal(1 << (WORD_BITS - 1))
PACK_BLOCK_ROWS = 1 << 16
"""Rows packed at a time, so that they stay in the processor's cache."""

U64 = npt.NDArray[np.uint64]


class KeyPacking(msgspec.Struct, frozen=True, dict=True):
    """The packing of the key columns of one section.

    `lengths` holds, for text columns, the common length in bytes of the section's least and greatest key. `spelling`
    has the columns in which both keys end in eight digits. `beginnings` has the length of the common prefix of other
    text columns. These are guesses from two keys; `pack` verifies them for all values.
    """

    fields: tuple[t.DataField, ...]
    lengths: Mapping[str, int]
    spelling: frozenset[str] = frozenset()
    beginnings: Mapping[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls, fields: Sequence[t.DataField], low: Sequence[object] | None, high: Sequence[object] | None
    ) -> KeyPacking | None:
        """Return a packing for keys between the bounds `low` and `high`; None if no packing is worth trying."""
        if low is None or high is None or (len(fields) == 1 and isinstance(fields[0].type, INTEGERS)):
            return None
        lengths, beginnings = dict[str, int](), dict[str, int]()
        for field, first, last in zip(fields, low, high):
            if isinstance(field.type, TEXTS):
                least, greatest = _to_bytes(first), _to_bytes(last)
                if len(least) == len(greatest) >= WORD_BYTES:
                    lengths[field.name] = len(least)
                    continue
                beginnings[field.name] = _count_shared_bytes(least, greatest) if field is fields[0] else 0
                if max(len(least), len(greatest)) - beginnings[field.name] > WORD_BYTES:
                    return None
            elif isinstance(field.type, t.DecimalType):
                if not (_is_narrow(first, field.type.scale) and _is_narrow(last, field.type.scale)):
                    return None
            elif not isinstance(field.type, INTEGERS):
                return None
        if beginnings and sum(map(_count_bits, low, high)) > WORD_BITS:
            return None
        ends = {field.name: (_to_bytes(first), _to_bytes(last)) for field, first, last in zip(fields, low, high)}
        spelling = (name for name in lengths if all(text[-WORD_BYTES:].isdigit() for text in ends[name]))
        return cls(tuple(fields), lengths, frozenset(spelling), beginnings)

    @cached_property
    def expressions(self) -> list[pl.Expr]:
        """Expressions to select from a file instead of its key columns."""
        return [self._expression(field) for field in self.fields]

    def _expression(self, field: t.DataField) -> pl.Expr:
        column = col(field.name)
        if isinstance(field.type, t.DecimalType):
            return column.to_physical().cast(pl.Int64, strict=False)
        read = self._reader(field)
        if read is None:
            return column.to_physical()
        # Values that do not fit the guess become null, which `pack` detects.
        return column.map_batches(read, return_dtype=pl.UInt64, is_elementwise=True).alias(field.name)

    def _reader(self, field: t.DataField) -> Callable[[pl.Series], pl.Series] | None:
        """Return the function that reads the words of a text column."""
        if field.name in self.beginnings:
            return partial(read_words_after, start=self.beginnings[field.name])
        if field.name in self.lengths:
            return partial(read_last_words, length=self.lengths[field.name], spelling=field.name in self.spelling)
        return None

    def words(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Compute the columns of `expressions` for rows in memory, in the caller's thread."""
        readers = [(field, self._reader(field)) for field in self.fields]
        return [
            frame.select(self._expression(field)).to_series()
            if read is None
            else read(get_series(frame, field.name)).alias(field.name)
            for field, read in readers
        ]

    def pack(self, frame: pl.DataFrame, low: Sequence[object], high: Sequence[object]) -> U64 | None:
        """Pack rows of `frame` (columns of `expressions`) into one number per key; return None if this is inexact."""
        if frame.is_empty():
            return np.empty(0, np.uint64)
        if not all(self._is_exact(frame, index, low, high) for index in range(len(self.fields))):
            return None
        packed, numbers = np.empty(frame.height, np.uint64), 1
        for field in self.fields:
            column = get_series(frame, field.name)
            if column.null_count():
                return None
            unused = _count_trailing_zeros(column) if field.name in self.beginnings else 0
            least, greatest = (bound >> unused for bound in _find_bounds(column))
            base = greatest - least + 1
            if numbers * base > 1 << WORD_BITS:
                return None
            alike, numbers = numbers == 1, numbers * base
            if base == 1 and not alike:
                continue
            # Offsets wrap around like unsigned numbers, so they are right for signed numbers too.
            first = np.uint64(least % (1 << WORD_BITS))
            for rows, block in _split_blocks(column):
                words = block >> np.uint64(unused) if unused else block
                if alike:
                    np.subtract(words, first, out=packed[rows])
                else:
                    packed[rows] *= np.uint64(base)
                    packed[rows] += words - first
        return packed

    def _is_exact(self, frame: pl.DataFrame, index: int, low: Sequence[object], high: Sequence[object]) -> bool:
        """Return whether the last eight bytes distinguish the values of a text column.

        They do if all values have the length of the bounds and share the bytes before the last eight. Keys between two
        bounds share the bounds' common prefix in their first column.
        """
        name = self.fields[index].name
        if name not in self.lengths:
            return True
        if frame[name].null_count():
            return False
        before = self.lengths[name] - WORD_BYTES
        return before == 0 or (index == 0 and _to_bytes(low[0])[:before] == _to_bytes(high[0])[:before])


def _find_bounds(column: pl.Series) -> tuple[int, int]:
    least, greatest = column.min(), column.max()
    assert isinstance(least, int)
    assert isinstance(greatest, int)
    return least, greatest


def _count_trailing_zeros(column: pl.Series) -> int:
    """Count the lowest bits that no word of a column uses."""
    used = 0
    for _, words in _split_blocks(column):
        used |= int(np.bitwise_or.reduce(words))
    return (used & -used).bit_length() - 1 if used else 0


def _split_blocks(column: pl.Series) -> Iterator[tuple[slice, U64]]:
    """Yield blocks of a column: their rows, and the integers wrapped to unsigned 64 bits."""
    start = 0
    for chunk in column.get_chunks():
        values = chunk.to_numpy()
        for first in range(0, len(values), PACK_BLOCK_ROWS):
            block = values[first : first + PACK_BLOCK_ROWS]
            wide = block if block.dtype == np.uint64 else block.astype(np.int64, copy=False).view(np.uint64)
            yield slice(start, start + len(block)), wide
            start += len(block)


def _to_bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""


def _count_bits(least: object, greatest: object) -> int:
    """Estimate in how many bits the values of a column differ, from its least and greatest value."""
    if isinstance(least, int) and isinstance(greatest, int):
        return abs(greatest - least).bit_length()
    if isinstance(least, date) and isinstance(greatest, date):
        unit = timedelta(microseconds=1) if isinstance(least, datetime) else timedelta(days=1)
        return (abs(greatest - least) // unit).bit_length()
    one, other = _to_bytes(least), _to_bytes(greatest)
    return BYTE * (max(len(one), len(other)) - _count_shared_bytes(one, other))


def _count_shared_bytes(least: bytes, greatest: bytes) -> int:
    """Count the bytes of the common prefix of two texts."""
    pairs = enumerate(zip(least, greatest))
    return next((place for place, (one, other) in pairs if one != other), min(len(least), len(greatest)))


def _is_narrow(value: object, scale: int) -> bool:
    """Return whether the digits of a decimal fit into 64 bits."""
    return isinstance(value, Decimal) and abs(value) < MIN_WIDE_DECIMAL.scaleb(-scale)


U32 = npt.NDArray[np.uint32]

WORD_BYTES = 8
BYTE, LAST_BYTE = 8, np.uint64(0xFF)
"""Bits of a byte, and the lowest byte of a word."""
VIEWS = (pa.string_view(), pa.binary_view())
VIEW_WORDS, LENGTH, BUFFER, OFFSET = 4, 0, 2, 3
"""Layout of a view: four words of 32 bits. Views of long texts have a buffer number and the text's offset in it."""
INLINE_BYTES, INLINE_AT = 12, 4
"""Texts of up to 12 bytes are stored in their view, from byte 4 on."""
MIN_REPEATS = 4
"""Read runs of identical neighbouring texts once if runs have at least 4 texts on average."""
WORD_BLOCK_ROWS = 1 << 14
"""Texts read at a time: intermediate results then stay in the processor's cache, without new memory."""

NIBBLES, ZEROS, TO_SIXTEEN = (np.uint64(int.from_bytes(byte * WORD_BYTES)) for byte in (b"\xf0", b"0", b"\x06"))
"""Constants for each byte of a word: its high nibble, the digit 0, and the summand that carries nibbles beyond 9."""
ONES, TENS, HUNDREDS = np.uint64(0x000F000F000F000F), np.uint64(0x000000FF000000FF), np.uint64(0xFFFF)


def read_last_words(texts: pl.Series, length: int, *, spelling: bool) -> pl.Series:
    """Return the last eight bytes of texts of `length` bytes, at least eight, as UInt64 in the order of the texts.

    With `spelling` they are the numbers that eight ASCII digits spell. All values of a block are null if one of its
    texts is null, has another length, or does not end in eight digits.
    """

    def read(views: U32, buffers: Sequence[pa.Buffer]) -> U64 | None:
        words = _read_last(views, length, buffers)
        return None if words is None or (spelling and not _spell(words)) else words

    return _read_words(texts, read)


def read_words_after(texts: pl.Series, start: int) -> pl.Series:
    """Return up to eight bytes from `start` on as UInt64, padded with zeros.

    The numbers have the order of the texts if these share the bytes before `start`. All values of a block are null if
    one of its texts is null, shorter than `start`, longer than `start` plus eight bytes, or ends in a zero byte.
    """
    return _read_words(texts, partial(_read_after, start=start))


def _read_words(texts: pl.Series, read: Callable[[U32, Sequence[pa.Buffer]], U64 | None]) -> pl.Series:
    found = _read_all(texts, read) if texts.null_count() == 0 else None
    return pl.repeat(None, len(texts), dtype=pl.UInt64, eager=True) if found is None else make_series(found)


def _read_all(texts: pl.Series, read: Callable[[U32, Sequence[pa.Buffer]], U64 | None]) -> U64 | None:
    found, start, repeats = np.empty(len(texts), np.uint64), 0, True
    for chunk in texts.get_chunks():
        array = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        if array.type not in VIEWS:
            return None
        buffers, end = array.buffers(), array.offset + len(array)
        views = np.frombuffer(buffers[1], np.uint32)[: end * VIEW_WORDS].reshape(-1, VIEW_WORDS)[array.offset :]
        for first in range(0, len(array), WORD_BLOCK_ROWS):
            block = views[first : first + WORD_BLOCK_ROWS]
            starts = _find_starts(block) if repeats else None
            repeats = starts is not None
            words = read(block if starts is None else block[starts], buffers[2:])
            if words is None:
                return None
            words = words if starts is None else np.repeat(words, np.diff(starts, append=len(block)))
            found[start : start + len(block)] = words
            start += len(block)
    return found


def _find_starts(views: U32) -> npt.NDArray[np.integer] | None:
    """Return the positions of views that differ from the view before, including the first; None if most differ."""
    halves = views.view(np.uint64)
    differs = np.ones(len(views), bool)
    np.not_equal(halves[1:, 1], halves[:-1, 1], out=differs[1:])
    differs[1:] |= halves[1:, 0] != halves[:-1, 0]
    starts = np.flatnonzero(differs)
    return starts if len(starts) * MIN_REPEATS <= len(views) else None


def _read_last(views: U32, length: int, buffers: Sequence[pa.Buffer]) -> U64 | None:
    """Return the last eight bytes of some texts; None if a text has another length."""
    if (views[:, LENGTH] != length).any():
        return None
    return _read_inline(views, length - WORD_BYTES) if length <= INLINE_BYTES else _read_last_of_long(views, buffers)


def _read_after(views: U32, buffers: Sequence[pa.Buffer], *, start: int) -> U64 | None:
    """Return the words of `read_words_after` for some texts; None if a text lacks one."""
    lengths = views[:, LENGTH].astype(np.int64)
    rest = lengths - start
    if rest.min() < 0 or rest.max() > WORD_BYTES:
        return None
    long = np.flatnonzero(lengths > INLINE_BYTES)
    if len(long) == len(views):
        found = _read_last_of_long(views, buffers) << (BYTE * (WORD_BYTES - rest)).astype(np.uint64)
    elif start > INLINE_BYTES:
        return None  # a text ends with the common prefix
    else:
        found = _read_inline(views, min(start, INLINE_BYTES - WORD_BYTES))
        found <<= np.uint64(BYTE * max(start - (INLINE_BYTES - WORD_BYTES), 0))
        found[long] = _read_last_of_long(views[long], buffers) << (BYTE * (WORD_BYTES - rest[long])).astype(np.uint64)
    ends = (found >> (BYTE * np.minimum(WORD_BYTES - rest, WORD_BYTES - 1)).astype(np.uint64)) & LAST_BYTE
    return None if ((ends == 0) & (rest > 0)).any() else found


def _read_inline(views: U32, start: int) -> U64:
    """Return the eight bytes from `start` on of texts stored in their views, padded with zeros."""
    first = INLINE_AT + start
    each = np.ascontiguousarray(views).view(np.uint8)[:, first : first + WORD_BYTES]
    return np.ascontiguousarray(each).view(np.uint64)[:, 0].byteswap()  # the first byte counts most


def _read_last_of_long(views: U32, buffers: Sequence[pa.Buffer]) -> U64:
    """Return the last eight bytes of texts stored in buffers."""
    found, numbers = np.empty(len(views), np.uint64), views[:, BUFFER]
    places = views[:, OFFSET].astype(np.int64) + views[:, LENGTH] - WORD_BYTES
    if len(numbers) and (numbers == numbers[0]).all():
        found[:] = _read_at(buffers[numbers[0]], places)
    else:
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            found[rows] = _read_at(buffers[number], places[rows])
    return found.byteswap(inplace=True)


def _read_at(data: pa.Buffer, places: npt.NDArray[np.int64]) -> U64:
    """Return eight bytes from each of the offsets, which need not be aligned."""
    words = np.ndarray((data.size - WORD_BYTES + 1,), np.uint64, data, strides=(1,))
    found: U64 = words[places]
    return found


def _spell(words: U64) -> bool:
    """Replace words of eight ASCII digits by the numbers that they spell; return False if a byte is not a digit."""
    others = (words & NIBBLES) ^ ZEROS
    others |= ((words + TO_SIXTEEN) & NIBBLES) ^ ZEROS
    if others.any():
        return False
    two = ((words >> np.uint64(8)) & ONES) * np.uint64(10) + (words & ONES)
    four = ((two >> np.uint64(16)) & TENS) * np.uint64(100) + (two & TENS)
    np.add((four >> np.uint64(32)) * np.uint64(10_000), four & HUNDREDS, out=words)
    return True


MIN_CUT_ROWS = 1 << 19
"""Minimum rows of a section to process it in several parts."""
CUT_TYPES = (*INTEGERS, *TEXTS, t.DecimalType)
"""Types of keys that Polars orders as files are sorted."""
CUT_SAMPLE_ROWS = 1 << 10
"""One key in 1,024 rows is sampled to find the cuts."""

Cuts = list[list[int]]
"""For each file the rows at which it is cut."""


def find_cuts(frames: Sequence[pl.DataFrame], key: t.DataField, count: int = 2) -> Cuts | None:
    """Return the rows at which to cut each file into at most `count` parts that share no key.

    The first key column `key` may be packed: equal keys are then equal words, which go to the same part. Returns None
    if a cut does not pay, or if the keys turn out not to be sorted.
    """
    if sum(frame.height for frame in frames) < MIN_CUT_ROWS or not isinstance(key.type, CUT_TYPES):
        return None
    keys = [get_series(frame, key.name).to_physical() for frame in frames]
    if any(each.null_count() or not each.is_sorted() for each in keys):
        return None  # texts that packing does not distinguish are null
    sample = pl.concat([each.gather_every(CUT_SAMPLE_ROWS) for each in keys]).sort()
    pivots = sample[[len(sample) * number // count for number in range(1, count)]].unique(maintain_order=True)
    return [each.search_sorted(pivots, side="left").to_list() for each in keys]


def slice_frames(frames: Sequence[pl.DataFrame], rows: Cuts | None) -> list[list[pl.DataFrame]]:
    """Return the rows of the files part by part; if `rows` is None, all in one part."""
    if rows is None:
        return [list(frames)]
    cut = [list(pairwise([0, *ends, frame.height])) for frame, ends in zip(frames, rows)]
    return [[frame[start:end] for frame, (start, end) in zip(frames, part)] for part in zip(*cut)]
