"""Predicates as DuckDB SQL text, the only place that quotes names, literals and paths; and SQL residuals as masks.

Everything that comes from a table or a user passes through `quote_identifier`, `quote_literal` or `quote_path`;
literals carry their type, so DuckDB casts no column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    arrow_schema,
    arrow_time_unit,
)
from morrow.engine.names import apart
from morrow.engine.plan.filter.terms import Residual, shortened
from morrow.engine.plan.predicate import And, Leaf, Op, Predicate, Value
from morrow.readers.expressions.duckdb_names import rows_apart
from morrow.readers.expressions.library import check_duckdb, run_query

if TYPE_CHECKING:
    import duckdb

SESSION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
}
"""A filter computes on the rows it is given and reads no file, no network and no Python variable."""


def quote_identifier(name: str) -> str:
    """Returns a column or table name as SQL, always in double quotes.

    Raises:
        InvalidArgument: DuckDB has no way to spell the name (it is empty or holds a NUL character).
    """
    if not name or "\0" in name:
        raise InvalidArgument(
            f"the name {name!r} cannot be written in SQL; read the table with Polars or Arrow instead"
        )
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Returns a string literal; NUL characters, which end SQL text, are spelled ``chr(0)``."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def quote_path(path: str) -> str:
    """Returns a file path for `read_parquet` and similar functions: a string literal with escaped glob characters."""
    return quote_text("".join(f"[{char}]" if char in "*?[" else char for char in path))


def quote_literal(value: Value, kind: DataType) -> str:
    """Returns a literal with the type of its column: ``DATE '2024-01-01'``, ``CAST('1.50' AS DECIMAL(10, 2))``.

    Raises:
        Unsupported: literals of this type are not compared (nested types, VARIANT, BLOB).
    """
    write = _LITERALS.get(type(kind))
    if write is None:
        raise Unsupported(f"a literal of type {kind.text()} in a filter")
    return write(value, kind)


def compile(predicate: Predicate, fields: Sequence[DataField]) -> str:
    """Returns the body of a WHERE clause, true exactly for the rows that `predicate` keeps.

    Raises:
        ColumnNotFound: the predicate names a column that `fields` lacks.
    """
    return _compiled(predicate, {field.name: field.type for field in fields})


def _compiled(predicate: Predicate, kinds: dict[str, DataType]) -> str:
    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        kind = kinds[predicate.column]
        literals = [quote_literal(value, kind) for value in predicate.literals]
        return _LEAVES[predicate.op](quote_identifier(predicate.column), literals)
    parts = [_compiled(child, kinds) for child in predicate.children]
    joint = " AND " if isinstance(predicate, And) else " OR "
    while len(parts) > 1:  # in pairs: DuckDB limits how deep an expression nests
        pairs = [f"({joint.join(parts[i : i + 2])})" for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0] if parts else str(isinstance(predicate, And)).upper()


def _comparison(op: Op) -> Callable[[str, list[str]], str]:
    return lambda column, literals: f"{column} {op.value} {literals[0]}"


_LEAVES: dict[Op, Callable[[str, list[str]], str]] = {
    **{op: _comparison(op) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)},
    Op.IN: lambda column, literals: f"{column} IN ({', '.join(literals)})" if literals else "FALSE",
    Op.NOT_IN: lambda column, literals: (
        f"{column} NOT IN ({', '.join(literals)})" if literals else f"{column} IS NOT NULL"
    ),
    Op.IS_NULL: lambda column, _literals: f"{column} IS NULL",
    Op.IS_NOT_NULL: lambda column, _literals: f"{column} IS NOT NULL",
    Op.STARTS_WITH: lambda column, literals: f"starts_with({column}, {literals[0]})",
    Op.NOT_STARTS_WITH: lambda column, literals: f"NOT starts_with({column}, {literals[0]})",
}


def _cast_to(name: str) -> Callable[[Any, DataType], str]:
    return lambda value, _kind: f"CAST('{value!r}' AS {name})"


def _decimal(value: Decimal, kind: DataType) -> str:
    return f"CAST('{value:f}' AS {kind.text()})"


def _binary(value: bytes, _kind: DataType) -> str:
    return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"


TIMESTAMP_KEYWORDS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def _timestamp(value: dt.datetime, kind: DataType) -> str:
    assert isinstance(kind, TimestampType)
    return f"{TIMESTAMP_KEYWORDS[arrow_time_unit(kind.precision)]} '{value.isoformat(sep=' ')}'"


def _instant(value: dt.datetime, kind: DataType) -> str:
    """Returns an untyped string for nanosecond columns: DuckDB has two such types, which do not compare."""
    assert isinstance(kind, LocalZonedTimestampType)
    text = f"'{value.astimezone(dt.UTC).isoformat(sep=' ')}'"
    return text if arrow_time_unit(kind.precision) == "ns" else f"TIMESTAMPTZ {text}"


_LITERALS: dict[type[DataType], Callable[[Any, DataType], str]] = {
    BooleanType: lambda value, _kind: str(bool(value)).upper(),
    TinyIntType: _cast_to("TINYINT"),
    SmallIntType: _cast_to("SMALLINT"),
    IntType: _cast_to("INTEGER"),
    BigIntType: _cast_to("BIGINT"),
    FloatType: _cast_to("FLOAT"),
    DoubleType: _cast_to("DOUBLE"),
    DecimalType: _decimal,
    CharType: lambda value, _kind: quote_text(value),
    VarCharType: lambda value, _kind: quote_text(value),
    BinaryType: _binary,
    VarBinaryType: _binary,
    DateType: lambda value, _kind: f"DATE '{value.isoformat()}'",
    TimeType: lambda value, _kind: f"TIME '{value.isoformat()}'",
    TimestampType: _timestamp,
    LocalZonedTimestampType: _instant,
}


def check(residual: Residual, fields: Sequence[DataField]) -> None:
    """Lets DuckDB plan the condition over the columns that it reads, on no rows.

    Raises:
        InvalidArgument: DuckDB refuses it.
        Unsupported: it reads columns that DuckDB does not distinguish.
    """
    if len({name.casefold() for name in residual.columns}) < len(residual.columns):
        names = ", ".join(sorted(residual.columns))
        raise Unsupported(
            f"a SQL condition on columns that differ only in case ({names})",
            hint="write it as a Polars or Arrow expression",
        )
    _true_rows(residual, arrow_schema(tuple(fields)).empty_table(), 0)


def residual_mask(residual: Residual, rows: pa.Table, height: int) -> npt.NDArray[np.bool_]:
    """Returns true where the SQL condition is true (not null), one bool for each of the `height` rows.

    `rows` has the columns that the condition reads, maybe none.

    Raises:
        InvalidArgument: DuckDB cannot compute the condition for one of the rows.
    """
    mask = np.zeros(height, dtype=np.bool_)
    mask[_true_rows(residual, rows, height)] = True
    return mask


def _true_rows(residual: Residual, rows: pa.Table, height: int) -> npt.NDArray[np.int64]:
    """Returns the numbers of the rows that a WHERE keeps: it tests the parts of an AND one after the other."""
    import duckdb

    view, number = apart("rows", rows.column_names), apart("number", rows.column_names)
    numbered = pa.table({number: pa.array(np.arange(height))})
    for name, column in zip(rows.column_names, rows_apart(rows).columns, strict=True):
        numbered = numbered.append_column(name, column)
    cursor = _session().cursor()

    def run() -> dict[str, npt.NDArray[np.int64]]:
        cursor.register(view, numbered)
        query = f"SELECT {number} FROM {view} WHERE (\n{residual.expression}\n)"
        return cursor.execute(query).fetchnumpy()

    try:
        found = run_query(cursor, run)
        return np.asarray(found[number], dtype=np.int64)
    except duckdb.Error as error:
        problem = shortened(str(error).partition("\n")[0])
        raise InvalidArgument(f"filter: DuckDB cannot evaluate {shortened(residual.text)!r}: {problem}") from error
    finally:
        cursor.close()


@cache
def _session() -> duckdb.DuckDBPyConnection:
    import duckdb

    check_duckdb()
    connection = duckdb.connect(":memory:", config=SESSION)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection
