"""Time travel in SQL: the clauses ``VERSION AS OF`` and ``TIMESTAMP AS OF`` behind the name of a table."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.time_travel import NOW, Travel, to_millis
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.queries.parameters import Node

NOT_CONSTANT = (exp.Column, exp.Query, exp.Star, exp.Placeholder, exp.Parameter)


def travel_of_clause(version: Node | None) -> Travel:
    """Returns the state of a table that a clause ``VERSION | TIMESTAMP AS OF`` asks for.

    Raises:
        InvalidArgument: a form of time travel that is not ``AS OF``, or an invalid value.
    """
    if version is None:
        return NOW
    if version.args["kind"] != "AS OF":
        raise InvalidArgument(f"time travel by {version.args['kind']}: write AS OF (changes are read by Table.changes)")
    value = version.expression
    return {"VERSION": _version, "TIMESTAMP": _timestamp}[version.name](value)


def _version(value: Node) -> Travel:
    """Parses the name of a tag, an id, ``snapshot.<id>`` or ``watermark-<millis>`` as text, or an id as a number."""
    if not isinstance(value, exp.Literal) or not (value.is_string or value.is_int):
        raise InvalidArgument(f"VERSION AS OF takes a text or the id of a snapshot, not {value.sql(dialect=DuckDB)}")
    return Travel(version=value.name)


def _timestamp(value: Node) -> Travel:
    """Parses ISO text, seconds since 1970 as a number, or an expression of constants; times without a zone are UTC."""
    if isinstance(value, exp.Literal) and not value.is_string:
        return Travel(millis=int(Decimal(value.name) * MILLIS_PER_SECOND // 1))
    if isinstance(value, exp.Literal):
        if value.name.strip().isdecimal():
            raise InvalidArgument(f"TIMESTAMP AS OF {value.name!r}: write seconds since 1970 as a number, unquoted")
        return Travel(millis=to_millis(value.name))
    return Travel(millis=_evaluated(value))


def _evaluated(value: Node) -> int:
    """Evaluates an expression to epoch milliseconds, in a DuckDB without tables and file access."""
    import duckdb

    text = value.sql(dialect=DuckDB)
    if value.find(*NOT_CONSTANT) is not None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: the time must not depend on rows")
    with duckdb.connect(config={"python_enable_replacements": "false", "enable_external_access": "false"}) as apart:
        apart.execute("SET TimeZone = 'UTC'")
        instant = exp.cast(value.copy(), "timestamptz", dialect=DuckDB)
        try:
            found = apart.execute(exp.select(exp.func("epoch_ms", instant)).sql(dialect=DuckDB)).fetchone()
        except duckdb.Error as error:
            raise InvalidArgument(f"TIMESTAMP AS OF {text}: {error}") from error
    if found is None or found[0] is None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: that is NULL")
    return int(found[0])
