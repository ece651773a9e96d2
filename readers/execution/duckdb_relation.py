"""Scans as DuckDB relations and datasets, and the table function ``paimon_scan`` for SQL.

A `PaimonDataset` is a `pyarrow.dataset.Dataset`. DuckDB calls `scanner(columns, filter)` when the object is registered
or found by name; Polars does so through `scan_pyarrow_dataset`. Each scan is planned again with the pushed-down
columns and filter, so it prunes like any other scan. The files are scanned and masked by Polars, and the rows come
back as an Arrow stream. That path serves every format and merge engine.

DuckDB itself scans Parquet files whose rows are rows of the table as they are. It then prunes columns, row groups and
partitions of its own accord, with all of its threads, and no row passes through Arrow. Rows under masks are streamed
instead. For a sum of 2 million rows, a tenth of them dead, this takes 1.7 times the CPU of the plain scan. The
alternatives take more: bits of positions in a list 2.7 times, joins with the dead positions 3.6, and `get_bit` 5 times.
If a query of a catalog tests conditions, groups text, or reads members of rows, DuckDB scans files under masks, too:
the bits of rows are joined by file. For one row in a million by LIKE, of 8 columns, this takes a third of the CPU of a
stream; for groups of a text with a thousand values, two thirds.

Streams have text and bytes as Arrow views. Polars and DuckDB store text as views: 16 bytes with the first characters
and a pointer to the rest. Arrow's plain strings are contiguous instead: converting views to them copies every
character, a third of the time of a full read. DuckDB requires that a stream's types have the declared meaning, not the
declared layout. So the dataset declares plain strings, because DuckDB does not push filters into a dataset that
declares views.

DuckDB lacks Python table functions, but ``query(<text>)`` in a macro is bound from text that a Python function
returns. The function registers the dataset as a view in an in-memory database of its own. Each dataset gets another
database: a transaction sees databases attached while it runs, but no views created after its first access.

Relations raise Morrow's errors, and stop immediately on Ctrl-C: the class of a DuckDB relation is replaced by a
subclass that wraps its methods. DuckDB's queries and functions still accept the object. DuckDB looks for variables in
the innermost frame that is not its own. Methods that add a step are therefore called from a frame with the caller's
variables.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from duckdb._relation import GroupedRelation

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import CASTS_VIEWS, export_frame
from morrow.engine.names import cols
from morrow.engine.plan.predicate import ALWAYS, Predicate, find_columns
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.datasets import PaimonDataset
from morrow.readers.execution.plain_sql import bind_plain_sql
from morrow.readers.execution.section_reads import check_complete
from morrow.readers.execution.strategy import is_maskable, suits_duckdb
from morrow.readers.expressions.sql import (
    check_duckdb,
    is_apart,
    make_names_unique,
    query_errors,
    read_stream,
    rename_field_members,
    rename_row_columns,
    rename_value_members,
    run_query,
    to_morrow_error,
    wrap_stream,
)
from morrow.readers.files.file_frames import translate_file_errors

CALL = compile("morrow_call()", "<step of a relation>", "eval")
READERS = ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")
"""Methods whose result runs the query while it is read."""
OWN = ("duckdb.", "_duckdb", __name__)
"""Prefixes of module names that are skipped when looking for the caller."""
RESULTS = (
    *("fetchall", "fetchnumpy", "fetchdf", "df", "to_df", "to_dicts", "torch", "tf", "pl"),
    *("arrow", "to_arrow_table", "fetch_arrow_table", *READERS, "iter_rows", "__arrow_c_stream__"),
    *("show", "preview", "__repr__", "__str__", "_repr_mimebundle_", "__len__", "shape", "explain", "materialize"),
    *("to_csv", "write_csv", "to_parquet", "write_parquet", "create", "to_table", "insert", "insert_into", "update"),
)


class TypedRelation(duckdb.DuckDBPyRelation):
    """A relation whose steps and results raise Morrow's errors, and so do relations derived from it."""

    __slots__ = ()

    def _derive(self, *args: Any, **options: Any) -> duckdb.DuckDBPyRelation:
        return to_typed_relation(_in_frame_of_caller(functools.partial(super()._derive, *args, **options)))


