"""Composite and text keys as one unsigned 64-bit number each, where that is exact.

Numbers sort fast, and sorted files stay sorted runs: a stable sort then only merges them. A column takes as many bits
as its values in this section span; text of one length takes its last eight bytes, less the prefix that all keys share.
Where the bits do not suffice, nothing is packed and the caller sorts the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

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
from morrow.readers.masks.repeated import run_starts

WORD_BYTES = 8
WORD_BITS = 64
INTEGERS = (
    *(TinyIntType, SmallIntType, IntType, BigIntType, DateType),
    *(TimeType, TimestampType, LocalZonedTimestampType),
)
TEXTS = (CharType, VarCharType, BinaryType, VarBinaryType)


class KeyPacking(msgspec.Struct, frozen=True, dict=True):
    """The packing of the key columns of one section.

    `lengths` holds, for text columns, the length in bytes of the section's smallest and greatest key: a guess at the
    length of all, which `pack` verifies.
    """

    fields: tuple[DataField, ...]
    lengths: Mapping[str, int]

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
        return cls(tuple(fields), lengths)

    @cached_property
    def expressions(self) -> list[pl.Expr]:
        """Expressions to select of a file's key columns instead of the columns themselves."""
        return [self._expression(field) for field in self.fields]

    def _expression(self, field: DataField) -> pl.Expr:
        if field.name not in self.lengths:
            return col(field.name).to_physical().cast(pl.Int64)
        length = self.lengths[field.name]
        content = col(field.name).cast(pl.Binary)
        word = content.bin.slice(length - WORD_BYTES, WORD_BYTES).bin.reinterpret(dtype=pl.UInt64, endianness="big")
        # A value of another length becomes null, which `pack` notices.
        return pl.when(content.bin.size() == length).then(word).alias(field.name)

    def words(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Returns the columns of `expressions` for rows in memory: text that repeats is packed once."""
        return [self._words(frame, field, made) for field, made in zip(self.fields, self.expressions)]

    def _words(self, frame: pl.DataFrame, field: DataField, made: pl.Expr) -> pl.Series:
        starts = run_starts(series(frame, field.name)) if field.name in self.lengths else None
        if starts is None:
            return frame.select(made).to_series()
        each = series(frame, field.name).gather(starts).to_frame().select(made).to_series()
        numbers = pl.Series(np.repeat(np.arange(len(starts), dtype=np.uint32), np.diff(starts, append=frame.height)))
        return each.gather(numbers)

    def pack(self, frame: pl.DataFrame, low: Sequence[object], high: Sequence[object]) -> npt.NDArray[np.uint64] | None:
        """Packs rows of `frame` (columns of `expressions`) into numbers equal for equal keys only; None if inexact."""
        if frame.is_empty():
            return np.empty(0, np.uint64)
        if not all(self._is_exact(frame, index, low, high) for index in range(len(self.fields))):
            return None
        packed: npt.NDArray[np.uint64] | None = None
        left = WORD_BITS
        for field in self.fields:
            column = frame[field.name]
            if column.null_count():
                return None
            values = column.to_numpy()
            least, greatest = int(values.min()), int(values.max())
            bits = (greatest - least).bit_length()
            left -= bits
            if left < 0:
                return None
            if bits == WORD_BITS:
                # Nothing else fits beside it, and its difference from the least value may overflow.
                sign = 0 if values.dtype == np.uint64 else 1 << (WORD_BITS - 1)
                packed = values.view(np.uint64) ^ np.uint64(sign)
                continue
            place = (values - values.dtype.type(least)).view(np.uint64)
            if packed is None:
                packed = place
            else:
                packed <<= np.uint64(bits)
                packed |= place
        assert packed is not None  # a key has a column
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


def _bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""


def _byte_length(value: object) -> int:
    return len(_bytes(value))
