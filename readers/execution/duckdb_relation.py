"""Scans as DuckDB relations, and the table function ``paimon_scan`` for SQL.

DuckDB reads a scan through a `PaimonDataset`: its projections and filters arrive in `scanner(columns, filter)`, the
files are scanned and masked by Polars, and the rows come back as an Arrow stream of views (`duckdb_stream`). That path
serves every format and merge engine; files of Parquet that need no mask DuckDB scans itself (`duckdb_own`).

DuckDB has no Python table functions, but ``query(<text>)`` in a macro is bound from text that a Python function
returns; the function registers the dataset as a view in an in-memory database of its own. Other rows get another
database: a transaction sees databases attached while it runs, but no views created after its first access.
"""

from __future__ import annotations

import inspect
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.cache import ByteCache
from morrow.engine.plan.time_travel import TravelArguments
from morrow.readers.execution.dataset import PaimonDataset
from morrow.readers.execution.duckdb_own import ALLOWED, own_scan, reads_files, told_to_read
from morrow.readers.execution.duckdb_stream import view_reader
from morrow.readers.expressions.duckdb_names import field_apart, is_apart, rows_apart, told_apart, values_apart
from morrow.readers.expressions.library import check_duckdb, for_others

if TYPE_CHECKING:
    import duckdb

HANDOFF_DATABASE = "morrow_handoff"
HANDOFF_VIEW = "scan"
MOST_HANDOFFS = 32
"""Hand-off databases kept for one connection; older ones are detached (a query binds its view at once)."""


TEXT_BYTES = 1 << 20
"""Statements of scans that DuckDB makes itself, kept for one connection: a query is bound more than once."""