class TypedGroups(GroupedRelation):
    """The groups of a `TypedRelation`."""


def to_typed_relation(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the same relation with the class `TypedRelation`."""
    relation.__class__ = TypedRelation
    return relation


def _step(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def step(subject: Any, *args: Any, **options: Any) -> Any:
        try:
            found = _in_frame_of_caller(functools.partial(call, subject, *args, **options))
        except query_errors() as error:
            raise to_morrow_error(error) from error
        if type(found) is GroupedRelation:
            found.__class__ = TypedGroups
        return to_typed_relation(found) if isinstance(found, duckdb.DuckDBPyRelation) else found

    return step


def _in_frame_of_caller(call: Callable[[], Any]) -> Any:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OWN):
        frame = frame.f_back
    return eval(CALL, {**frame.f_globals, **frame.f_locals, "morrow_call": call})


def _wrap_result(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def run(relation: duckdb.DuckDBPyRelation, *args: Any, **options: Any) -> Any:
        found = _run_typed(relation, lambda: call(relation, *args, **options))
        if name in READERS:
            batches = _read_batches(read_stream(relation._con, found))
            return pa.RecordBatchReader.from_batches(found.schema, batches)
        if name == "iter_rows":
            return _read_batches(found)
        return to_typed_relation(found) if isinstance(found, duckdb.DuckDBPyRelation) else found

    return run


def _read_batches(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except query_errors() as error:
        raise to_morrow_error(error) from error


def _run_typed(relation: duckdb.DuckDBPyRelation, call: Callable[[], Any]) -> Any:
    try:
        return run_query(relation._con, call)
    except query_errors() as error:
        raise to_morrow_error(error) from error


for _typed, _base in ((TypedRelation, duckdb.DuckDBPyRelation), (TypedGroups, GroupedRelation)):
    for _name, _found in vars(_base).items():
        if _name.startswith("_") and _name not in RESULTS:
            continue
        _wrapped = functools.partial(_wrap_result, name=_name) if _name in RESULTS else _step
        if isinstance(_found, property):
            setattr(_typed, _name, property(_wrapped(_found.fget)))  # type: ignore[arg-type]
        elif callable(_found):
            setattr(_typed, _name, _wrapped(_found))

HANDOFF_DATABASE = "morrow_handoff"
HANDOFF_VIEW = "scan"
MAX_HANDOFFS = 32
"""Maximum hand-off databases per connection; older ones are detached (a query binds its view immediately)."""

MAX_STATEMENT_BYTES = 1 << 20
"""Maximum size of the statements of DuckDB's own scans kept per connection: a query is bound more than once."""


class _Handed(pads.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A dataset for DuckDB to scan: rows are passed as views if possible, not through Arrow's own scanner."""

    def __init__(self, source: PaimonDataset) -> None:
        self._apart = None if is_apart(source.schema) else RenamedDataset(source)
        # The base class lacks a Python constructor; DuckDB checks only its name, and calls the methods below.
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema if self._apart is None else self._apart.schema

    def scanner(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> _Rows:
        if self._apart is not None:
            return _Rows(self._apart.read(columns, filter))
        if self._source.plan is None:
            return _Rows(self._source.read(columns, filter))
        return _Rows(view_reader(*self._source.plan(columns, filter)))


@dataclass(frozen=True)
class _Rows:
    """The part of a scanner that DuckDB calls."""

    reader: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        return wrap_stream(self.reader)


def to_scannable(source: PaimonDataset | pa.Table) -> pads.Dataset | pa.Table:
    """Return the object that DuckDB scans for `source`; columns that it cannot distinguish are `make_names_unique`."""
    if isinstance(source, PaimonDataset):
        return _Handed(source)
    return rename_row_columns(source).rename_columns(make_names_unique(source.column_names))


def make_relation(
    source: PaimonDataset | pa.Table, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyRelation:
    """Return a relation over `source` on `connection` (DuckDB's default connection when None).

    Raises `Unsupported` without columns, which DuckDB's relations need.
    """
    connection = check_connection(connection)
    if not source.schema.names:
        raise Unsupported("a DuckDB relation without columns", hint="name a column, or call count() or to_arrow()")

    text = own_scan(source, connection) if isinstance(source, PaimonDataset) else None
    return to_typed_relation(connection.from_arrow(to_scannable(source)) if text is None else connection.sql(text))


def make_variable(
    source: PaimonDataset | pa.Table,
    connection: duckdb.DuckDBPyConnection,
    find_condition: Callable[[Sequence[t.DataField]], Predicate] | None = None,
    suits_masks: Callable[[Sequence[t.DataField]], bool] | None = None,
    take_part_conditions: Callable[[Sequence[t.DataField]], str | None] | None = None,
) -> pads.Dataset | pa.Table | duckdb.DuckDBPyRelation:
    """Return the object that queries of `connection` scan under the name of a variable.

    `find_condition` returns a predicate over columns that is true for all rows that the query keeps. `suits_masks`
    returns whether DuckDB answers the query faster if it reads the files itself, and looks up the mask of each row.
    `take_part_conditions` takes conditions on parts of variants from the query, and returns them.
    """
    if not isinstance(source, PaimonDataset):
        return to_scannable(source)
    text = own_scan(source, connection)
    if text is not None:
        return connection.sql(text)
    if find_condition is not None and source.narrow is not None and is_apart(source.schema):
        condition = find_condition(source.fields)
        by_key = bool(find_columns(condition) & source.keys)  # a few rows of each sorted file
        source = source if condition == ALWAYS else source.narrow(None, condition)
        is_masked = suits_masks is not None and not by_key and suits_masks(source.fields)
        masked = _scan_masked(source, connection) if is_masked else None
        if masked is not None:
            return masked
        if take_part_conditions is not None and any(isinstance(each.type, t.VariantType) for each in source.fields):
            taken = take_part_conditions(source.fields)
            source = source if taken is None or source.narrow is None else source.narrow(None, taken)
    return to_scannable(source)


def check_connection(connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyConnection:
    """Return the connection, DuckDB's default one for None. Raises `InvalidArgument` if it is not a connection."""
    import duckdb

    check_duckdb()
    if connection is None:
        return duckdb.default_connection()
    # The module itself stands for its default connection.
    if not isinstance(connection, duckdb.DuckDBPyConnection) and connection is not duckdb:
        raise InvalidArgument(f"connection is one of DuckDB's, as duckdb.connect() makes them, not {connection!r}")
    return connection


class HandOffs:
    """Datasets as views of one DuckDB instance, each in an in-memory database of its own below the name `base`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, base: str = HANDOFF_DATABASE) -> None:
        self.base = base
        self._known: OrderedDict[Hashable, str] = OrderedDict()
        self._texts: ByteCache[str] = ByteCache(MAX_STATEMENT_BYTES)
        self._lock = threading.Lock()
        self._cursor = connection.cursor()
        self._cursor.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {base} (READ_WRITE, HIDDEN)")

    def text(self, dataset: PaimonDataset, allowed: str | None = None) -> str:
        """Return SQL that reads `dataset`; `allowed` is the connection's value of `ACCESS_SQL`, if known."""
        key = dataset.key
        may_read = is_file_access_allowed(self._cursor) if allowed is None else is_reading_allowed(allowed)
        known = None if key is None else self._texts.get(key)
        if known is not None and may_read:
            return known
        if key is None or key not in self._known:
            text = own_scan(dataset, self._cursor, may_read=may_read)
            if text is not None:
                if key is not None:
                    self._texts.put(key, text, len(text))
                return text
        return f"FROM {self.hand_over(dataset)}.{HANDOFF_VIEW}"

    def hand_over(self, dataset: PaimonDataset) -> str:
        """Return the database in which `dataset` is a view; the same rows are registered once."""
        database = f"{self.base}_{uuid.uuid4().hex}"
        key = database if dataset.key is None else dataset.key
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        # Use a separate cursor, since queries of several threads are bound at the same time.
        with self._cursor.cursor() as cursor:
            cursor.execute(f"ATTACH ':memory:' AS {database} (READ_WRITE, HIDDEN)")
            cursor.execute(f"USE {database}")
            cursor.from_arrow(to_scannable(dataset)).create_view(HANDOFF_VIEW)
            cursor.execute(f"USE {self.base}")
            with self._lock:
                self._known[key] = database
                spare = [self._known.popitem(last=False)[1] for _ in range(len(self._known) - MAX_HANDOFFS)]
            for old in spare:
                cursor.execute(f"DETACH DATABASE IF EXISTS {old}")
        return database

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new cursor of the instance, even if the connection was closed."""
        return self._cursor.cursor()

    def close(self) -> None:
        """Detach all databases."""
        with self._lock:
            names, self._known = [*self._known.values(), self.base], OrderedDict()
        for name in names:
            self._cursor.execute(f"DETACH DATABASE IF EXISTS {name}")
        self._cursor.close()


class ScanFunction:
    """The macro ``paimon_scan(path, as_of := ..., ...)`` of one DuckDB instance.

    `open_dataset` gets the macro's arguments as text (None if not given) and returns the dataset to scan.
    """

    PARAMETERS = tuple(TravelArguments.__annotations__)

    def __init__(self, open_dataset: Callable[..., PaimonDataset]) -> None:
        self._open_dataset = open_dataset
        self._handoffs: HandOffs | None = None

    def install(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the macro on `connection`; installing twice replaces it.

        All cursors of an in-memory database have it. In a database file it is temporary, to leave the file as it is;
        then each cursor needs its own.
        """
        self._handoffs = HandOffs(connection)
        helper = f"morrow_plan_{uuid.uuid4().hex}"
        connection.create_function(  # type: ignore[call-overload]  # the stub wants an invariant list of unions
            helper,
            self._function(),
            ["varchar"] * (2 + len(self.PARAMETERS)),
            "varchar",
            null_handling="special",
            side_effects=True,
        )
        defaults = ", ".join(f"{name} := NULL" for name in self.PARAMETERS)
        arguments = ", ".join(f"{name}::VARCHAR" for name in self.PARAMETERS)
        temporary = "TEMP" if _is_file(connection) else ""
        connection.execute(
            f"CREATE OR REPLACE {temporary} MACRO paimon_scan(path, {defaults}) AS TABLE "
            f"FROM query({helper}({ACCESS_SQL}, path, {arguments}))"
        )

    def plan(self, allowed: str, path: str, *values: str | None) -> str:
        """Return SQL text that reads the table; DuckDB calls it while binding a query, with values of `PARAMETERS`."""
        given = {name: value for name, value in zip(self.PARAMETERS, values, strict=True) if value is not None}
        dataset = self._open_dataset(path, given)
        assert self._handoffs is not None  # installed
        return self._handoffs.text(dataset, allowed)

    def _function(self) -> Callable[..., str]:
        """Return `plan` with a signature that names each argument, as DuckDB requires of functions."""

        def plan(*values: str | None) -> str:
            return self.plan(*values)  # type: ignore[arg-type]  # DuckDB gives the first two as text

        positional = inspect.Parameter.POSITIONAL_ONLY
        named = [inspect.Parameter(name, positional) for name in ("allowed", "path", *self.PARAMETERS)]
        plan.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # functions take any attribute
        return plan


def _is_file(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the connection's current database is a file."""
    found = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
    return found.fetchone() != (None,)


class RenamedDataset:
    """A dataset with its columns renamed by `make_names_unique`.

    DuckDB's filters use the new names, and columns of Arrow expressions cannot be renamed: all columns are read, and
    the rows are filtered here. Without a filter, columns are still selected in the files.
    """

    def __init__(self, source: PaimonDataset) -> None:
        self._source = source
        self._names = make_names_unique(source.schema.names)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [rename_field_members(field).with_name(name) for field, name in zip(self._source.schema, self._names)]
        )

    def read(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
        """Read the rows with the new column names."""
        if filter is None:
            wanted = self._names if columns is None else list(columns)
            old = dict(zip(self._names, self._source.schema.names, strict=True))
            return _rename_columns(self._source.read([old[name] for name in wanted], None), wanted)
        whole = _rename_columns(self._source.read(None, None), self._names)
        chosen = None if columns is None else list(columns)
        return pads.Scanner.from_batches(whole, columns=chosen, filter=filter).to_reader()


def _rename_columns(reader: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema(
        [rename_field_members(field).with_name(name) for field, name in zip(reader.schema, names, strict=True)]
    )
    batches = (
        pa.RecordBatch.from_arrays([*map(rename_value_members, batch.columns)], schema=schema) for batch in reader
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


MAX_PARTITIONS = 16
"""Maximum partitions of a scan by DuckDB itself, since each partition is a query of its own."""
ACCESS_SQL = (
    "concat(lower(current_setting('enable_external_access')::VARCHAR), current_setting('disabled_filesystems'))"
)
"""An expression for what a connection may open; DuckDB evaluates it while it binds a query."""
RUN_QUERY = compile("morrow_run(morrow_query)", "<query>", "eval")
"""DuckDB looks up relations in the calling frame, so it finds only the variables that this code is evaluated with."""


def own_scan(
    source: PaimonDataset, connection: duckdb.DuckDBPyConnection, *, may_read: bool | None = None
) -> str | None:
    """Return the statement by which DuckDB reads a dataset itself; None if Morrow must pass the rows.

    `may_read`: the result of `is_file_access_allowed` for the connection, if known.

    Raises:
        CorruptFile, FileMissing, UnsafePath: a file is gone, has another size than metadata says, or lies elsewhere.
    """
    found = _bind_scan(source, connection, may_read=may_read)
    return None if found is None else found[0]


def _scan_masked(source: PaimonDataset, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation | None:
    """Return a relation for which DuckDB reads the files, and looks up masks for rows that pass its conditions."""
    found = _bind_scan(source, connection, masks=f"morrow_masks_{uuid.uuid4().hex}")
    return None if found is None else _run_query(connection, *found)


def _bind_scan(
    source: PaimonDataset,
    connection: duckdb.DuckDBPyConnection,
    *,
    may_read: bool | None = None,
    masks: str | None = None,
) -> tuple[str, Mapping[str, pa.Table]] | None:
    if source.plan is None or not is_apart(source.schema):
        return None
    plan, store = source.plan(None, None)
    if not _is_plain(plan, store, masked=masks is not None):
        return None
    if not (is_file_access_allowed(connection) if may_read is None else may_read):
        return None
    with connection.cursor() as cursor:
        return bind_plain_sql(plan, store, partial(_run_query, cursor), masks)


def _run_query(
    connection: duckdb.DuckDBPyConnection, text: str, relations: Mapping[str, pa.Table]
) -> duckdb.DuckDBPyRelation:
    found: duckdb.DuckDBPyRelation = eval(RUN_QUERY, {"morrow_run": connection.sql, "morrow_query": text, **relations})
    return found


def _is_plain(plan: ScanPlan, store: FileStore, *, masked: bool) -> bool:
    """Return whether DuckDB can read the files itself: few files, whole or, if `masked`, filtered and under masks."""
    if not plan.columns or plan.limit is not None:
        return False
    if not masked and (plan.filter.predicate != ALWAYS or plan.filter.residuals):
        return False
    sections = [(part, section) for part in plan.parts for section in part.sections]
    if not sections or not suits_duckdb([section for _, section in sections], store):
        return False
    partitions = {section.partition_row for _, section in sections}
    return len(partitions) <= MAX_PARTITIONS and all(
        is_maskable(part, section) and (not part.folds(section) if masked else _is_unmasked(section))
        for part, section in sections
    )


def _is_unmasked(section: Section) -> bool:
    return section.kind is SectionKind.RAW and all(file.deletion is None for file in section.files)


def is_file_access_allowed(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the connection may read files of the local disk."""
    with connection.cursor() as cursor:
        return is_reading_allowed(cursor.execute(f"SELECT {ACCESS_SQL}").fetchall()[0][0])


def is_reading_allowed(allowed: str) -> bool:
    """Return whether a connection with this value of `ACCESS_SQL` may read files of the local disk."""
    return allowed == "true"


VIEWS: dict[type[t.DataType], pa.DataType] = (
    {
        t.CharType: pa.string_view(),
        t.VarCharType: pa.string_view(),
        t.BinaryType: pa.binary_view(),
        t.VarBinaryType: pa.binary_view(),
    }
    if CASTS_VIEWS
    else {}
)
"""Types of columns that are passed as views; within nested types they have the plain layout."""

NUMBERS = (
    *(t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType),
    *(t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType),
)
"""Types of values of one width."""

MAX_BATCH_VALUES = 1 << 20
LONG_VALUE_COST = 8
"""Cost of one text, bytes or nested value, in plain values, against the limit of values per batch.

Each batch has a fixed cost, which matters if columns are few. `execute.DEFAULT_BATCH_ROWS` rows are always allowed.
"""


def view_reader(plan: ScanPlan, store: FileStore) -> pa.RecordBatchReader:
    """Return the plan's rows as an Arrow stream with text and bytes as views, in bounded memory.

    Raises (while it is read):
        CorruptFile, FileMissing, Unsupported, StorageError: as reading does.
    """
    if not plan.columns or plan.limit is not None:
        return execute.open_batch_reader(plan, store)
    fields, schema = plan.fields, view_schema(plan.fields)
    batches = (batch for frame in _read_frames(plan, store) for batch in view_table(frame, fields, schema).to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def view_schema(fields: Sequence[t.DataField]) -> pa.Schema:
    """Return `to_arrow_schema` with views for columns of text and bytes, and without comments."""
    types = [VIEWS.get(type(field.type)) or field.type.arrow() for field in fields]
    return pa.schema([pa.field(field.name, kind, field.type.nullable) for field, kind in zip(fields, types)])


def view_table(frame: pl.DataFrame, fields: Sequence[t.DataField], schema: pa.Schema) -> pa.Table:
    """Convert a frame in Morrow's representation to an Arrow table of `schema`, the `view_schema` of `fields`.

    Columns that Polars already holds in that layout (most columns) are neither copied nor inspected.
    """
    # For a slice of nested text, Polars may return views without their buffer, which Arrow refuses.
    dtypes = frame.schema
    flat = [name for name in schema.names if not dtypes[name].is_nested()]
    own = export_frame(frame.select(cols(flat)))
    kept = {name for name in flat if own.schema.field(name).type == schema.field(name).type}
    others = [field for field in fields if field.name not in kept]
    converted = to_arrow_table(frame, others) if others else own
    columns = [own[name] if name in kept else converted[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def _read_frames(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """Yield the rows of all parts, a group of sections at a time."""
    weight = sum(1 if type(field.type) in NUMBERS else LONG_VALUE_COST for field in plan.fields)
    rows = max(execute.DEFAULT_BATCH_ROWS, MAX_BATCH_VALUES // weight)
    for part in plan.parts:
        read = tuple(part.schema.by_name[name] for name in part.read_columns)
        for sections in execute.group_sections(part.sections):
            group = replace(part, sections=tuple(sections), fallback=None)
            with translate_file_errors(group, sections, read, store):
                count = 0
                for frame in execute.read_frames(group, store, rows):
                    count += frame.height
                    yield frame
                check_complete(group, store, count)
