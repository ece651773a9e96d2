"""The sources of an import: files, tables of Delta Lake and Iceberg, results of databases, and tables in memory.

Delta Lake, Iceberg and databases are read by libraries that extras install. Each file of a Delta or Iceberg table is a
part, so that an interrupted import goes on with the next file.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl
import pyarrow as pa

from morrow.catalogs.import_files import (
    ICEBERG_METADATA,
    Part,
    RowSource,
    find_files,
    holds_delta_log,
    open_files,
)
from morrow.engine.arguments import check_text
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.resolve import to_location
from morrow.engine.library_versions import export_frame, to_arrow_schema
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import redact_text
from morrow.engine.schema.columns import check_polars_schema
from morrow.readers.expressions.sql import query_errors
from morrow.tables.format_table import FormatTable
from morrow.writers.ingest.sources import Source, build_arrow, from_pandas, is_of_pandas, open_source
from morrow.writers.ingest.store_paths import Place, open_place
from morrow.writers.ingest.text_files import CsvOptions
from morrow.writers.operations.append import READ_AGAIN

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import Table as IcebergTable

SQLITE = "sqlite"
ADBC_DRIVERS: Mapping[str, str] = {
    SQLITE: "adbc_driver_sqlite",
    **dict.fromkeys(("postgresql", "postgres"), "adbc_driver_postgresql"),
    "snowflake": "adbc_driver_snowflake",
    **dict.fromkeys(("grpc", "grpc+tls", "grpc+tcp"), "adbc_driver_flightsql"),
}
"""The schemes of databases -> the modules of their ADBC drivers."""
DELTA_MAPPING = "delta.columnMapping.mode"
DELTA_VARIANT = r'ype":"variant"'
"""The type VARIANT of a column, a member, an element or a value in the schema of a Delta table."""
CONNECTORX_SCHEMES = ("sqlite", "postgresql", "postgres", "redshift", "mysql", "mssql", "oracle", "bigquery", "trino")
DATABASE_ROWS = 1 << 16
"""Rows that a database returns at a time."""


QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "SHOW", "DESCRIBE", "PRAGMA", "CALL", "EXEC")
"""The first words of statements that return rows."""
CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE")
"""The words of changes, in or behind the parentheses of WITH."""


@dataclass(frozen=True)
class Wanted:
    """The arguments of an import that a source depends on.

    Args:
        name, target: the table and its location.
        table: its columns, None if it does not exist.
        merge: take columns that only some parts have.
        versions: the versions of tables whose import began, by the title of the source.
        storage_options: the options of remote stores.
    """

    name: str
    target: str
    table: pa.Schema | None
    query: str | None = None
    form: str | None = None
    csv: CsvOptions = field(default_factory=CsvOptions)
    merge: bool = False
    versions: Mapping[str, str] | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)


def open_import_source(source: object, wanted: Wanted) -> RowSource:
    """Return the rows of any source. Raises as `Catalog.import_table`."""
    if wanted.query is not None:
        check_no_files(wanted)
        return _open_query(source, wanted)
    library = type(source).__module__.partition(".")[0]
    if library in LIBRARIES:
        check_no_files(wanted)
        with translate_errors(library, f"a table of {library}"):
            return LIBRARIES[library](source, wanted)
    if isinstance(source, (str, os.PathLike)):
        return _open_path(to_location(source, "source"), wanted)
    if isinstance(source, Sequence) and source and all(isinstance(each, (str, os.PathLike)) for each in source):
        return _open_paths([to_location(each, "source") for each in source], wanted)
    check_no_files(wanted)
    return _open_rows(source.scan() if isinstance(source, FormatTable) else source, wanted)


def check_no_files(wanted: Wanted) -> None:
    """Raise `InvalidArgument` if the format of files is given for a source that is not files."""
    if wanted.form is not None or wanted.csv != CsvOptions():
        raise InvalidArgument("format= and csv= describe files, and the source is not files; leave them out")


def _open_path(location: str, wanted: Wanted) -> RowSource:
    scheme = urlsplit(location).scheme
    if scheme.partition("+")[0] in (*ADBC_DRIVERS, *CONNECTORX_SCHEMES):
        raise InvalidArgument(f'a database of {scheme}: give a query, such as query="SELECT * FROM orders"')
    folder = open_place(location, wanted.storage_options)
    if holds_delta_log(folder):
        check_no_files(wanted)
        with (
            require_extra("a table of Delta Lake", "deltalake", "delta"),
            translate_errors("deltalake", location),
        ):
            from deltalake import DeltaTable

            options = _get_delta_options(folder)
            return _open_delta(DeltaTable(str(folder), storage_options=options), wanted)
    metadata = _find_iceberg_metadata(folder) if isinstance(folder, Path) else None
    if metadata is not None:
        check_no_files(wanted)
        with (
            require_extra("a table of Iceberg", "pyiceberg", "iceberg"),
            translate_errors("pyiceberg", location),
        ):
            from pyiceberg.table import StaticTable

            return _open_iceberg(StaticTable.from_metadata(metadata.absolute().as_uri()), wanted)
    return _open_paths([location], wanted)


def _open_paths(locations: Sequence[str], wanted: Wanted) -> RowSource:
    files = find_files(locations, wanted.name, wanted.target, wanted.storage_options)
    return open_files(files, form=wanted.form, csv=wanted.csv, merge=wanted.merge, table=wanted.table, name=wanted.name)


# Tables of other formats


def _get_delta_options(folder: Place) -> dict[str, str] | None:
    """Return the storage options of a folder for deltalake, which refuses an ``http://`` endpoint by default."""
    if isinstance(folder, Path):
        return None
    options = dict(folder.store.storage_options)
    return (
        {**options, "allow_http": "true"} if any(each.startswith("http://") for each in options.values()) else options
    )


