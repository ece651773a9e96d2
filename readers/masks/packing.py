"""Composite and text keys as one unsigned 64-bit number each, where that is exact.

Numbers sort fast, and sorted files stay sorted runs: a stable sort then only merges them. Columns are the digits of a
number, each of a base as great as its values in this section span, so that keys which lie close stay close. Text of one
length takes its last eight bytes, less the prefix that all keys share: the number that eight digits spell, or else that
of the bytes. Where 64 bits do not suffice, nothing is packed and the caller sorts the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    CharType,
    DataField,
    DateType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.engine.names import col, series, unnamed
from morrow.readers.masks.repeated import run_starts

WORD_BYTES = 8
WORD_BITS = 64
INTEGERS = (
    *(TinyIntType, SmallIntType, IntType, BigIntType, DateType),
    *(TimeType, TimestampType, LocalZonedTimestampType),
)
TEXTS = (CharType, VarCharType, BinaryType, VarBinaryType)

NIBBLES, ZEROS, TO_SIXTEEN = (np.uint64(int.from_bytes(byte * WORD_BYTES)) for byte in (b"\xf0", b"0", b"\x06"))
"""The high nibbles of a word's bytes, those of eight digits with the digits 0, and what lifts greater ones than 9."""
ONES, TENS, HUNDREDS = np.uint64(0x000F000F000F000F), np.uint64(0x000000FF000000FF), np.uint64(0xFFFF)
BLOCK = 1 << 16
"""Rows that are packed at a time: as many as stay in the processor's cache."""

U64 = npt.NDArray[np.uint64]


class KeyPacking(msgspec.Struct, frozen=True, dict=True):
    """The packing of the key columns of one section.

    `lengths` holds, for text columns, the length in bytes of the section's smallest and greatest key, and `spelling`
    has those in which both end in eight digits: guesses at all values, which `pack` verifies.
    """

    fields: tuple[DataField, ...]
    lengths: Mapping[str, int]
    spelling: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, fields: Sequence[DataField], low: Sequence[object] | None, high: Sequence[object] | None
    ) -> KeyPacking | None:
        """Returns a packing for keys between the bounds `low` and `high`, None when none is worth trying."""
        if low is None or high is None or (len(fields) == 1 and isinstance(fields[0].type, INTEGERS)):
            return None
        lengths: dict[str, int] = {}
        for field, first, last in zip(fields, low, high):
            if isinstance(field.type, TEXTS):
                length = _byte_length(first)
                if length < WORD_BYTES or length != _byte_length(last):
                    return None
                lengths[field.name] = length
            elif not isinstance(field.type, INTEGERS):
                return None
        ends = {field.name: (_bytes(first), _bytes(last)) for field, first, last in zip(fields, low, high)}
        spelling = (name for name in lengths if all(text[-WORD_BYTES:].isdigit() for text in ends[name]))
        return cls(tuple(fields), lengths, frozenset(spelling))

    @cached_property
    def expressions(self) -> list[pl.Expr]:
        """Expressions to select of a file's key columns instead of the columns themselves."""
        return [self._expression(field) for field in self.fields]

    def _expression(self, field: DataField) -> pl.Expr:
        if field.name not in self.lengths:
            return col(field.name).to_physical()
        length = self.lengths[field.name]
        content = col(field.name).cast(pl.Binary)
        word = content.bin.slice(length - WORD_BYTES, WORD_BYTES).bin.reinterpret(dtype=pl.UInt64, endianness="big")
        # A value of another length, or of other bytes than digits, becomes null, which `pack` notices.
        word = pl.when(content.bin.size() == length).then(word)
        if field.name in self.spelling:
            word = word.map_batches(spelt, return_dtype=pl.UInt64, is_elementwise=True)
        return word.alias(field.name)

    def words(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Returns the columns of `expressions` for rows in memory: text that repeats is packed once."""
        return [self._words(frame, field, made) for field, made in zip(self.fields, self.expressions)]

    def _words(self, frame: pl.DataFrame, field: DataField, made: pl.Expr) -> pl.Series:
        starts = run_starts(series(frame, field.name)) if field.name in self.lengths else None
        if starts is None:
            return frame.select(made).to_series()
        each = series(frame, field.name).gather(starts).to_frame().select(made).to_series()
        if each.null_count():
            return pl.repeat(None, frame.height, dtype=each.dtype, eager=True).alias(field.name)
        return series_of(np.repeat(each.to_numpy(), np.diff(starts, append=frame.height))).alias(field.name)

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
            least, greatest = _bounds(column)
            base = greatest - least + 1
            if numbers * base > 1 << WORD_BITS:
                return None
            alike, numbers = numbers == 1, numbers * base
            if base == 1 and not alike:
                continue
            # Offsets wrap around like unsigned numbers, and so are right for signed ones too.
            first = np.uint64(least % (1 << WORD_BITS))
            for rows, words in _blocks(column):
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


def spelt(words: pl.Series) -> pl.Series:
    """Returns the numbers (UInt64) that words of eight ASCII digits spell; null where a word has another byte."""
    found: U64 = unnamed(words).fill_null(0).to_numpy()
    digits = ((found & NIBBLES) == ZEROS) & (((found + TO_SIXTEEN) & NIBBLES) == ZEROS)
    two = ((found >> np.uint64(8)) & ONES) * np.uint64(10) + (found & ONES)
    four = ((two >> np.uint64(16)) & TENS) * np.uint64(100) + (two & TENS)
    numbers = series_of((four >> np.uint64(32)) * np.uint64(10_000) + (four & HUNDREDS))
    return numbers if digits.all() else pl.select(pl.when(series_of(digits)).then(numbers)).to_series()


def _bounds(column: pl.Series) -> tuple[int, int]:
    least, greatest = column.min(), column.max()
    assert isinstance(least, int)
    assert isinstance(greatest, int)
    return least, greatest


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


def _byte_length(value: object) -> int:
    return len(_bytes(value))
