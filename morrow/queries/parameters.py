"""Parameters of SQL: their values, and values as literals of DuckDB's SQL, nodes of sqlglot's tree and never text."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import InvalidArgument

Node: TypeAlias = Any
"""A node of sqlglot's tree; its base class changed between versions."""


def value_of(placeholder: Node, parameters: Mapping[str, object]) -> object:
    """Returns the value of a parameter. Raises `InvalidArgument` where it has none."""
    name = str(placeholder.this)
    if name not in parameters:
        raise InvalidArgument(f"the query: the parameter ${name} has no value")
    return parameters[name]


def literal(value: object) -> Node:
    """Returns a value as a literal of its type in DuckDB's SQL. Raises `InvalidArgument` for a type without one."""
    for kind, made in _LITERALS:
        if isinstance(value, kind):
            return made(value)
    raise InvalidArgument(f"the query: a {type(value).__name__} cannot stand here; give a number, a text or a time")


def _cast_text(kind: str, text: object) -> Node:
    return exp.cast(exp.Literal.string(str(text)), kind, dialect=DuckDB)


def _moment(value: dt.datetime) -> Node:
    return _cast_text("timestamp" if value.tzinfo is None else "timestamptz", value.isoformat(" "))


def _decimal(value: Decimal) -> Node:
    if not value.is_finite():
        return _cast_text("double", value)
    digits, exponent = len(value.as_tuple().digits), int(value.as_tuple().exponent)
    scale = max(-exponent, 0)
    return _cast_text(f"decimal({max(digits + max(exponent, 0), scale, 1)}, {scale})", format(value, "f"))


def _bytes(value: bytes) -> Node:
    return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(value.hex())])


def _list(value: Sequence[object]) -> Node:
    return exp.Array(expressions=[literal(item) for item in value])


_LITERALS: Sequence[tuple[type | tuple[type, ...], Any]] = (
    (type(None), lambda _: exp.null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, lambda value: exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))),
    (float, lambda value: _cast_text("double", repr(value))),
    (Decimal, _decimal),
    (str, exp.Literal.string),
    (dt.datetime, _moment),
    (dt.date, lambda value: _cast_text("date", value.isoformat())),
    (dt.time, lambda value: _cast_text("time", value.isoformat())),
    (bytes, _bytes),
    (uuid.UUID, lambda value: exp.Literal.string(str(value))),
    ((list, tuple), _list),
)


def bind(node: Node, parameters: Mapping[str, object]) -> None:
    """Puts literals in the place of parameters, where DuckDB does not see them."""
    for placeholder in list(node.find_all(exp.Placeholder)):
        placeholder.replace(literal(value_of(placeholder, parameters)))


def used_in(tree: Node, parameters: Mapping[str, object]) -> dict[str, object]:
    """Returns the values of the parameters that DuckDB sees, under names that are none of its numbers."""
    used: dict[str, object] = {}
    for placeholder in tree.find_all(exp.Placeholder):
        value = value_of(placeholder, parameters)
        name = f"morrow_{placeholder.this}"
        placeholder.set("this", name)
        used[name] = value
    return used