def _open_delta(table: DeltaTable, wanted: Wanted) -> RowSource:
    """Return the rows of a Delta table: each file is a part, or the whole table if only a query reads it rightly."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    if not isinstance(table, DeltaTable):
        return _open_rows(table, wanted)
    title, version = _pin(f"Delta table {table.table_uri}", wanted, str(table.version()))
    if int(version) != table.version():
        table = DeltaTable(table.table_uri, int(version), storage_options=table._storage_options)
    keys = tuple(table.metadata().partition_columns)
    mapping = table.metadata().configuration.get(DELTA_MAPPING, "none")
    if mapping not in ("none", "name"):
        raise Unsupported(
            f"a Delta table whose columns are mapped by {mapping}",
            where=table.table_uri,
            hint="let Spark write it to another folder, and import that: "
            f"spark.read.format('delta').load('{table.table_uri}').write.parquet(folder)",
        )
    if re.search(DELTA_VARIANT, table.schema().to_json()):
        hint = "import a copy whose VARIANT columns are text: deltalake reads them as rows of bytes"
        raise Unsupported("a Delta table with VARIANT columns", where=table.table_uri, hint=hint)
    if mapping == "name":  # a dataset of deltalake looks for names that the files lack, and finds nulls
        return _query_delta(table, title, keys, version)
    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaProtocolError:  # deletion vectors
        return _query_delta(table, title, keys, version)

    def read(fragment: ds.FileFragment) -> Callable[[pa.Schema], Source]:
        return lambda _: open_source(
            ds.FileSystemDataset([fragment], dataset.schema, dataset.format, dataset.filesystem)
        )

    parts = [
        Part(
            read(each), f"{table.table_uri} {each.path}", version, dataset.filesystem.get_file_info(each.path).size or 0
        )
        for each in dataset.get_fragments()
    ]
    return RowSource(title, tuple(parts), dataset.schema, keys, version)


def _query_delta(table: DeltaTable, title: str, keys: tuple[str, ...], version: str) -> RowSource:
    """Return the rows of a Delta table as one part, by deltalake's query engine, which follows all of its log."""
    from deltalake import QueryBuilder

    schema = pa.schema(table.schema().to_arrow())

    def read(_: pa.Schema) -> Source:
        with translate_errors("deltalake", title):
            found = QueryBuilder().register("source", table).execute("SELECT * FROM source")
        batches = (batch.cast(schema) for batch in pa.RecordBatchReader.from_stream(found))
        return open_source(pa.RecordBatchReader.from_batches(schema, batches))

    read(schema)  # refuses features of a table that deltalake cannot read, before anything is written
    return RowSource(title, (Part(read, title, version),), schema, keys, version)


