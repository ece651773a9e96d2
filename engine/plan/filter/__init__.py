"""Parsing of user filters into a predicate, used for pruning by metadata, and residuals, evaluated only on rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import msgspec
import polars as pl

from morrow.engine.arguments import is_surrogate
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.plan import predicate as tree
from morrow.engine.plan.predicate import (
    ALWAYS,
    And,
    Columns,
    Leaf,
    Or,
    Part,
    PartCondition,
    Predicate,
    Residual,
    fold_comparisons,
    shorten_text,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc

__all__ = ["NO_FILTER", "Filter", "FilterLike", "Residual", "combine_filters", "parse_filter"]

FilterLike: TypeAlias = "str | pl.Expr | pc.Expression | Leaf | And | Or | None"
"""The filters of users: the body of a WHERE clause, a Polars or Arrow expression, a predicate, or None for all rows."""

MAX_CACHED_LENGTH = 1 << 16
"""The limit of characters of an SQL text whose parsed filter is cached."""


def _is_arrow(filter: FilterLike) -> TypeGuard[pc.Expression]:
    """Return whether this is an Arrow expression, without importing Arrow: its caller has already done so."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(filter, compute.Expression)


class Filter(msgspec.Struct, frozen=True):
    """``predicate AND residuals``: a row is kept if all of them are true for it.

    `columns` are all columns needed to evaluate it, projected or not; `text` is the filter as given.
    """

    predicate: Predicate
    residuals: tuple[Residual, ...]
    columns: frozenset[str]
    text: str

    @classmethod
    def of_predicate(cls, predicate: Predicate) -> Filter:
        """Return the filter of rows for which this predicate is true."""
        return cls(predicate, (), tree.find_columns(predicate), str(predicate))

    @property
    def is_identified(self) -> bool:
        """Whether an equal filter keeps the same rows, so that results of one may be cached for the other."""
        return all(residual.identity is not None for residual in self.residuals)

    @property
    def parts(self) -> PartCondition | None:
        """The first residual as a condition on parts of variants, which shredded files may answer."""
        return self.residuals[0].parts if self.residuals else None

    def without_parts(self) -> Filter:
        """Return the filter for rows that fulfil the condition on parts."""
        return _build_filter([self.predicate, *self.residuals[1:]], self.text)

    def __str__(self) -> str:
        return self.text


NO_FILTER = Filter(ALWAYS, (), frozenset(), "")


def combine_filters(first: Filter, second: Filter) -> Filter:
    """Return the conjunction of both filters."""
    text = " AND ".join(f"({f.text})" for f in (first, second) if f.text)
    return Filter(
        tree.combine_predicates(first.predicate, second.predicate),
        first.residuals + second.residuals,
        first.columns | second.columns,
        text,
    )


def parse_filter(filter: FilterLike, fields: Sequence[DataField]) -> Filter:
    """Parse a filter over these columns; every top-level condition with an exact predicate becomes a predicate.

    SQL is parsed as DuckDB does, in a session in UTC. Arrow and Polars expressions keep their own semantics (in Arrow
    NaN equals nothing, in Polars and SQL it is the greatest value).

    Raises:
        ColumnNotFound: a column that `fields` does not have.
        InvalidArgument: SQL that does not parse, a literal that its column's type cannot hold, an aggregate,
            subquery or window function, an expression that is not a boolean per row, or another kind of object.
    """
    known = Columns(fields)
    if filter is None:
        return NO_FILTER
    # The front ends import sqlglot or pyarrow.dataset, which are loaded by the first filter of each kind.
    if isinstance(filter, str):
        if not filter.isprintable() and any(map(is_surrogate, filter)):
            raise InvalidArgument(f"filter: half of a surrogate pair is not a character: {shorten_text(filter)!r}")
        parse = _from_sql if len(filter) <= MAX_CACHED_LENGTH else _from_sql.__wrapped__
        return parse(filter, tuple(fields))
    if isinstance(filter, pl.Expr):
        from morrow.engine.plan.filter.polars import split_polars

        return _build_filter(split_polars(filter, known), str(filter))
    if _is_arrow(filter):
        from morrow.engine.plan.filter.arrow import split_arrow

        return _build_filter(split_arrow(filter, known), str(filter))
    if isinstance(filter, (Leaf, And, Or)):
        for name in sorted(tree.find_columns(filter)):
            known.exact(name)
        return _build_filter([filter], str(filter))
    raise InvalidArgument(
        f"filter: a {type(filter).__name__} is not a filter; pass SQL text, a polars.Expr or a "
        "pyarrow.compute.Expression"
    )


@lru_cache(maxsize=256)
def _from_sql(text: str, fields: tuple[DataField, ...]) -> Filter:
    from morrow.engine.plan.filter.sql import split_sql

    return _build_filter(split_sql(text, Columns(fields)), text.strip())


def _build_filter(parts: Iterable[Part], text: str) -> Filter:
    parts = tuple(parts)
    predicate = _join_predicates(part for part in parts if not isinstance(part, Residual))
    residuals = tuple(part for part in parts if isinstance(part, Residual))
    read = frozenset[str]().union(tree.find_columns(predicate), *(residual.columns for residual in residuals))
    return Filter(predicate, residuals, read, text)


def _join_predicates(parts: Iterable[Predicate]) -> Predicate:
    flat = fold_comparisons([part for whole in parts for part in tree.split_conjuncts(whole)], And)
    return flat[0] if len(flat) == 1 else And(tuple(flat))
