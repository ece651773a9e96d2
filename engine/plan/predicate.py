"""Filters as trees of comparisons that metadata, file readers and SQL engines understand, and residuals beside them.

Three-valued logic, as in SQL: a comparison with null is unknown, and a row is kept only if the whole tree is true.
`NOT` never appears in a tree: every leaf operator has a negation, and De Morgan's laws do the rest.

For statistics, indexes and row groups of an older file, a filter is translated to the columns of its schema. Column
identity is the field id. Source: the specification's schema evolution, and Java's rule that a pushed filter may keep
more rows but never fewer.

A filter comes as SQL text, as an Arrow expression or as a Polars expression. Its front end splits it into conjuncts.
Each is either a `Predicate`, which every layer understands, or a `Residual`. Only the engine of its own kind can
evaluate a residual; readers apply it to the rows that the predicate kept.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec
import polars as pl
from msgspec import structs

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.schema import find_member
from morrow.engine.redaction import suggest_name

if TYPE_CHECKING:
    import pyarrow.compute as pc

Value: TypeAlias = bool | int | float | str | bytes | Decimal | dt.date | dt.time | dt.datetime
"""A literal in the type of its column: TIMESTAMP is a naive datetime, TIMESTAMP_LTZ an aware one in UTC."""


class Op(StrEnum):
    """Leaf operators. IS NULL and IS NOT NULL take no literal, IN and NOT IN any number, the others one."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"
    STARTS_WITH = "STARTS WITH"
    NOT_STARTS_WITH = "NOT STARTS WITH"


NEGATED = {
    Op.EQ: Op.NE,
    Op.LT: Op.GE,
    Op.GT: Op.LE,
    Op.IN: Op.NOT_IN,
    Op.IS_NULL: Op.IS_NOT_NULL,
    Op.STARTS_WITH: Op.NOT_STARTS_WITH,
}
NEGATED |= {negated: op for op, negated in NEGATED.items()}


class Leaf(msgspec.Struct, frozen=True):
    """``column op literals``; literals are never null (a comparison with NULL keeps no row)."""

    column: str
    op: Op
    literals: tuple[Value, ...] = ()

    def __str__(self) -> str:
        if not self.literals and self.op in (Op.IS_NULL, Op.IS_NOT_NULL):
            return f"{self.column} {self.op.value}"
        if self.op in (Op.IN, Op.NOT_IN):
            return f"{self.column} {self.op.value} ({', '.join(map(_format_value, self.literals))})"
        return f"{self.column} {self.op.value} {_format_value(self.literals[0])}"


class And(msgspec.Struct, frozen=True):
    """A conjunction: true when all children are; always true without children."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({c})" if isinstance(c, Or) else str(c) for c in self.children) or "TRUE"


class Or(msgspec.Struct, frozen=True):
    """A disjunction: true when any child is; never true without children."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({c})" if isinstance(c, And) else str(c) for c in self.children) or "FALSE"


Predicate: TypeAlias = Leaf | And | Or
ALWAYS = And(())
NEVER = Or(())


def combine_predicates(*predicates: Predicate) -> Predicate:
    """Return the AND of all predicates, flattened: nested ANDs become one."""
    parts = tuple(part for predicate in predicates for part in split_conjuncts(predicate))
    return parts[0] if len(parts) == 1 else And(parts)


def split_conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the conjuncts, which must all be true."""
    if isinstance(predicate, And):
        return tuple(part for child in predicate.children for part in split_conjuncts(child))
    return (predicate,)


def iterate_leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield every comparison of the tree, left to right."""
    if isinstance(predicate, Leaf):
        yield predicate
    else:
        for child in predicate.children:
            yield from iterate_leaves(child)


def find_columns(predicate: Predicate) -> frozenset[str]:
    """Return the columns that the predicate reads."""
    return frozenset(leaf.column for leaf in iterate_leaves(predicate))


MAX_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