def _find_iceberg_metadata(path: Path) -> Path | None:
    """Return the metadata file that a path names or that the hint in its folder names, None for other paths.

    Raises `Unsupported`: a folder without a hint, in which only the catalog knows the newest metadata.
    """
    if path.name.endswith(ICEBERG_METADATA[0]):
        return path
    folder = path / "metadata"
    if not any(folder.glob(f"*{ICEBERG_METADATA[0]}")):
        return None
    hint = folder / ICEBERG_METADATA[1]
    version = hint.read_text().strip() if hint.is_file() else ""
    named = (f"v{version}.metadata.json", f"{version}.metadata.json", version)
    found = next((folder / each for each in named if version and (folder / each).is_file()), None)
    if found is None:
        newest = max(folder.glob(f"*{ICEBERG_METADATA[0]}"), key=lambda each: each.stat().st_mtime)
        raise Unsupported(
            "a table of Iceberg without version-hint.text, whose newest metadata only its catalog knows,",
            where=str(path),
            hint="pass the table of pyiceberg, catalog.load_table('db.t'), or the path of its current metadata, "
            f"perhaps {newest}",
        )
    return found


def _open_iceberg(table: IcebergTable, wanted: Wanted) -> RowSource:
    """Return the rows of an Iceberg table; each file is a part, read with its deletions."""
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
    from pyiceberg.table import Table
    from pyiceberg.transforms import IdentityTransform

    if not isinstance(table, Table):
        return _open_rows(_read_iceberg_scan(table), wanted)
    title = f"Iceberg table {table.location()}"
    title, version = _pin(title, wanted, _get_iceberg_version(table))
    snapshot, _, schema_id = version.partition(" ")
    scan = table.scan(snapshot_id=int(snapshot) or None)
    projection = table.schemas()[int(schema_id)] if schema_id else scan.projection()
    schema = schema_to_pyarrow(projection, include_field_ids=False)
    keys = tuple(
        projection.find_column_name(each.source_id) or ""
        for each in table.spec().fields
        if isinstance(each.transform, IdentityTransform)
    )

    def read(task: Any) -> Callable[[pa.Schema], Source]:
        def open_task(_: pa.Schema) -> Source:
            rows = ArrowScan(table.metadata, table.io, projection, scan.row_filter, scan.case_sensitive)
            batches = (batch.cast(schema) for batch in rows.to_record_batches([task]))
            return open_source(pa.RecordBatchReader.from_batches(schema, batches))

        return open_task

    parts = [
        Part(
            read(each), f"{title} {each.file.file_path}", version, each.file.file_size_in_bytes, each.file.record_count
        )
        for each in scan.plan_files()
    ]
    return RowSource(title, tuple(parts), schema, tuple(key for key in keys if key in schema.names), version)


def _get_iceberg_version(table: IcebergTable) -> str:
    """Return the current snapshot, and the current schema if it is newer than the one of the snapshot."""
    snapshot, schema = table.current_snapshot(), table.metadata.current_schema_id
    if snapshot is None:
        return "0"
    is_newer = snapshot.schema_id is not None and snapshot.schema_id != schema
    return f"{snapshot.snapshot_id} {schema}" if is_newer else str(snapshot.snapshot_id)


def _read_iceberg_scan(scan: Any) -> pa.RecordBatchReader:
    """Return the rows of a scan of pyiceberg. Raises `InvalidArgument` for other objects."""
    if not hasattr(scan, "to_arrow_batch_reader"):
        raise InvalidArgument(
            f"a {type(scan).__name__} of pyiceberg is not a table; pass catalog.load_table('db.t'), or a scan of it"
        )
    return scan.to_arrow_batch_reader()


