"""The common parts of the three kinds of user filter: column lookup by name, and residuals.

A filter comes as SQL text, as an Arrow expression or as a Polars expression. Its front end splits it into conjuncts.
Each is either a `Predicate`, which every layer understands, or a `Residual`. Only the engine of its own kind can
evaluate a residual; readers apply it to the rows that the predicate kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec
import polars as pl

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import find_member
from morrow.engine.format.types import DataField
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate, Value
from morrow.engine.redaction import suggest_name

if TYPE_CHECKING:
    import pyarrow.compute as pc

Kind = Literal["sql", "arrow", "polars"]
Expression: TypeAlias = "str | pl.Expr | pc.Expression"

EXACT_FLOAT_INTEGERS = 2**24
"""The integer up to which a FLOAT represents all integers."""
MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""Comparisons with their sides exchanged."""
MAX_SHOWN_NAMES = 3
MIN_FOLDED_COMPARISONS = 16
"""The minimum number of comparisons of a column that become a list; fewer are shown as they were written."""
MAX_LEVELS = 64
"""The maximum nesting depth of AND and OR."""
MAX_SHOWN_LENGTH = 500
"""The limit of characters of a filter that a message shows."""


class Residual(msgspec.Struct, frozen=True, eq=False):
    """A condition without an exact `Predicate`: readers keep the rows for which it is true.

    `expression` is SQL text (DuckDB's dialect), a `pyarrow.compute.Expression` or a `polars.Expr`, according to `kind`.
    `columns` are the top-level columns it reads. `text` is for display and may be shortened; `identity`, the serialized
    expression, identifies the residual. If it does not suffice (a Python function reads variables of its own),
    `identity` is None, and the residual equals only itself.
    """

    kind: Kind
    text: str
    columns: frozenset[str]
    expression: Expression
    identity: bytes | None = None

    def __repr__(self) -> str:
        return f"Residual({self.kind!r}, {self.text!r}, {set(self.columns)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Residual) or self.identity is None or other.identity is None:
            return self is other
        return (self.kind, self.identity, self.columns) == (other.kind, other.identity, other.columns)

    def __hash__(self) -> int:
        return object.__hash__(self) if self.identity is None else hash((self.kind, self.identity))

    def __str__(self) -> str:
        return self.text


def shorten_text(text: str) -> str:
    """Return the text as messages show it, a long one shortened to its beginning and end."""
    half = MAX_SHOWN_LENGTH // 2
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:half]} ... {text[-half:]}"


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
        """Return the column with exactly this spelling (Arrow and Polars names are case-sensitive).

        Raises:
            ColumnNotFound: the column does not exist; the message names the nearest.
        """
        if name not in self._exact:
            raise ColumnNotFound(self._unknown(name))
        return self._exact[name]

    def find(self, name: str) -> DataField:
        """Return the column of this SQL name.

        Raises:
            ColumnNotFound: the column does not exist; the message names the nearest.
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
        path = [repr(field.name) for field in find_member(self.fields, name) or ()]
        if path:
            polars = f"pl.col({path[0]})" + "".join(f".struct.field({part})" for part in path[1:])
            hint = f"write {polars}, pc.field({', '.join(path)}) or the condition as SQL"
            return f"filter: {name!r} is a member of the column {path[0]}: {hint}"
        hint = suggest_name(name, (f.name for f in self.fields), MAX_SHOWN_NAMES)
        return f"filter: no column {name!r}; {hint}`table.schema` lists all {len(self.fields)} columns"


T = TypeVar("T")


def join_in_pairs(join: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Join one or more parts in pairs of pairs: a thousand conditions nest ten levels deep rather than a thousand."""
    while len(parts) > 1:
        pairs = [join(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return parts[0]


def limit_depth(predicate: Predicate | None) -> Predicate | None:
    """Return the predicate; None if its nesting might exhaust the stack in a traversal."""
    level: Sequence[Predicate] = () if predicate is None else (predicate,)
    for _ in range(MAX_LEVELS):
        level = [child for part in level if not isinstance(part, Leaf) for child in part.children]
        if not level:
            return predicate
    return None


def combine_all(parts: Iterable[Predicate | None]) -> Predicate | None:
    """Return the AND of parts; None if one of them is None."""
    return _combine(parts, And, ALWAYS, NEVER)


def combine_any(parts: Iterable[Predicate | None]) -> Predicate | None:
    """Return the OR of parts; None if one of them is None."""
    return _combine(parts, Or, NEVER, ALWAYS)


def _combine(
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
    kept = fold_comparisons(kept, join)
    return kept[0] if len(kept) == 1 else join(tuple(kept))


def fold_comparisons(parts: Sequence[Predicate], join: type[And] | type[Or]) -> list[Predicate]:
    """Replace many ``x <> 1 AND x <> 2 ...`` of a column in an AND or OR by one NOT IN, many ``=`` by one IN.

    Engines plan a single list fast, but thousands of comparisons slowly or never.
    """
    ops = (Op.NE, Op.NOT_IN) if join is And else (Op.EQ, Op.IN)
    counts = Counter(part.column for part in parts if isinstance(part, Leaf) and _is_listable(part, ops))
    values: dict[str, dict[Value, None]] = {
        column: {} for column, count in counts.items() if count >= MIN_FOLDED_COMPARISONS
    }
    kept: list[Predicate] = []
    for part in parts:
        if isinstance(part, Leaf) and part.column in values and _is_listable(part, ops):
            values[part.column].update(dict.fromkeys(part.literals))
        else:
            kept.append(part)
    return [*kept, *(Leaf(column, ops[1], tuple(listed)) for column, listed in values.items())]


def _is_listable(part: Predicate, ops: tuple[Op, Op]) -> bool:
    """Return whether the part may join a list: not of floats (some engines distinguish zeros and NaN) or booleans."""
    return isinstance(part, Leaf) and part.op in ops and not any(isinstance(v, (float, bool)) for v in part.literals)