class _Handed(pads.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A dataset for DuckDB to scan: rows are passed as views where possible, not through Arrow's own scanner."""

    def __init__(self, source: PaimonDataset) -> None:
        self._apart = None if is_apart(source.schema) else ToldApart(source)
        # The base class has no Python constructor; DuckDB looks at its name only, and calls the methods below.
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
        return for_others(self.reader)


def handed(source: PaimonDataset | pa.Table) -> pads.Dataset | pa.Table:
    """Returns the object that DuckDB scans for `source`; columns that it cannot distinguish are `told_apart`."""
    if isinstance(source, PaimonDataset):
        return _Handed(source)
    return rows_apart(source).rename_columns(told_apart(source.column_names))


def relation(source: PaimonDataset | pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Returns a relation over `source` on `connection` (DuckDB's default connection when None)."""
    from morrow.readers.execution.relation_errors import typed

    connection = checked_connection(connection)
    text = own_scan(source, connection) if isinstance(source, PaimonDataset) else None
    return typed(connection.from_arrow(handed(source)) if text is None else connection.sql(text))


def variable(
    source: PaimonDataset | pa.Table, connection: duckdb.DuckDBPyConnection
) -> pads.Dataset | pa.Table | duckdb.DuckDBPyRelation:
    """Returns the object that queries of `connection` scan under the name of a variable."""
    text = own_scan(source, connection) if isinstance(source, PaimonDataset) else None
    return handed(source) if text is None else connection.sql(text)


def checked_connection(connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyConnection:
    """Returns the connection, DuckDB's default one for None. Raises `InvalidArgument` if it is not a connection."""
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
        self._texts: ByteCache[str] = ByteCache(TEXT_BYTES)
        self._lock = threading.Lock()
        self._cursor = connection.cursor()
        self._cursor.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {base} (READ_WRITE, HIDDEN)")

    def text(self, dataset: PaimonDataset, allowed: str | None = None) -> str:
        """Returns SQL that reads `dataset`, by a connection of which `ALLOWED` is that where it is known."""
        key = dataset.key
        may_read = reads_files(self._cursor) if allowed is None else told_to_read(allowed)
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
        """Returns the database in which `dataset` is a view; the same rows are registered once."""
        database = f"{self.base}_{uuid.uuid4().hex}"
        key = database if dataset.key is None else dataset.key
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        # A cursor of its own: queries of several threads are bound at once.
        with self._cursor.cursor() as cursor:
            cursor.execute(f"ATTACH ':memory:' AS {database} (READ_WRITE, HIDDEN)")
            cursor.execute(f"USE {database}")
            cursor.from_arrow(handed(dataset)).create_view(HANDOFF_VIEW)
            cursor.execute(f"USE {self.base}")
            with self._lock:
                self._known[key] = database
                spare = [self._known.popitem(last=False)[1] for _ in range(len(self._known) - MOST_HANDOFFS)]
            for old in spare:
                cursor.execute(f"DETACH DATABASE IF EXISTS {old}")
        return database

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns a new cursor of the instance, also where the connection was closed."""
        return self._cursor.cursor()

    def close(self) -> None:
        """Detaches all databases."""
        with self._lock:
            names, self._known = [*self._known.values(), self.base], OrderedDict()
        for name in names:
            self._cursor.execute(f"DETACH DATABASE IF EXISTS {name}")
        self._cursor.close()


class ScanFunction:
    """The macro ``paimon_scan(path, as_of := ..., ...)`` of one DuckDB instance.

    `open_dataset` gets the macro's arguments as text (None where not given) and returns the dataset to scan.
    """

    PARAMETERS = tuple(TravelArguments.__annotations__)

    def __init__(self, open_dataset: Callable[..., PaimonDataset]) -> None:
        self._open_dataset = open_dataset
        self._handoffs: HandOffs | None = None

    def install(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Creates the macro on `connection`; installing twice replaces it.

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
            f"FROM query({helper}({ALLOWED}, path, {arguments}))"
        )

    def plan(self, allowed: str, path: str, *values: str | None) -> str:
        """Returns SQL text that reads the table; DuckDB calls it while binding a query, with values of `PARAMETERS`."""
        given = {name: value for name, value in zip(self.PARAMETERS, values, strict=True) if value is not None}
        dataset = self._open_dataset(path, given)
        assert self._handoffs is not None  # installed
        return self._handoffs.text(dataset, allowed)

    def _function(self) -> Callable[..., str]:
        """Returns `plan` with a signature that names each argument, as DuckDB requires of functions."""

        def plan(*values: str | None) -> str:
            return self.plan(*values)  # type: ignore[arg-type]  # DuckDB gives the first two as text

        positional = inspect.Parameter.POSITIONAL_ONLY
        named = [inspect.Parameter(name, positional) for name in ("allowed", "path", *self.PARAMETERS)]
        plan.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]  # functions take any attribute
        return plan


def _is_file(connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether the connection's current database is a file."""
    found = connection.execute("SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
    return found.fetchone() != (None,)


class ToldApart:
    """A dataset under names that are `told_apart`.

    DuckDB's filters are in these names, and expressions of Arrow cannot be renamed: rows are read whole and filtered
    here. Without a filter, columns are still selected in the files.
    """

    def __init__(self, source: PaimonDataset) -> None:
        self._source = source
        self._names = told_apart(source.schema.names)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([field_apart(field).with_name(name) for field, name in zip(self._source.schema, self._names)])

    def read(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
        """Reads the rows, columns under their new names."""
        if filter is None:
            wanted = self._names if columns is None else list(columns)
            old = dict(zip(self._names, self._source.schema.names, strict=True))
            return _renamed(self._source.read([old[name] for name in wanted], None), wanted)
        whole = _renamed(self._source.read(None, None), self._names)
        chosen = None if columns is None else list(columns)
        return pads.Scanner.from_batches(whole, columns=chosen, filter=filter).to_reader()


def _renamed(reader: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema([field_apart(field).with_name(name) for field, name in zip(reader.schema, names, strict=True)])
    batches = (pa.RecordBatch.from_arrays([*map(values_apart, batch.columns)], schema=schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)
