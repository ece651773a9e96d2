"""DuckDB SQL: predicates, literals, types and column names as text, residuals as masks, and queries with their errors.

This is the only module that quotes names, literals and paths. Everything that comes from a table or a user passes
through `quote_identifier`, `quote_literal` or `quote_path`; literals carry their type, so DuckDB casts no column.

DuckDB does not distinguish names that differ only in case (of the letters a to z). By default it numbers such columns
from the second on, and a query that spells the second one's name gets the first one's values. So Morrow numbers all
of them: a query that uses the table's own spelling then finds no column. Members of rows, at any depth, are renamed in
the same way, since DuckDB would silently read the first of them.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import (
    ColumnNotFound,
    InvalidArgument,
    MorrowError,
    StorageError,
    Unsupported,
    find_remembered,
    remember,
)
from morrow.engine.format import types as t
from morrow.engine.names import find_free_name
from morrow.engine.plan.predicate import (
    VARIANT_IS_NULL,
    VARIANT_PARSE,
    VARIANT_PART,
    VARIANT_PREFIX,
    VARIANT_TEXT,
    VARIANT_TRY_PARSE,
    And,
    Leaf,
    Op,
    Predicate,
    Residual,
    Value,
    shorten_text,
)
from morrow.engine.plugins import check_libraries, parse_version
from morrow.engine.polars_threads import check_process
from morrow.engine.redaction import redact_text

if TYPE_CHECKING:
    import duckdb

SESSION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
}
"""Settings for filters: a filter can only read the rows passed to it, not files, the network or Python variables."""


def quote_identifier(name: str) -> str:
    """Return a column or table name as SQL, always in double quotes.

    Raises `InvalidArgument`: DuckDB cannot spell the name (it is empty or holds a NUL character).
    """
    if not name or "\0" in name:
        raise InvalidArgument(
            f"the name {name!r} cannot be written in SQL; read the table with Polars or Arrow instead"
        )
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a string literal; NUL characters, which end SQL text, are spelled ``chr(0)``."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def quote_path(path: str) -> str:
    """Return a file path for `read_parquet` and similar functions: a string literal with escaped glob characters."""
    return quote_text("".join(f"[{char}]" if char in "*?[" else char for char in path))


def quote_literal(value: Value, kind: t.DataType) -> str:
    """Return a literal with the type of its column: ``DATE '2024-01-01'``, ``CAST('1.50' AS DECIMAL(10, 2))``.

    Raises `Unsupported`: literals of this type are not compared (nested types, VARIANT, BLOB).
    """
    write = _LITERALS.get(type(kind))
    if write is None:
        raise Unsupported(f"a literal of type {kind.text()} in a filter")
    return write(value, kind)


def compile(predicate: Predicate, fields: Sequence[t.DataField]) -> str:
    """Return the body of a WHERE clause, true exactly for the rows that `predicate` keeps.

    Raises `ColumnNotFound`: the predicate names a column that `fields` lacks.
    """
    return _compile_predicate(predicate, {field.name: field.type for field in fields})


def _compile_predicate(predicate: Predicate, kinds: dict[str, t.DataType]) -> str:
    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        kind = kinds[predicate.column]
        literals = [quote_literal(value, kind) for value in predicate.literals]
        return _LEAVES[predicate.op](quote_identifier(predicate.column), literals)
    parts = [_compile_predicate(child, kinds) for child in predicate.children]
    joint = " AND " if isinstance(predicate, And) else " OR "
    while len(parts) > 1:  # in pairs: DuckDB limits how deep an expression nests
        pairs = [f"({joint.join(parts[i : i + 2])})" for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0] if parts else str(isinstance(predicate, And)).upper()


def _make_comparison(op: Op) -> Callable[[str, list[str]], str]:
    return lambda column, literals: f"{column} {op.value} {literals[0]}"


_LEAVES: dict[Op, Callable[[str, list[str]], str]] = {
    **{op: _make_comparison(op) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)},
    Op.IN: lambda column, literals: f"{column} IN ({', '.join(literals)})" if literals else "FALSE",
    Op.NOT_IN: lambda column, literals: (
        f"{column} NOT IN ({', '.join(literals)})" if literals else f"{column} IS NOT NULL"
    ),
    Op.IS_NULL: lambda column, _literals: f"{column} IS NULL",
    Op.IS_NOT_NULL: lambda column, _literals: f"{column} IS NOT NULL",
    Op.STARTS_WITH: lambda column, literals: f"starts_with({column}, {literals[0]})",
    Op.NOT_STARTS_WITH: lambda column, literals: f"NOT starts_with({column}, {literals[0]})",
}


def _cast_to(name: str) -> Callable[[Any, t.DataType], str]:
    return lambda value, _kind: f"CAST('{value!r}' AS {name})"


def _format_decimal(value: Decimal, kind: t.DataType) -> str:
    return f"CAST('{value:f}' AS {kind.text()})"


def _format_binary(value: bytes, _kind: t.DataType) -> str:
    return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"


TIMESTAMP_KEYWORDS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def _format_timestamp(value: dt.datetime, kind: t.DataType) -> str:
    assert isinstance(kind, t.TimestampType)
    return f"{TIMESTAMP_KEYWORDS[t.to_arrow_time_unit(kind.precision)]} '{value.isoformat(sep=' ')}'"


def _format_instant(value: dt.datetime, kind: t.DataType) -> str:
    """Return an untyped string for nanosecond columns: DuckDB has two such types, which do not compare."""
    assert isinstance(kind, t.LocalZonedTimestampType)
    text = f"'{value.astimezone(dt.UTC).isoformat(sep=' ')}'"
    return text if t.to_arrow_time_unit(kind.precision) == "ns" else f"TIMESTAMPTZ {text}"


_LITERALS: dict[type[t.DataType], Callable[[Any, t.DataType], str]] = {
    t.BooleanType: lambda value, _kind: str(bool(value)).upper(),
    t.TinyIntType: _cast_to("TINYINT"),
    t.SmallIntType: _cast_to("SMALLINT"),
    t.IntType: _cast_to("INTEGER"),
    t.BigIntType: _cast_to("BIGINT"),
    t.FloatType: _cast_to("FLOAT"),
    t.DoubleType: _cast_to("DOUBLE"),
    t.DecimalType: _format_decimal,
    t.CharType: lambda value, _kind: quote_text(value),
    t.VarCharType: lambda value, _kind: quote_text(value),
    t.BinaryType: _format_binary,
    t.VarBinaryType: _format_binary,
    t.DateType: lambda value, _kind: f"DATE '{value.isoformat()}'",
    t.TimeType: lambda value, _kind: f"TIME '{value.isoformat()}'",
    t.TimestampType: _format_timestamp,
    t.LocalZonedTimestampType: _format_instant,
}


def check(residual: Residual, fields: Sequence[t.DataField]) -> None:
    """Let DuckDB plan the condition over the columns that it reads, without rows.

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
    _find_true_rows(residual, t.to_arrow_schema(tuple(fields)).empty_table(), 0)


