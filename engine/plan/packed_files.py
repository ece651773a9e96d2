"""Data files of a large plan, packed: one column for each of their members, of which files are made when asked for.

A million files with paths of 80 characters take 110 MiB so, and 320 as objects. Whoever goes through a plan section by
section holds the files of one section at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.plan.scan_plan import DataFile, DeletionRef, ManyFiles

AT_ONCE = 1 << 12
"""Files that are made at once where all of many are gone through."""

Column: TypeAlias = npt.NDArray[np.integer] | pl.Series | tuple[Any]
"""Integers, other values, or the one value of all files."""


class PackedFiles(ManyFiles):
    """Consecutive files of `columns`, which are those of `DataFile` but for the deletion vectors."""

    __slots__ = ("_columns", "_deletions", "_first", "_last")

    def __init__(self, columns: Sequence[Column], deletions: Mapping[int, DeletionRef], first: int, last: int) -> None:
        self._columns, self._deletions = columns, deletions
        self._first, self._last = first, last

    @classmethod
    def of(cls, described: pl.DataFrame, deletions: Mapping[int, DeletionRef]) -> PackedFiles:
        """Packs files: columns in the order of `DataFile`, lists for its tuples; `deletions` by the number of a row."""
        return cls([_column(each) for each in described.get_columns()], deletions, 0, described.height)

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[DataFile]:
        for first in range(self._first, self._last, AT_ONCE):
            yield from self._made(first, min(first + AT_ONCE, self._last))

    @overload
    def __getitem__(self, at: int) -> DataFile: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[DataFile, ...] | PackedFiles: ...
    def __getitem__(self, at: int | slice) -> DataFile | tuple[DataFile, ...] | PackedFiles:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step != 1:
                return tuple(self)[at]
            return PackedFiles(self._columns, self._deletions, self._first + first, self._first + max(first, last))
        number = range(self._first, self._last)[at]
        return next(self._made(number, number + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, PackedFiles)):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PackedFiles({len(self)} files)"

    @property
    def row_count(self) -> int:
        return self._total("row_count")

    @property
    def size(self) -> int:
        return self._total("size")

    def _total(self, member: str) -> int:
        column = self._columns[DataFile.__struct_fields__.index(member)]
        if isinstance(column, tuple):
            return int(column[0]) * len(self)
        return int(column[self._first : self._last].sum())

    def _made(self, first: int, last: int) -> Iterator[DataFile]:
        *members, written, dates = (_values(column, first, last) for column in self._columns)
        deletions: Iterable[DeletionRef | None] = (
            map(self._deletions.get, range(first, last)) if self._deletions else repeat(None, last - first)
        )
        return map(DataFile, *members, map(_tuple, written), deletions, map(_modern, dates))


def _column(column: pl.Series) -> Column:
    if column.null_count() == len(column):
        return (None,)
    if not column.null_count() and not column.dtype.is_nested() and column.n_unique() == 1:
        return (column[0],)
    return column.to_numpy() if column.dtype.is_integer() and not column.null_count() else column.rechunk()


def _values(column: Column, first: int, last: int) -> Iterable[Any]:
    if isinstance(column, tuple):
        return repeat(column[0], last - first)
    if isinstance(column, np.ndarray):
        return column[first:last].tolist()  # type: ignore[no-any-return]  # integers
    return column.slice(first, last - first).to_list()


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _modern(names: list[str] | None) -> tuple[str, ...]:
    return tuple(names or ())
