"""Filters as trees of comparisons that metadata, file readers and SQL engines all understand.

Three-valued logic, as in SQL: a comparison with null is unknown, and a row is kept only if the whole tree is true.
`NOT` never appears in a tree: every leaf operator has a negation, and De Morgan's laws do the rest.

For statistics, indexes and row groups of an older file, a filter is translated to the columns of its schema. Column
identity is the field id. Source: the specification's schema evolution, and Java's rule that a pushed filter may keep
more rows but never fewer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import structs

from morrow.engine.format import types as t
from morrow.engine.format.types import has_same_values

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


def negate(predicate: Predicate) -> Predicate:
    """Return the predicate that is true exactly when this one is false (unknown stays unknown)."""
    if isinstance(predicate, Leaf):
        return Leaf(predicate.column, NEGATED[predicate.op], predicate.literals)
    flipped = tuple(negate(child) for child in predicate.children)
    return Or(flipped) if isinstance(predicate, And) else And(flipped)


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

    Every row of the file that `predicate` keeps is kept by the result; it may keep more, and is ALWAYS if nothing
    can be said. A comparison is

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
    if has_same_values(written.type, field.type) or _is_longer_text(written.type, field.type):
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
