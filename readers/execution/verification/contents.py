"""Aggregates of a file's columns, gathered batch by batch: one batch is in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import CharType, DataField
from morrow.engine.names import col, cols, unnamed
from morrow.readers.masks.ordering import sortable

LAST_KIND = 3


@dataclass
class Contents:
    """Aggregates of the columns `fields`, of which `keys` order the rows.

    Not `exact`: CHAR has lost its trailing blanks, which statistics have; and times before 1970 may be a second late.
    """

    fields: Sequence[DataField]
    keys: Sequence[str] = ()
    exact: bool = True
    rows: int = 0
    retractions: int = 0
    problems: list[str] = field(default_factory=list)
    parts: list[pl.DataFrame] = field(default_factory=list)
    first: pl.DataFrame | None = None
    last: pl.DataFrame | None = None

    def add(self, batch: pl.DataFrame) -> None:
        """Adds the next rows of the file."""
        if not batch.height:
            return
        if VALUE_KIND in batch.columns:
            self._kinds(batch[VALUE_KIND])
        self.parts.append(self._gathered(batch))
        if self.keys:
            self._ordered(batch.select(cols(self.keys)))
        self.rows += batch.height

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _kinds(self, kinds: pl.Series) -> None:
        if kinds.null_count() or not kinds.is_between(0, LAST_KIND).all():
            self._problem(f"{VALUE_KIND} holds what is no kind of row")
        self.retractions += int(((kinds & RETRACT_BIT) != 0).sum())

    def _gathered(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Returns one row: nulls of all columns, bounds of those that have an order, NaN of floats."""
        found: list[pl.Expr] = []
        alive = pl.lit(True) if VALUE_KIND not in batch.columns else (pl.col(VALUE_KIND) & RETRACT_BIT) == 0
        for each in self.fields:
            column, dtype = col(each.name), batch.schema[each.name]
            found.append(column.null_count().cast(pl.Int64).alias(f"nulls {each.name}"))
            if not each.type.nullable:
                found.append((column.is_null() & alive).sum().cast(pl.Int64).alias(f"absent {each.name}"))
            if dtype.is_nested() or dtype in (pl.Binary, pl.Null, pl.Object):
                continue
            if not self.exact and isinstance(each.type, CharType):
                column = column.str.pad_end(each.type.length)
            found += [column.min().alias(f"min {each.name}"), column.max().alias(f"max {each.name}")]
            if dtype.is_float():
                found.append(column.is_nan().any().alias(f"nan {each.name}"))
        return batch.select(found) if found else pl.DataFrame()

    def _ordered(self, keys: pl.DataFrame) -> None:
        if any(column.null_count() for column in keys.iter_columns()):
            self._problem("a key is null")
            return
        self.first = keys[:1] if self.first is None else self.first
        with_last = keys if self.last is None else pl.concat([self.last, keys])
        self.last = keys[-1:]
        floats = [column for column in with_last.iter_columns() if column.dtype.is_float()]
        if any(unnamed(column).is_nan().any() for column in floats):
            return  # equal to every number in Java's comparisons up to 2.0, so there is no order
        if not self.exact and any(map(_holds_early, with_last.iter_columns())):
            return
        comparable = with_last.select(sortable(column) for column in with_last.iter_columns())
        if (problem := _disorder(comparable, distinct=not floats)) is not None:
            self._problem(problem)

    @cached_property
    def totals(self) -> dict[str, pl.Series]:
        """The aggregates of the whole file, one value each; valid once all of its rows have been added."""
        if not self.parts:
            return {}
        whole = pl.concat(self.parts)
        how = {"nulls": pl.Expr.sum, "absent": pl.Expr.sum, "min": pl.Expr.min, "max": pl.Expr.max, "nan": pl.Expr.any}
        exprs = [how[name.partition(" ")[0]](col(name)).alias(name) for name in whole.columns]
        return {column.name: column for column in whole.select(exprs).iter_columns()}

    @property
    def sequence(self) -> tuple[int, int] | None:
        """The least and greatest sequence number, None without any."""
        totals = self.totals
        low = totals.get(f"min {SEQUENCE_NUMBER}")
        if low is None or low.null_count():
            return None
        return low.item(), totals[f"max {SEQUENCE_NUMBER}"].item()


def _holds_early(column: pl.Series) -> bool:
    """Returns whether a time column has values that ORC returns out of order."""
    if column.dtype.base_type() != pl.Datetime:
        return False
    return bool((unnamed(column).dt.epoch("s") < 1).any())


def _disorder(keys: pl.DataFrame, *, distinct: bool) -> str | None:
    """Returns the violation of the order of these keys, each of which has to be greater than the one before."""
    if keys.height < 2:
        return None
    columns = [pl.col(f"k{i}") for i in range(keys.width)]
    keys.columns = [f"k{i}" for i in range(keys.width)]
    pairs = [(column.slice(1), column.slice(0, keys.height - 1)) for column in columns]
    less, equal = pl.lit(False), pl.lit(True)
    for after, before in pairs:
        less = less | (equal & (after < before))
        equal = equal & (after == before)
    found = keys.select(less.any().alias("less"), equal.any().alias("equal"))
    if found["less"].item():
        return "its rows are not in the order of their keys"
    return "it holds a key twice" if distinct and found["equal"].item() else None
