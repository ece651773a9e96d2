"""Values computed from rows: SQL expressions (DuckDB's dialect), Polars expressions, and constants.

Rows are an Arrow table. SQL runs in UTC, in a session without access to files, the network and Python variables.
Results of SQL are cast to their columns as in a SQL assignment, among numbers and among dates and times. All other
values must fit without loss, like written rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.library_versions import export_series, import_array
from morrow.engine.plan.filter.sql import FORBIDDEN, STATEMENTS
from morrow.engine.plan.filter.sql_parsing import check_calls, describe_problem, run_with_stack
from morrow.engine.redaction import format_columns, suggest_name
from morrow.readers.expressions.sql import name_type, open_session, rename_row_columns, run_query
from morrow.writers.ingest.conversion import cast_lossless
from morrow.writers.ingest.sources import build_column
from morrow.writers.ingest.validation import check_frame

if TYPE_CHECKING:
    pass

Value: TypeAlias = object
"""SQL text, a Polars expression, or a Python value used as a constant."""

Columns: TypeAlias = Mapping[str, Sequence[str] | None]
"""The columns that an expression may read: a row's columns, or the columns of each side of a join."""

MIN_PATH_PARTS = 2
"""Parts of the name of a column of a join: its side, and its name."""

NUMBERS = (
    *(t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType),
    *(t.FloatType, t.DoubleType, t.DecimalType),
)
TIMES = (t.DateType, t.TimestampType, t.LocalZonedTimestampType, t.TimeType)
DUCKDB_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
DUCKDB_NUMBERS = frozenset((*DUCKDB_INTEGERS, *(f"U{name}" for name in DUCKDB_INTEGERS), "FLOAT", "DOUBLE", "DECIMAL"))
SELECTOR = '"Selector"'
"""A node of serialized Polars expressions that names columns by a pattern."""
JOIN = {b"morrow": b"join"}
"""Schema metadata that marks tables whose columns are the sides of a join, as structs."""
CASTS = ((NUMBERS, DUCKDB_NUMBERS), (TIMES, frozenset(("DATE", "VARCHAR"))))
"""Groups of column types, each with the types of SQL values that are cast to them."""


@dataclass(frozen=True)
class Expression:
    """A value for a column, or a condition, checked against the columns it may read."""

    what: str
    """Its name in error messages: ``set amount``."""
    value: Value

    columns: frozenset[str] | None = None
    """The columns that it reads, of any side of a join; None: unknown."""

    @property
    def is_sql(self) -> bool:
        return isinstance(self.value, str)


def check_expression(what: str, value: Value, columns: Columns) -> Expression:
    """Return an expression over these columns.

    Raises:
        InvalidArgument: SQL that does not parse or is not one value per row.
        ColumnNotFound: the expression reads a missing column.
    """
    if isinstance(value, str):
        for path in _find_paths(what, value):
            _check_path(what, path, columns)
    elif isinstance(value, pl.Expr):
        known = {f"{name}.{inner}" if inner else name for name, below in columns.items() for inner in below or ("",)}
        for name in value.meta.root_names():
            if name not in known:
                sides = [f"write pl.col('{side}.{name}')? " for side, below in columns.items() if name in (below or ())]
                hint = "".join(sides[:1]) or suggest_name(name, known)
                raise ColumnNotFound(f"{what}: there is no column {name!r}; {hint}{format_columns(sorted(known))}")
    return Expression(what, value, _find_read_columns(what, value, columns))


def _find_read_columns(what: str, value: Value, columns: Columns) -> frozenset[str] | None:
    """Return the columns that a checked expression reads; None for Polars expressions that select by pattern."""
    if isinstance(value, str):
        parts = {part.casefold() for path in _find_paths(what, value) for part in path[:MIN_PATH_PARTS]}
        known = (name for first, below in columns.items() for name in ((first,) if below is None else below))
        return frozenset(name for name in known if name.casefold() in parts)
    if isinstance(value, pl.Expr):
        if SELECTOR in value.meta.serialize(format="json"):
            return None
        return frozenset(name if name in columns else name.partition(".")[2] for name in value.meta.root_names())
    return frozenset()


def _find_paths(what: str, text: str) -> list[tuple[str, ...]]:
    return run_with_stack(lambda: _parse_paths(what, text), text, what)