def evaluate_residual(residual: Residual, rows: pa.Table, height: int) -> npt.NDArray[np.bool_]:
    """Return one bool for each of the `height` rows: whether the SQL condition is true (not null).

    `rows` has the columns that the condition reads, which may be none.

    Raises `InvalidArgument`: DuckDB cannot compute the condition for one of the rows.
    """
    mask = np.zeros(height, dtype=np.bool_)
    mask[_find_true_rows(residual, rows, height)] = True
    return mask


def _find_true_rows(residual: Residual, rows: pa.Table, height: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows that a WHERE keeps: it tests the parts of an AND one after the other."""
    import duckdb

    view, number = find_free_name("rows", rows.column_names), find_free_name("number", rows.column_names)
    numbered = pa.table({number: pa.array(np.arange(height))})
    for name, column in zip(rows.column_names, rename_row_columns(rows).columns, strict=True):
        numbered = numbered.append_column(name, column)
    session = open_session()
    if VARIANT_PREFIX in str(residual.expression):
        register_variant_functions(session)
    cursor = session.cursor()

    def run() -> dict[str, npt.NDArray[np.int64]]:
        cursor.register(view, numbered)
        query = f"SELECT {number} FROM {view} WHERE (\n{residual.expression}\n)"
        return cursor.execute(query).fetchnumpy()

    try:
        found = run_query(cursor, run)
        return np.asarray(found[number], dtype=np.int64)
    except duckdb.Error as error:
        problem = shorten_text(str(error).partition("\n")[0])
        raise InvalidArgument(f"filter: DuckDB cannot evaluate {shorten_text(residual.text)!r}: {problem}") from error
    finally:
        cursor.close()


@cache
def open_session(*, reads_files: bool = False) -> duckdb.DuckDBPyConnection:
    """Open DuckDB for conditions, with locked settings; the connection is shared by the process."""
    import duckdb

    check_libraries()
    allowed = {"enable_external_access": "true"} if reads_files else {}
    connection = duckdb.connect(":memory:", config={**SESSION, **allowed})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection


_ATOMIC: dict[type[t.DataType], str] = {
    t.BooleanType: "BOOLEAN",
    t.TinyIntType: "TINYINT",
    t.SmallIntType: "SMALLINT",
    t.IntType: "INTEGER",
    t.BigIntType: "BIGINT",
    t.FloatType: "FLOAT",
    t.DoubleType: "DOUBLE",
    t.DateType: "DATE",
    t.TimeType: "TIME",
    t.CharType: "VARCHAR",
    t.VarCharType: "VARCHAR",
    t.BinaryType: "BLOB",
    t.VarBinaryType: "BLOB",
    t.BlobType: "BLOB",
    t.VariantType: "STRUCT(value BLOB, metadata BLOB)",
}


def _name_instant(kind: t.LocalZonedTimestampType) -> str:
    return "TIMESTAMPTZ_NS" if t.to_arrow_time_unit(kind.precision) == "ns" else "TIMESTAMPTZ"


def _name_row(kind: t.RowType) -> str:
    return f"STRUCT({', '.join(f'{quote_identifier(field.name)} {name_type(field.type)}' for field in kind.fields)})"


_PARAMETRIC: dict[type[t.DataType], Callable[[Any], str]] = {
    t.DecimalType: lambda kind: kind.text(),
    t.TimestampType: lambda kind: TIMESTAMP_KEYWORDS[t.to_arrow_time_unit(kind.precision)],
    t.LocalZonedTimestampType: _name_instant,
    t.ArrayType: lambda kind: f"{name_type(kind.element)}[]",
    t.VectorType: lambda kind: f"{name_type(kind.element)}[{kind.length}]",
    t.MapType: lambda kind: f"MAP({name_type(kind.key)}, {name_type(kind.value)})",
    t.MultisetType: lambda kind: f"MAP({name_type(kind.element)}, INTEGER)",
    t.RowType: _name_row,
}

REALS = (t.FloatType, t.DoubleType)


def list_inner_types(kind: t.DataType) -> Sequence[t.DataType]:
    """Return the types of the members, elements, or keys and values."""
    if isinstance(kind, t.RowType):
        return [field.type for field in kind.fields]
    if isinstance(kind, (t.ArrayType, t.VectorType, t.MultisetType)):
        return [kind.element]
    return [kind.key, kind.value] if isinstance(kind, t.MapType) else []


def has_reals(kind: t.DataType) -> bool:
    """Return whether the type is, or contains at any depth, FLOAT or DOUBLE."""
    return isinstance(kind, REALS) or any(map(has_reals, list_inner_types(kind)))


def name_type(kind: t.DataType) -> str:
    """Return DuckDB's name of the type: ``DECIMAL(10, 2)``, ``MAP(INTEGER, VARCHAR[])``."""
    name = _ATOMIC.get(type(kind))
    return name if name is not None else _PARAMETRIC[type(kind)](kind)


def make_names_unique(names: Sequence[str]) -> list[str]:
    """Add an underscore and a number to names that DuckDB cannot distinguish: ``a_1``, ``A_2``."""
    count = Counter(map(_fold_case, names))
    taken = set(count)
    numbers: Counter[bytes] = Counter()
    found = []
    for name in names:
        wanted, key = name, _fold_case(name)
        while count[key] > 1 and _fold_case(wanted) in taken:
            numbers[key] += 1
            wanted = f"{name}_{numbers[key]}"
        taken.add(_fold_case(wanted))
        found.append(wanted)
    return found


def _fold_case(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass").lower()  # by bytes, ASCII letters only, as in DuckDB


def is_apart(schema: pa.Schema) -> bool:
    """Return whether DuckDB distinguishes all columns, and all members of rows in them."""
    return make_names_unique(schema.names) == schema.names and all(
        rename_type_members(kind) == kind for kind in schema.types
    )


def rename_type_members(kind: pa.DataType) -> pa.DataType:
    """Return the type with row members renamed by `make_names_unique`; the layout of values is unchanged."""
    if pa.types.is_struct(kind):
        names = make_names_unique([member.name for member in kind])
        return pa.struct(
            [rename_field_members(member).with_name(name) for member, name in zip(kind, names, strict=True)]
        )
    if pa.types.is_map(kind):
        return pa.map_(rename_field_members(kind.key_field), rename_field_members(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(rename_field_members(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(rename_field_members(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(rename_field_members(kind.value_field))
    return kind


def rename_field_members(field: pa.Field) -> pa.Field:
    """Return the field with `rename_type_members`."""
    return field.with_type(rename_type_members(field.type))


def rename_value_members(values: pa.Array) -> pa.Array:
    """Return the same values, uncopied, with the type `rename_type_members`."""
    kind = rename_type_members(values.type)
    return values if kind == values.type else values.view(kind)


def rename_row_columns(rows: pa.Table) -> pa.Table:
    """Return the rows with members renamed by `make_names_unique`; columns keep their names."""
    for i, field in enumerate(rows.schema):
        kind = rename_type_members(field.type)
        if kind != field.type:
            chunks = [rename_value_members(chunk) for chunk in rows.column(i).chunks]
            rows = rows.set_column(i, field.with_type(kind), pa.chunked_array(chunks, kind))
    return rows


T = TypeVar("T")

MIN_QUERY_VERSION = 2
"""The first major version for queries over tables; filters and expressions are evaluated by older versions as well."""
INTERRUPT_SECONDS = 0.02
"""Time to wait for an interrupted query to end before interrupting it again, since it may not have begun."""
SIGNAL_SECONDS = 0.1
"""Interval at which a thread that waits for a query checks for Ctrl-C."""
WITHIN_FUNCTION = "Python exception occurred while executing the UDF: "
"""DuckDB's text before the class and message of an error that a Python function raised."""
WITHIN_ROWS = "failed: Unknown error: "
"""DuckDB's text before the message of an error raised by rows passed to it."""
OPENING = "Cannot open file "
"""DuckDB's text for a file that it can neither read nor create."""
TRACE = ". Detail: Python exception"


def check_duckdb() -> None:
    """Raise `Unsupported` for a DuckDB that lacks hidden databases, or relations that can be subclassed."""
    import duckdb

    if parse_version(duckdb.__version__)[0] < MIN_QUERY_VERSION:
        hint = f"run: pip install 'duckdb>={MIN_QUERY_VERSION}', or read the table as Arrow or Polars"
        raise Unsupported(f"a query of tables by DuckDB {duckdb.__version__}", hint=hint)


def run_query(connection: duckdb.DuckDBPyConnection, query: Callable[[], T]) -> T:
    """Return the result of a query that `connection` runs; Ctrl-C ends the query and raises KeyboardInterrupt.

    DuckDB itself answers Ctrl-C late and with a RuntimeError, and only in the main thread. So in the main thread the
    query runs in a thread of its own, and the main thread waits.
    """
    check_process()
    if threading.current_thread() is not threading.main_thread():
        return query()
    cancelled, busy = threading.Event(), threading.Lock()

    def run() -> T:
        with busy:
            if cancelled.is_set():
                raise CancelledError
            return query()

    thread = ThreadPoolExecutor(1, "morrow-duckdb")
    try:
        result = thread.submit(run)
        while not result.done():  # a signal delivered to another thread does not end a wait without timeout
            wait((result,), SIGNAL_SECONDS)
        return result.result()
    except KeyboardInterrupt:  # it may come at any time: before the query begins, or when it has ended
        cancelled.set()
        while not busy.acquire(timeout=INTERRUPT_SECONDS):
            connection.interrupt()
        busy.release()
        raise
    finally:
        thread.shutdown(wait=False)


def open_stream(relation: duckdb.DuckDBPyRelation, rows: int) -> pa.RecordBatchReader:
    """Return the rows of a relation as batches; DuckDB before 1.5 has only the older name of the method."""
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return stream(rows)


def read_stream(connection: duckdb.DuckDBPyConnection, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream that `connection` computes; Arrow raises its own errors for DuckDB's."""
    while (batch := run_query(connection, lambda: next(stream, None))) is not None:
        yield batch


def wrap_stream(stream: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream that remembers its errors, for a library that would copy their traces and causes as text."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from stream
        except MorrowError as error:
            raise remember(error) from None

    return pa.RecordBatchReader.from_batches(stream.schema, batches())


def query_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of a query: DuckDB's, and Arrow's for streamed rows."""
    import duckdb

    return duckdb.Error, pa.ArrowException, OSError


def to_morrow_error(error: Exception) -> MorrowError:
    """Return Morrow's error, in one line, for an error of a query, of the rows passed to it, or of an unreadable file.

    DuckDB's message quotes the query; for damaged Parquet metadata it names neither the file nor the kind of error.
    """
    import duckdb

    if isinstance(error, MorrowError):
        return error
    whole = str(error)
    original = find_remembered(whole)
    if original is not None:
        return original
    text, _, _ = whole.partition("\nLINE ")
    _, _, message = text.partition(TRACE)[0].rpartition(WITHIN_FUNCTION)
    before, of_rows, within = message.partition(WITHIN_ROWS)
    told = " ".join(redact_text(within if of_rows else before).split())
    if of_rows:
        return StorageError(f"the query: {told}")
    if OPENING in told:
        return StorageError(f"the query: {told}")
    if isinstance(error, duckdb.IOException) or type(error) is duckdb.Error or before.startswith("IO Error"):
        return StorageError(f"the query: a file cannot be read: {told}; Scan.verify finds the damaged files of a table")
    return InvalidArgument(f"the query: {told}")


# --- functions over VARIANT that DuckDB calls ---


def _join(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _parse(texts: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_json import encode_json_column

    return encode_json_column(_join(texts))


def _try_parse(texts: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_json import encode_json_column

    return encode_json_column(_join(texts), errors=False)


def _find_path(paths: pa.Array) -> tuple[str | int, ...]:
    from morrow.engine.format.variant_arrays import parse_path

    distinct = _join(paths).unique()
    if len(distinct) != 1 or not distinct[0].is_valid:
        raise InvalidArgument("variant_get: the path is one text for all rows")
    return parse_path(distinct[0].as_py())


def _part(variants: pa.Array, paths: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import extract

    return extract(_join(variants), _find_path(paths))


def _text(variants: pa.Array, paths: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import extract_text

    return extract_text(_join(variants), _find_path(paths)).cast(pa.string())


def _is_null(variants: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import find_nulls

    return pa.array(find_nulls(_join(variants)))


_turn = threading.Lock()
_VARIANT = _ATOMIC[t.VariantType]
FUNCTIONS: tuple[tuple[str, Callable[..., pa.Array], tuple[str, ...], str], ...] = (
    (VARIANT_PARSE, _parse, ("VARCHAR",), _VARIANT),
    (VARIANT_TRY_PARSE, _try_parse, ("VARCHAR",), _VARIANT),
    (VARIANT_PART, _part, (_VARIANT, "VARCHAR"), _VARIANT),
    (VARIANT_TEXT, _text, (_VARIANT, "VARCHAR"), "VARCHAR"),
    (VARIANT_IS_NULL, _is_null, (_VARIANT,), "BOOLEAN"),
)


def register_variant_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a connection the functions that `put_variant_functions` writes."""
    query = "SELECT 1 FROM duckdb_functions() WHERE function_name = ? LIMIT 1"
    with _turn:
        with connection.cursor() as cursor:
            if cursor.execute(query, [VARIANT_PARSE]).fetchone() is not None:
                return
        for name, function, parameters, result in FUNCTIONS:
            connection.create_function(  # type: ignore[call-overload]  # the stub wants an invariant list of unions
                name, function, list(parameters), result, type="arrow", null_handling="special"
            )
