"""The elements of two columns of lists as one long frame, and back: list functions then work on whole columns.

The frame has one line per element: those of the accumulators first, then those of the new values, each in order.

==========  =========================================================================
``row``     number of the element's pair of lists, from 0
``is_new``  whether it belongs to the new value
``element`` the element
``same 0``  and further: its identity, or part of it; see `equality.Identities`
==========  =========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from morrow.engine.names import col

ROW = pl.col("row")
IS_NEW = pl.col("is_new")
ELEMENT = pl.col("element")


@dataclass(frozen=True)
class Elements:
    """The frame of the module, with the names of its identifying columns, of which ``row`` is the first."""

    frame: pl.DataFrame
    same: tuple[str, ...]

    def occurrence(self) -> pl.Expr:
        """Returns the number of equal elements of the row that precede this one."""
        return pl.int_range(pl.len()).over(self.same)

    def is_last(self) -> pl.Expr:
        """Returns whether no equal element of the row follows."""
        return pl.int_range(pl.len()).over(self.same) == pl.len().over(self.same) - 1

    def new_ones(self) -> pl.Expr:
        """Returns the number of new elements of the row that equal this one."""
        return IS_NEW.sum().over(self.same)


Step: TypeAlias = Callable[[Elements], pl.DataFrame]
"""Maps the elements to those of the result: lines of ``row`` and ``element``, each row's in order."""


def folded(
    accumulator: pl.Expr,
    new: pl.Expr,
    step: Step,
    *,
    dtype: pl.DataType,
    identity: Sequence[pl.Expr],
    nulls: bool = True,
) -> pl.Expr:
    """Returns lists made of the elements of two columns of lists by `step`; never null.

    Args:
        dtype: of the lists, of both columns and of the result.
        identity: the identity of an element, as expressions of `ELEMENT`.
        nulls: whether elements may be null; without, null ones are left out first.
    """

    def fold(pairs: pl.Series) -> pl.Series:
        lists = pairs.struct.unnest().with_row_index("row")
        sides = [_side(lists, "accumulator", is_new=False), _side(lists, "new", is_new=True)]
        frame = pl.concat(sides)
        if not nulls:
            frame = frame.filter(ELEMENT.is_not_null())
        frame = frame.with_columns(expression.alias(f"same {i}") for i, expression in enumerate(identity))
        result = step(Elements(frame, ("row", *(f"same {i}" for i in range(len(identity))))))
        return _lists(result, len(pairs), dtype)

    pairs = pl.struct(accumulator.alias("accumulator"), new.alias("new"))
    return pairs.map_batches(fold, return_dtype=dtype, is_elementwise=True)


def _side(lists: pl.DataFrame, name: str, *, is_new: bool) -> pl.DataFrame:
    column = lists.select(ROW, pl.lit(is_new).alias("is_new"), col(name).alias("element"))
    return column.explode("element", empty_as_null=False, keep_nulls=False)


def _lists(elements: pl.DataFrame, count: int, dtype: pl.DataType) -> pl.Series:
    """Returns `count` lists of the elements of each row; empty ones for rows without."""
    lists = elements.group_by("row", maintain_order=True).agg("element")
    rows = pl.DataFrame({"row": pl.int_range(count, dtype=pl.UInt32, eager=True)})
    joined = rows.join(lists, on="row", how="left", maintain_order="left")["element"].cast(dtype)
    return joined.fill_null(pl.Series([[]], dtype=dtype)) if joined.null_count() else joined
