"""Checks that a file index leaves out no matching rows, by look-ups of values that the file holds, spread over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from morrow.engine.format.file_index import FileIndex
from morrow.engine.format.types import DataField
from morrow.engine.names import series

PER_BATCH, MOST = 2, 8
"""Values of a column that are looked up in an index: per batch, and per file."""


@dataclass
class IndexCheck:
    """Look-ups of values in `index`, of a file of `row_count` rows, while the file is read."""

    index: FileIndex
    fields: Sequence[DataField]
    row_count: int
    start: int = 0
    asked: dict[str, int] = field(default_factory=dict)

    def problems(self, batch: pl.DataFrame) -> Iterator[str]:
        """Yields values of the next rows that the index does not find.

        Raises:
            CorruptFile, Unsupported: the index is damaged, or of an unknown version.
        """
        for each in self.fields:
            if each.name in self.index.columns:
                yield from self._of_column(each, series(batch, each.name))
        self.start += batch.height

    def _of_column(self, column: DataField, values: pl.Series) -> Iterator[str]:
        if values.dtype.is_nested():
            return
        left = MOST - self.asked.get(column.name, 0)
        chosen = values.drop_nulls().unique(maintain_order=True).head(min(PER_BATCH, left)).to_list()
        self.asked[column.name] = self.asked.get(column.name, 0) + len(chosen)
        for value in chosen:
            if value == value and self._misses(column, "=", (value,), values == value):
                yield f"the file index does not find a value of column {column.name!r}"
        if values.null_count() and self._misses(column, "IS NULL", (), values.is_null()):
            yield f"the file index does not find a null of column {column.name!r}"

    def _misses(self, column: DataField, op: str, literals: tuple[object, ...], matching: pl.Series) -> bool:
        found = self.index.evaluate(column.name, column.type, op, literals, row_count=self.row_count)
        if found.is_all:
            return False
        maybe = found.mask(self.row_count)[self.start : self.start + len(matching)]
        return bool((matching.fill_null(False).to_numpy() & ~maybe).any())
