"""What the three kinds of user filter have in common: columns looked up by name, and what is left over.

A filter comes as SQL text, as an Arrow expression or as a Polars expression. Its front end cuts it into the parts
that must all be true; a part is either a `Predicate`, which every layer understands, or a `Residual`, which only the
engine of its own kind can evaluate and which readers apply to the rows that the predicate left.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import polars as pl
import pyarrow.compute as pc

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Or, Predicate

Kind = Literal["sql", "arrow", "polars"]
Expression: TypeAlias = str | pl.Expr | pc.Expression

NAMES_SHOWN = 3


@dataclass(frozen=True)
class Residual:
    """A condition that no `Predicate` says exactly: apply it to the rows, keep those where it is true.

    `expression` is SQL text (DuckDB's dialect), a `pyarrow.compute.Expression` or a `polars.Expr` as `kind` says;
    `text` shows it; `columns` are the top-level columns it reads. Equality goes by kind, text and columns, since
    expressions do not compare.
    """

    kind: Kind
    text: str
    columns: frozenset[str]
    expression: Expression = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


Part: TypeAlias = Leaf | And | Or | Residual


class Columns:
    """The columns a filter may name: exact spelling first, then any case if that is unambiguous."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self.fields = tuple(fields)
        self._exact = {f.name: f for f in self.fields}
        self._folded: dict[str, list[DataField]] = {}
        for f in self.fields:
            self._folded.setdefault(f.name.casefold(), []).append(f)

    def exact(self, name: str) -> DataField:
        """The column spelled exactly so (Arrow and Polars names are case-sensitive).

        Raises:
            ColumnNotFound: there is none; the message names the nearest.
        """
        if name not in self._exact:
            raise ColumnNotFound(self._unknown(name))
        return self._exact[name]

    def find(self, name: str) -> DataField:
        """The column of this SQL name.

        Raises:
            ColumnNotFound: there is none; the message names the nearest.
            InvalidArgument: several columns differ from it only in case.
        """
        if name in self._exact:
            return self._exact[name]
        candidates = self._folded.get(name.casefold(), [])
        if len(candidates) > 1:
            names = ", ".join(repr(f.name) for f in candidates)
            raise InvalidArgument(
                f"filter: column {name!r} is ambiguous between {names}; spell it exactly, in double quotes"
            )
        if not candidates:
            raise ColumnNotFound(self._unknown(name))
        return candidates[0]

    def _unknown(self, name: str) -> str:
        folded = {f.name.casefold(): f.name for f in self.fields}
        near = difflib.get_close_matches(name.casefold(), folded, n=NAMES_SHOWN, cutoff=0.5)
        names = [folded[n] for n in near]
        hint = f"did you mean {' or '.join(map(repr, names))}? " if names else ""
        return f"filter: no column {name!r}; {hint}`table.schema` lists all {len(self.fields)} columns"


def all_true(parts: Iterable[Predicate | None]) -> Predicate | None:
    """The AND of parts; None when one of them cannot be said."""
    return _joined(parts, And, ALWAYS, NEVER)


def any_true(parts: Iterable[Predicate | None]) -> Predicate | None:
    """The OR of parts; None when one of them cannot be said."""
    return _joined(parts, Or, NEVER, ALWAYS)


def _joined(
    parts: Iterable[Predicate | None], join: type[And] | type[Or], neutral: Predicate, absorbing: Predicate
) -> Predicate | None:
    kept: list[Predicate] = []
    for part in parts:
        if part is None:
            return None
        if part != neutral:
            kept.append(part)
    if absorbing in kept:
        return absorbing
    return kept[0] if len(kept) == 1 else join(tuple(kept))