def find_successor(prefix: str) -> str | None:
    """Return the least string above all strings that start with `prefix`; None if there is none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        following = SURROGATES.stop if following in SURROGATES else following
        if following <= MAX_CODE_POINT:
            return prefix[: end - 1] + chr(following)
    return None


def _format_value(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return str(value)


Fields = Sequence[t.DataField]

INTEGER_BITS: dict[type[t.DataType], int] = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}


def translate_predicate(predicate: Predicate, file_fields: Fields, read_fields: Fields) -> Predicate:
    """Translate a filter on the columns read to the file's columns: for statistics, indexes and row groups only.

    Every row of the file that `predicate` keeps is kept by the result; it may keep more, and is ALWAYS if nothing is
    known. A comparison is

    * renamed, when the type is the same, or VARCHAR that grew;
    * renamed, when the type is now a wider integer, if its literals fit the file's type. (Other literals match
      nothing in `=` and `IN`; comparisons with them are dropped.)
    * evaluated, when the file lacks the column: all its values are null;
    * dropped for any other type change, because a cast may make values equal or change their order.
    """
    written = {field.id: field for field in file_fields}
    read = {field.name: field for field in read_fields}

    def leaf(part: Leaf) -> Predicate:
        field = read.get(part.column)
        return ALWAYS if field is None else _translate_leaf(part, written.get(field.id), field)

    return _map_leaves(predicate, leaf)


def _map_leaves(predicate: Predicate, leaf: Callable[[Leaf], Predicate]) -> Predicate:
    if isinstance(predicate, Leaf):
        return leaf(predicate)
    children = [_map_leaves(child, leaf) for child in predicate.children]
    if isinstance(predicate, And):
        parts = tuple(part for child in children for part in split_conjuncts(child))
        if NEVER in parts:
            return NEVER
        return parts[0] if len(parts) == 1 else And(parts)
    if ALWAYS in children:
        return ALWAYS
    possible = tuple(child for child in children if child != NEVER)
    return possible[0] if len(possible) == 1 else Or(possible)


def _translate_leaf(part: Leaf, written: t.DataField | None, field: t.DataField) -> Predicate:
    if written is None:
        return _evaluate_on_nulls(part)
    renamed = structs.replace(part, column=written.name)
    if t.has_same_values(written.type, field.type) or _is_longer_text(written.type, field.type):
        return renamed
    if part.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        # No cast turns null into a value, but some turn a value into null: a DECIMAL that does not fit.
        return renamed if part.op is Op.IS_NOT_NULL else ALWAYS
    if not _is_wider_integer(written.type, field.type):
        return ALWAYS
    limit = 2 ** (INTEGER_BITS[written.type.__class__] - 1)
    fitting = tuple(x for x in part.literals if isinstance(x, int) and -limit <= x < limit)
    if fitting == part.literals:
        return renamed
    if part.op not in (Op.EQ, Op.IN) or not all(isinstance(x, int) for x in part.literals):
        return ALWAYS
    return structs.replace(renamed, literals=fitting) if fitting else NEVER


def _evaluate_on_nulls(part: Leaf) -> Predicate:
    """Evaluate a comparison on a column that is all null; NOT IN () is left open because engines differ."""
    undecided = part.op is Op.NOT_IN and not part.literals
    return ALWAYS if part.op is Op.IS_NULL or undecided else NEVER


def _is_longer_text(written: t.DataType, read: t.DataType) -> bool:
    return isinstance(written, t.VarCharType) and isinstance(read, t.VarCharType) and read.length >= written.length


def _is_wider_integer(written: t.DataType, read: t.DataType) -> bool:
    before, after = INTEGER_BITS.get(written.__class__), INTEGER_BITS.get(read.__class__)
    return before is not None and after is not None and before < after


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

VARIANT_PREFIX = "morrow_variant_"
VARIANT_PARSE, VARIANT_TRY_PARSE, VARIANT_PART, VARIANT_TEXT, VARIANT_IS_NULL = (
    VARIANT_PREFIX + name for name in ("parse", "try_parse", "part", "text", "is_null")
)
"""The functions on variants that DuckDB calls in residual conditions."""


class VariantPart(msgspec.Struct, frozen=True):
    """A part of a VARIANT column: a path in it, cast to a type. `name` is its column in a `PartCondition`."""

    name: str
    column: str
    path: tuple[str | int, ...]
    type: t.DataType


class PartCondition(msgspec.Struct, frozen=True):
    """A condition as a predicate over parts of variants."""

    predicate: Predicate
    parts: tuple[VariantPart, ...]


class Residual(msgspec.Struct, frozen=True, eq=False):
    """A condition without an exact `Predicate`: readers keep the rows for which it is true.

    `expression` is SQL text (DuckDB's dialect), a `pyarrow.compute.Expression` or a `polars.Expr`, according to `kind`.
    `columns` are the top-level columns it reads. `text` is for display and may be shortened; `identity`, the serialized
    expression, identifies the residual. If it does not suffice (a Python function reads variables of its own),
    `identity` is None, and the residual equals only itself.

    `parts` is the same condition over parts of variants, if it reads nothing else.
    """

    kind: Kind
    text: str
    columns: frozenset[str]
    expression: Expression
    identity: bytes | None = None
    parts: PartCondition | None = None

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

    def __init__(self, fields: Sequence[t.DataField]) -> None:
        self.fields = tuple(fields)
        self._exact = {f.name: f for f in self.fields}
        self._folded: dict[str, list[t.DataField]] = {}
        for f in self.fields:
            self._folded.setdefault(f.name.casefold(), []).append(f)

    def exact(self, name: str) -> t.DataField:
        """Return the column with exactly this spelling (Arrow and Polars names are case-sensitive).

        Raises `ColumnNotFound`: the column does not exist; the message names the nearest.
        """
        if name not in self._exact:
            raise ColumnNotFound(self._unknown(name))
        return self._exact[name]

    def find(self, name: str) -> t.DataField:
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