def _pin(title: str, wanted: Wanted, newest: str) -> tuple[str, str]:
    """Return the title and the version to read: that of an import that has begun, else the newest one."""
    return title, (wanted.versions or {}).get(title, newest)


LIBRARIES: Mapping[str, Callable[[Any, Wanted], RowSource]] = {"deltalake": _open_delta, "pyiceberg": _open_iceberg}


@contextmanager
def translate_errors(library: str, where: str) -> Iterator[None]:
    """Raise `Unsupported` for errors of a library that cannot read a table."""
    try:
        yield
    except MorrowError:
        raise
    except _load_errors(library) as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise Unsupported(
            f"{where}, of which {library} says: {text[0]},", hint="read it by the program that wrote it"
        ) from error


def _load_errors(library: str) -> tuple[type[Exception], ...]:
    """Return the errors of an imported library: its own, and Python's that it raises."""
    module = importlib.import_module(f"{library}.exceptions")
    own = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*own, OSError, ValueError, NotImplementedError, KeyError, ImportError)


# Databases


def _open_query(source: Any, wanted: Wanted) -> RowSource:
    """Return the rows of a query: by a URI through ADBC or connectorx, or on an open connection."""
    query = check_text(wanted.query or "", "query")
    _check_query(query)
    if isinstance(source, (str, os.PathLike)):
        return _open_uri(to_location(source, "source"), query, wanted)
    if type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb") and hasattr(source, "sql"):
        with _translate_query_errors("DuckDB", *query_errors()):
            return _open_rows(source.sql(query), wanted, "a query of DuckDB")
    if hasattr(source, "cursor"):
        # Drivers have error classes of their own, with the name that DB-API gives to their base.
        errors = getattr(importlib.import_module(type(source).__module__), "Error", RuntimeError)
        return _open_cursor(source, query, wanted, "the database", errors)
    raise InvalidArgument(
        f"query= is for a database, not for a {type(source).__name__}; give its URI, such as "
        "'postgresql://host/db', or a connection of DuckDB or ADBC"
    )


def _check_query(query: str) -> None:
    """Raise `InvalidArgument` for a statement that changes the source."""
    from morrow.statements.tokens import split  # imports sqlglot

    statements = [[token.text.upper() for token in each.tokens] for each in split(query)]
    words = statements[0] if len(statements) == 1 else []
    first = next((word for word in words if word != "("), None)
    change = next((word for before, word in pairwise(words) if before in "()" and word in CHANGES), None)
    if first not in QUERIES or change is not None:
        what = f"has {change}" if change else f"begins with {first}" if words else f"has {len(statements)} statements"
        raise InvalidArgument(f"query= {what}; an import only reads: give one query ({', '.join(QUERIES)})")


def _open_uri(uri: str, query: str, wanted: Wanted) -> RowSource:
    scheme = uri.partition(":")[0]
    driver = ADBC_DRIVERS.get(scheme)
    if scheme == SQLITE:
        uri = _find_sqlite_file(uri)
    if driver is not None and importlib.util.find_spec(driver) is not None:
        dbapi = importlib.import_module(f"{driver}.dbapi")
        with _translate_query_errors(scheme, dbapi.Error):
            connection = dbapi.connect(uri.removeprefix(f"{SQLITE}://"))
        return _open_cursor(connection, query, wanted, scheme, dbapi.Error)
    if scheme.partition("+")[0] not in CONNECTORX_SCHEMES:
        known = ", ".join(dict.fromkeys((*ADBC_DRIVERS, *CONNECTORX_SCHEMES)))
        raise InvalidArgument(f"{redact_text(uri)}: no database that Morrow can open; its scheme is one of {known}")
    with require_extra(f"a query of {scheme}", "connectorx", "database"):
        import connectorx
    with _translate_query_errors(scheme, RuntimeError):
        rows = connectorx.read_sql(uri, query, return_type="arrow_stream", batch_size=DATABASE_ROWS)
    stream = pa.RecordBatchReader.from_batches(rows.schema, _read_connectorx(rows, scheme))
    return _open_rows(stream, wanted, f"a query of {scheme}")