def _parse_paths(what: str, text: str) -> list[tuple[str, ...]]:
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect="duckdb")
    except SqlglotError as error:
        raise InvalidArgument(f"{what}: the SQL expression {text!r} does not parse{describe_problem(error)}") from None
    if type(tree).__name__ in STATEMENTS:
        raise InvalidArgument(f"{what}: one expression is expected, not statements: {text!r}")
    check_calls(tree, what)
    node: exp.Expression
    for node in tree.find_all(*FORBIDDEN):
        name = next(name for kind, name in FORBIDDEN.items() if isinstance(node, kind))
        raise InvalidArgument(f"{what}: {name} cannot be used here: {text!r}")
    bound = {name.name for node in tree.find_all(exp.Lambda) for name in node.expressions}
    paths = (tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column))
    return [path for path in paths if path[0] not in bound]


def _check_path(what: str, path: tuple[str, ...], columns: Columns) -> None:
    names = {name.casefold(): below for name, below in columns.items()}
    if path[0].casefold() not in names:
        sides = [side for side, below in columns.items() if below and path[0].casefold() in map(str.casefold, below)]
        hint = " or ".join(f"{side}.{'.'.join(path)}" for side in sides)
        raise ColumnNotFound(
            f"{what}: there is no column {'.'.join(path)!r}; write {hint}"
            if sides
            else f"{what}: there is no column {'.'.join(path)!r}; {suggest_name(path[0], columns)}"
            f"{format_columns(columns)}. Text is SQL here: a text value is written with quotes inside, or as "
            f"polars.lit({path[0]!r})"
        )
    below = names[path[0].casefold()]
    _check_case(what, path[0], columns)
    if below is not None and len(path) >= MIN_PATH_PARTS:
        _check_case(what, path[1], below)
    if below is not None and (len(path) < MIN_PATH_PARTS or path[1].casefold() not in {n.casefold() for n in below}):
        raise ColumnNotFound(f"{what}: there is no column {'.'.join(path)!r}; {path[0]} has {', '.join(below)}")


def _check_case(what: str, name: str, names: Iterable[str]) -> None:
    """Check that other names do not differ only in case: DuckDB ignores case, and would read either column."""
    alike = [each for each in names if each.casefold() == name.casefold()]
    if len(alike) > 1:
        raise Unsupported(
            f"SQL on columns that differ only in case ({', '.join(alike)}), {what}",
            hint="write it as a Polars expression",
        )


def evaluate_condition(expression: Expression, rows: pa.Table) -> pl.Series:
    """Return one Boolean per row: whether a condition is true (not null)."""
    if expression.is_sql:
        # DuckDB evaluates the condition of a CASE like that of a WHERE, part by part.
        (mask,) = _run([f"CASE WHEN ({expression.value}\n) THEN TRUE ELSE FALSE END"], rows, [expression])
        return pl.Series(mask)
    if isinstance(expression.value, pl.Expr):
        mask = _evaluate_polars(expression, rows)
        if mask.dtype != pl.Boolean:
            raise InvalidArgument(f"{expression.what}: {expression.value} is {mask.dtype}, not a boolean")
        return mask.fill_null(False)
    raise InvalidArgument(
        f"{expression.what}: a {type(expression.value).__name__} is not a condition; give SQL text or a polars.Expr"
    )


def evaluate_expressions(
    expressions: Mapping[str, Expression], fields: Mapping[str, t.DataField], rows: pa.Table
) -> dict[str, pa.ChunkedArray]:
    """Return the value of each expression for each row, in the Arrow type of its column.

    Raises `InvalidArgument`: an expression cannot be computed, or its result does not fit the column.
    """
    made: dict[str, pa.ChunkedArray] = {}
    sql = {name: one for name, one in expressions.items() if one.is_sql}
    if sql:
        texts = _cast_assignments({name: str(one.value) for name, one in sql.items()}, fields, rows, list(sql.values()))
        made |= dict(zip(sql, _run(texts, rows, list(sql.values()))))
    for name, one in expressions.items():
        if isinstance(one.value, pl.Expr):
            computed = _evaluate_polars(one, rows)
            check_frame(computed.to_frame(name), 0)
            made[name] = export_series(computed)
        elif not one.is_sql:
            made[name] = pa.repeat(evaluate_constant(one, fields[name]), rows.num_rows)
    return {name: cast_lossless(made[name], fields[name], 0) for name in expressions}


