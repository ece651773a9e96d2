"""Composite and text keys as one unsigned 64-bit number each, where that is exact.

Numbers sort fast, and sorted files stay sorted runs: a stable sort then only merges them. Columns are the digits of a
number, each of a base as great as its values in this section span, so that keys which lie close stay close. Text of one
length takes its last eight bytes, less the prefix that all keys share: the number that eight digits spell, or else that
of the bytes. Other text takes up to eight bytes behind what all of it shares, with zeros behind. Where 64 bits do not
suffice, nothing is packed and the caller sorts the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    CharType,
    DataField,
    DateType,
    DecimalType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.engine.names import col, series
from morrow.readers.masks.text_words import BYTE, WORD_BYTES, last_words, words_after

WORD_BITS = 64
INTEGERS = (
    *(TinyIntType, SmallIntType, IntType, BigIntType, DateType),
    *(TimeType, TimestampType, LocalZonedTimestampType),
)
TEXTS = (CharType, VarCharType, BinaryType, VarBinaryType)

WIDE = Decimal(1 << (WORD_BITS - 1))
BLOCK = 1 << 16
"""Rows that are packed at a time: as many as stay in the processor's cache."""

U64 = npt.NDArray[np.uint64]


class KeyPacking(msgspec.Struct, frozen=True, dict=True):
    """The packing of the key columns of one section.

    `lengths` holds, for text columns, the length in bytes of the section's smallest and greatest key, and `spelling`
    has those in which both end in eight digits. Of text of other lengths `beginnings` says how many bytes all share.
    These are guesses at all values, which `pack` verifies.
    """

    fields: tuple[DataField, ...]
    lengths: Mapping[str, int]
    spelling: frozenset[str] = frozenset()
    beginnings: Mapping[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls, fields: Sequence[DataField], low: Sequence[object] | None, high: Sequence[object] | None
    ) -> KeyPacking | None:
        """Returns a packing for keys between the bounds `low` and `high`, None when none is worth trying."""
        if low is None or high is None or (len(fields) == 1 and isinstance(fields[0].type, INTEGERS)):
            return None
        lengths, beginnings = dict[str, int](), dict[str, int]()
        for field, first, last in zip(fields, low, high):
            if isinstance(field.type, TEXTS):
                least, greatest = _bytes(first), _bytes(last)
                if len(least) == len(greatest) >= WORD_BYTES:
                    lengths[field.name] = len(least)
                    continue
                beginnings[field.name] = _shared_bytes(least, greatest) if field is fields[0] else 0
                if max(len(least), len(greatest)) - beginnings[field.name] > WORD_BYTES:
                    return None
            elif isinstance(field.type, DecimalType):
                if not (_is_narrow(first, field.type.scale) and _is_narrow(last, field.type.scale)):
                    return None
            elif not isinstance(field.type, INTEGERS):
                return None
        if beginnings and sum(map(_bits_between, low, high)) > WORD_BITS:
            return None
        ends = {field.name: (_bytes(first), _bytes(last)) for field, first, last in zip(fields, low, high)}
        spelling = (name for name in lengths if all(text[-WORD_BYTES:].isdigit() for text in ends[name]))
        return cls(tuple(fields), lengths, frozenset(spelling), beginnings)

    @cached_property
    def expressions(self) -> list[pl.Expr]:
        """Expressions to select of a file's key columns instead of the columns themselves."""
        return [self._expression(field) for field in self.fields]

    def _expression(self, field: DataField) -> pl.Expr:
        column = col(field.name)
        if isinstance(field.type, DecimalType):
            return column.to_physical().cast(pl.Int64, strict=False)
        read = self._reader(field)
        if read is None:
            return column.to_physical()
        # What is no guess come true becomes null, which `pack` notices.
        return column.map_batches(read, return_dtype=pl.UInt64, is_elementwise=True).alias(field.name)

    def _reader(self, field: DataField) -> Callable[[pl.Series], pl.Series] | None:
        """Returns what reads the words of a text column."""
        if field.name in self.beginnings:
            return partial(words_after, start=self.beginnings[field.name])
        if field.name in self.lengths:
            return partial(last_words, length=self.lengths[field.name], spelling=field.name in self.spelling)
        return None

    def words(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Returns the columns of `expressions` for rows in memory, in the caller's thread."""
        readers = [(field, self._reader(field)) for field in self.fields]
        return [
            frame.select(self._expression(field)).to_series()
            if read is None
            else read(series(frame, field.name)).alias(field.name)
            for field, read in readers
        ]

    def pack(self, frame: pl.DataFrame, low: Sequence[object], high: Sequence[object]) -> U64 | None:
        """Packs rows of `frame` (columns of `expressions`) into numbers equal for equal keys only; None if inexact."""
        if frame.is_empty():
            return np.empty(0, np.uint64)
        if not all(self._is_exact(frame, index, low, high) for index in range(len(self.fields))):
            return None
        packed, numbers = np.empty(frame.height, np.uint64), 1
        for field in self.fields:
            column = series(frame, field.name)
            if column.null_count():
                return None
            unused = _zeros_behind(column) if field.name in self.beginnings else 0
            least, greatest = (bound >> unused for bound in _bounds(column))
            base = greatest - least + 1
            if numbers * base > 1 << WORD_BITS:
                return None
            alike, numbers = numbers == 1, numbers * base
            if base == 1 and not alike:
                continue
            # Offsets wrap around like unsigned numbers, and so are right for signed ones too.
            first = np.uint64(least % (1 << WORD_BITS))
            for rows, block in _blocks(column):
                words = block >> np.uint64(unused) if unused else block
                if alike:
                    np.subtract(words, first, out=packed[rows])
                else:
                    packed[rows] *= np.uint64(base)
                    packed[rows] += words - first
        return packed

    def _is_exact(self, frame: pl.DataFrame, index: int, low: Sequence[object], high: Sequence[object]) -> bool:
        """Returns whether the last eight bytes distinguish the values of a text column.

        They do when all values have the length of the bounds and share the bytes before those; keys between
        two bounds share the bounds' common prefix, in their first column.
        """
        name = self.fields[index].name
        if name not in self.lengths:
            return True
        if frame[name].null_count():
            return False
        before = self.lengths[name] - WORD_BYTES
        return before == 0 or (index == 0 and _bytes(low[0])[:before] == _bytes(high[0])[:before])


def _bounds(column: pl.Series) -> tuple[int, int]:
    least, greatest = column.min(), column.max()
    assert isinstance(least, int)
    assert isinstance(greatest, int)
    return least, greatest


def _zeros_behind(column: pl.Series) -> int:
    """Counts the lowest bits that no word of a column uses."""
    used = 0
    for _, words in _blocks(column):
        used |= int(np.bitwise_or.reduce(words))
    return (used & -used).bit_length() - 1 if used else 0


def _blocks(column: pl.Series) -> Iterator[tuple[slice, U64]]:
    """Yields the integers of a column, wrapped to 64 bits without a sign, and their rows."""
    start = 0
    for chunk in column.get_chunks():
        values = chunk.to_numpy()
        for first in range(0, len(values), BLOCK):
            block = values[first : first + BLOCK]
            wide = block if block.dtype == np.uint64 else block.astype(np.int64, copy=False).view(np.uint64)
            yield slice(start, start + len(block)), wide
            start += len(block)


def _bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""


def _bits_between(least: object, greatest: object) -> int:
    """Returns in about how many bits the values of a column differ, of which two are given."""
    if isinstance(least, int) and isinstance(greatest, int):
        return abs(greatest - least).bit_length()
    if isinstance(least, date) and isinstance(greatest, date):
        unit = timedelta(microseconds=1) if isinstance(least, datetime) else timedelta(days=1)
        return (abs(greatest - least) // unit).bit_length()
    one, other = _bytes(least), _bytes(greatest)
    return BYTE * (max(len(one), len(other)) - _shared_bytes(one, other))


def _shared_bytes(least: bytes, greatest: bytes) -> int:
    """Counts the bytes in which two texts begin alike."""
    pairs = enumerate(zip(least, greatest))
    return next((place for place, (one, other) in pairs if one != other), min(len(least), len(greatest)))


def _is_narrow(value: object, scale: int) -> bool:
    """Returns whether the digits of a decimal are a number of 64 bits."""
    return isinstance(value, Decimal) and abs(value) < WIDE.scaleb(-scale)