def _read_connectorx(rows: pa.RecordBatchReader, scheme: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, whose class connectorx does not export
            raise
        raise InvalidArgument(
            f"the query of {scheme}: a value is not of its column's type: {str(error).splitlines()[0]}; "
            "cast the column in the query"
        ) from error


def _find_sqlite_file(uri: str) -> str:
    """Return the URI of SQLite's file with its whole path, which must exist: SQLite would make an empty one.

    SQLAlchemy writes four slashes before a whole path, others three.
    """
    path = uri.removeprefix(f"{SQLITE}://").partition("?")[0]
    found = next((each for each in map(Path, (path, path[1:])) if each.is_file()), None)
    if found is None:
        raise InvalidArgument(f"{uri}: there is no such file")
    return f"{SQLITE}://{os.path.normpath(found.absolute())}"


def _open_cursor(connection: Any, query: str, wanted: Wanted, scheme: str, errors: type[Exception]) -> RowSource:
    with _translate_query_errors(scheme, errors):
        cursor = connection.cursor()
    if not hasattr(cursor, "fetch_record_batch"):
        raise InvalidArgument(
            f"a connection of {type(connection).__module__} returns rows as Python values; give the database's URI, "
            "or a connection of ADBC"
        )
    with _translate_query_errors(scheme, errors):
        cursor.execute(query)
        reader = cursor.fetch_record_batch()

    def read() -> Iterator[pa.RecordBatch]:
        with _translate_query_errors(scheme, errors, *query_errors()):
            yield from reader
        cursor.close()  # the cursor and the connection must outlive the stream

    stream = pa.RecordBatchReader.from_batches(reader.schema, read())
    return _open_rows(stream, wanted, f"a query of {scheme}")


@contextmanager
def _translate_query_errors(scheme: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise `InvalidArgument` for errors of a database or its driver."""
    try:
        yield
    except errors as error:
        lines = redact_text(str(error)).strip().splitlines() or [type(error).__name__]
        raise InvalidArgument(f"the query of {scheme}: {lines[0]}") from error


# Tables in memory


def _open_rows(
    data: Any, wanted: Wanted, title: str = "", partition_keys: tuple[str, ...] = (), version: str | None = None
) -> RowSource:
    """Return rows in memory or of a stream as one part; only rows of a table's version have a name."""
    shown = title or f"a {type(data).__name__}"
    is_kept = isinstance(data, (*READ_AGAIN, pl.LazyFrame)) or is_of_pandas(data)
    if wanted.table is not None and not wanted.merge:
        rows, schema = data, None
    elif isinstance(data, (pl.LazyFrame, pl.DataFrame)):
        check_polars_schema(data.collect_schema())
        rows, schema = data, build_arrow(to_arrow_schema, data.collect_schema())
    elif isinstance(getattr(data, "schema", None), pa.Schema):
        rows, schema = data, data.schema
    elif hasattr(data, "__arrow_c_stream__") and not is_kept and not hasattr(data, "to_frame"):
        with _translate_query_errors("DuckDB", *query_errors()):
            rows = build_arrow(pa.RecordBatchReader.from_stream, data)
        schema = rows.schema
    else:
        source = open_source(data)
        first = next(source.pieces, None)
        if first is None and is_of_pandas(data) and source.names:
            first = from_pandas(data, {})
        if first is None:
            hint = "make the table first, by Catalog.create_table"
            raise InvalidArgument(f"{shown} has no rows, and so no columns; {hint}")
        schema = first.schema if isinstance(first, pa.Table) else export_frame(first.head(0)).schema
        rows = data if is_kept else Source(source.names, chain((first,), source.pieces))
    part = Part(lambda _: rows, title if version else "", version or "", is_stream=not is_kept)
    return RowSource(shown, (part,), schema, partition_keys, version)
