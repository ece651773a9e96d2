"""A user's filter, taken apart once: what the table's metadata can prune by, and what only the rows can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import polars as pl
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.plan import predicate as tree
from morrow.engine.plan.filter.terms import Columns, Part, Residual
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Or, Predicate

__all__ = ["NO_FILTER", "Filter", "FilterLike", "Residual", "both", "parse_filter"]

FilterLike: TypeAlias = str | pl.Expr | pc.Expression | Leaf | And | Or | None
"""What users may pass: the body of a WHERE clause, a Polars or Arrow expression, a predicate, or None for all rows."""


@dataclass(frozen=True)
class Filter:
    """``predicate AND residuals``: a row is kept when all of them are true for it.

    `columns` are all columns that have to be read to decide it, projected or not; `text` is the filter as given.
    """

    predicate: Predicate
    residuals: tuple[Residual, ...]
    columns: frozenset[str]
    text: str

    @property
    def is_pushed(self) -> bool:
        """The predicate alone decides."""
        return not self.residuals

    def __str__(self) -> str:
        return self.text


NO_FILTER = Filter(ALWAYS, (), frozenset(), "")


def both(first: Filter, second: Filter) -> Filter:
    """The filter that keeps the rows which both keep."""
    text = " AND ".join(f"({f.text})" for f in (first, second) if f.text)
    return Filter(
        tree.conjunction(first.predicate, second.predicate),
        first.residuals + second.residuals,
        first.columns | second.columns,
        text,
    )


def parse_filter(filter: FilterLike, fields: Sequence[DataField]) -> Filter:
    """Take a filter over these columns apart; every top-level condition that can be said exactly becomes predicate.

    SQL is DuckDB's, in a session in UTC. Arrow and Polars expressions keep their own semantics (in Arrow NaN equals
    nothing, in Polars and SQL it is the greatest value).

    Raises:
        ColumnNotFound: a column that `fields` does not have.
        InvalidArgument: SQL that does not parse, a literal that its column's type cannot hold, an aggregate,
            subquery or window function, an expression that is not a boolean per row, or another kind of object.
    """
    known = Columns(fields)
    if filter is None:
        return NO_FILTER
    # The front ends bring sqlglot or pyarrow.dataset along: each is imported by the first filter of its kind.
    if isinstance(filter, str):
        return _from_sql(filter, tuple(fields))
    if isinstance(filter, pl.Expr):
        from morrow.engine.plan.filter.polars import split_polars

        return _assembled(split_polars(filter, known), str(filter))
    if isinstance(filter, pc.Expression):
        from morrow.engine.plan.filter.arrow import split_arrow

        return _assembled(split_arrow(filter, known), str(filter))
    if isinstance(filter, (Leaf, And, Or)):
        for name in sorted(tree.columns(filter)):
            known.exact(name)
        return _assembled([filter], str(filter))
    raise InvalidArgument(
        f"filter: a {type(filter).__name__} is no filter; pass SQL text, a polars.Expr or a pyarrow.compute.Expression"
    )


@lru_cache(maxsize=256)
def _from_sql(text: str, fields: tuple[DataField, ...]) -> Filter:
    from morrow.engine.plan.filter.sql import split_sql

    return _assembled(split_sql(text, Columns(fields)), text.strip())


def _assembled(parts: Iterable[Part], text: str) -> Filter:
    parts = tuple(parts)
    predicate = tree.conjunction(*(part for part in parts if not isinstance(part, Residual)))
    residuals = tuple(part for part in parts if isinstance(part, Residual))
    read = frozenset().union(tree.columns(predicate), *(residual.columns for residual in residuals))
    return Filter(predicate, residuals, read, text)