def evaluate_constant(expression: Expression, field: t.DataField) -> pa.Scalar:
    """Return a Python value in the Arrow type of a column. Raises `InvalidArgument` if it does not fit."""
    value, kind = expression.value, field.type
    try:
        made = build_column(kind, [value])
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidArgument(f"{expression.what}: {value!r} does not fit {kind}: {error}") from error
    try:
        return cast_lossless(made, field, 0)[0]
    except InvalidArgument as error:
        raise InvalidArgument(f"{expression.what}: {value!r} does not fit {kind}: {error}") from None


def _cast_assignments(
    texts: Mapping[str, str], fields: Mapping[str, t.DataField], rows: pa.Table, expressions: Sequence[Expression]
) -> list[str]:
    """Return the SQL of each value, with the cast for the assignment to its column."""
    types = _find_types([f"({text}\n)" for text in texts.values()], rows, expressions)
    casts = []
    for (name, text), given in zip(texts.items(), types):
        kind = fields[name].type
        is_null = text.strip().casefold() == "null"
        casts.append(f"CAST(({text}\n) AS {name_type(kind)})" if is_null or is_cast(given, kind) else f"({text}\n)")
    return casts


def is_cast(given: str, kind: t.DataType) -> bool:
    """Return whether an assignment casts values of this DuckDB type to the type of a column."""
    if given.endswith("]") and isinstance(kind, (t.ArrayType, t.VectorType)):
        return is_cast(given.rpartition("[")[0], kind.element)
    name = given.partition("(")[0]
    return name in ("NULL", '"NULL"') or any(isinstance(kind, kinds) and name in names for kinds, names in CASTS)


def _find_types(texts: Sequence[str], rows: pa.Table, expressions: Sequence[Expression]) -> list[str]:
    cursor = open_session().cursor()
    try:
        cursor.register("rows", rename_row_columns(rows.schema.empty_table()))
        relation = cursor.sql(f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(texts))} FROM rows")
        return list(map(str, relation.types))
    except import_duckdb_error() as error:
        raise _make_sql_error(expressions, error) from error
    finally:
        cursor.close()


def _run(texts: Sequence[str], rows: pa.Table, expressions: Sequence[Expression]) -> list[pa.ChunkedArray]:
    cursor = open_session().cursor()

    def run() -> pa.Table:
        cursor.register("rows", rename_row_columns(rows))
        selected = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        return cursor.sql(f"SELECT {selected} FROM rows").to_arrow_table()

    try:
        return list(run_query(cursor, run).columns)
    except import_duckdb_error() as error:
        raise _make_sql_error(expressions, error) from error
    finally:
        cursor.close()


def _make_sql_error(expressions: Sequence[Expression], error: Exception) -> InvalidArgument:
    texts = "; ".join(f"{one.what} = {one.value!r}" for one in expressions)
    return InvalidArgument(f"DuckDB cannot compute {texts}: {str(error).splitlines()[0]}")


def _evaluate_polars(expression: Expression, rows: pa.Table) -> pl.Series:
    frame = _flatten_rows(rows)
    assert isinstance(expression.value, pl.Expr)
    try:
        made = frame.select(expression.value.alias("value"))["value"]
    except pl.exceptions.PolarsError as error:
        problem = str(error).splitlines()[0]
        raise InvalidArgument(f"{expression.what}: Polars cannot compute {expression.value}: {problem}") from error
    return made.new_from_index(0, frame.height) if len(made) == 1 != frame.height else made


def _flatten_rows(rows: pa.Table) -> pl.DataFrame:
    """Return rows as a frame; sides of a join (``target``, ``source``) as columns ``target.x``, ``source.x``."""
    columns = []
    is_join = rows.schema.metadata == JOIN
    for name in rows.column_names:
        series = import_array(rows.column(name)).alias(name)
        if is_join:
            columns += [inner.rename(f"{name}.{inner.name}") for inner in series.struct.unnest()]
        else:
            columns.append(series)
    return pl.DataFrame(columns)


def import_duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error
