"""Filters as trees of comparisons that metadata, file readers and SQL engines all understand.

Three-valued logic, as in SQL: a comparison with null is unknown, and a row is kept only if the whole tree is true.
`NOT` never appears in a tree: every leaf operator has a negation, and De Morgan's laws do the rest.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

import msgspec

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
            return f"{self.column} {self.op.value} ({', '.join(map(_shown, self.literals))})"
        return f"{self.column} {self.op.value} {_shown(self.literals[0])}"


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
    """Returns the predicate that is true exactly where this one is false (unknown stays unknown)."""
    if isinstance(predicate, Leaf):
        return Leaf(predicate.column, NEGATED[predicate.op], predicate.literals)
    flipped = tuple(negate(child) for child in predicate.children)
    return Or(flipped) if isinstance(predicate, And) else And(flipped)


def conjunction(*predicates: Predicate) -> Predicate:
    """Returns the AND of all predicates, flattened: nested ANDs become one."""
    parts = tuple(part for predicate in predicates for part in conjuncts(predicate))
    return parts[0] if len(parts) == 1 else And(parts)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Returns the conjuncts, which must all be true."""
    if isinstance(predicate, And):
        return tuple(part for child in predicate.children for part in conjuncts(child))
    return (predicate,)


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yields every comparison of the tree, left to right."""
    if isinstance(predicate, Leaf):
        yield predicate
    else:
        for child in predicate.children:
            yield from leaves(child)


def columns(predicate: Predicate) -> frozenset[str]:
    """Returns the columns that the predicate reads."""
    return frozenset(leaf.column for leaf in leaves(predicate))


def _shown(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return str(value)
