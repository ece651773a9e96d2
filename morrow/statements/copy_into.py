"""COPY INTO of `Catalog.sql`, and the rules of loads that Spark shares: columns, files, errors, history and report.

A load first counts the rows and errors of each file, then writes the good rows of all files in one commit with the
record of the files. A row is an error if the file cannot be parsed there, or if a value cannot be cast to its column.
Errors are counted, and their rows left out.

Files are CSV and JSON as text, or Parquet in its types; values are cast to the columns.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import resolve
from morrow.queries.query import Prepared, run_prepared
from morrow.readers.expressions.sql import SESSION, name_type, open_stream, quote_identifier, quote_text
from morrow.statements.copy_parser import (
    ABORT,
    COMPRESSION,
    CONTINUE,
    CSV,
    DATE_FORMAT,
    EMPTY_FIELD_AS_NULL,
    ESCAPE,
    FIELD_DELIMITER,
    HEADER,
    JSON,
    MULTI_LINE,
    NULL_IF,
    PARQUET,
    QUOTE,
    SKIP_HEADER,
    TIMESTAMP_FORMAT,
    get_option,
    is_true,
)
from morrow.statements.insert import find_column
from morrow.statements.statement import CopyFormat, CopyInto, CopyIntoLocation
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.premise import Premise
from morrow.writers.history.load_history import (
    LoadPremise,
    Record,
    SourceFile,
    Tally,
    describe_cast_error,
    find_loaded,
    write_history,
)
from morrow.writers.ingest.row_files import open_dataset, read_fragment
from morrow.writers.ingest.sources import Source
from morrow.writers.ingest.text_files import build_member_sql, escape_pattern
from morrow.writers.operations.append import append_parts
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.engine.format.schema import TableSchema
    from morrow.statements.context import Context
    from morrow.tables.table import Table

Blocks: TypeAlias = "Iterator[tuple[pa.Table, list[str]]]"
"""Rows with the columns c0, c1, ..., and the texts of records that do not parse."""

BLOCK_BYTES = 16 << 20
"""Bytes of a text file that are read at a time."""
READ_ROWS = 1 << 16
"""Rows of a CSV file that are read at a time."""
CSV_SETTINGS = "auto_detect = false, nullstr = '', store_rejects = true"
"""Settings of DuckDB: an empty cell is null, also in quotes, as in Spark, and wrong lines are listed."""
REJECTED = "SELECT any_value(csv_line) FROM reject_errors GROUP BY line ORDER BY line"
DOCUMENTS = "format = 'auto'"
NO_DELIMITER = "\x01"
"""A character that valid JSON does not contain, so that a line is one cell."""
DIGITS = r"\s*[+-]?\d+\s*"
"""Texts of whole numbers. DuckDB would round others."""
WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
BYTES = (t.BinaryType, t.VarBinaryType)
TEXTS = (t.CharType, t.VarCharType)


@dataclass(frozen=True)
class FileReader:
    """Rows of files, in the types of a table's columns."""

    format: CopyFormat
    fields: tuple[t.DataField, ...]
    zone: str
    """The time zone of texts of instants."""

    def count(self, path: Path) -> Tally:
        """Count the rows and errors of a file."""
        rows = errors = 0
        first: str | None = None
        for block, malformed in self._read(path):
            bad = block.num_rows - self._cast(block).num_rows
            rows, errors = rows + block.num_rows + len(malformed), errors + bad + len(malformed)
            if first is None and malformed:
                first = f"Malformed record: {malformed[0]}"
            elif first is None and bad:
                first = self._describe_error(block)
        return Tally(rows, errors, first)

    def open_rows(self, path: Path) -> Source:
        """Return the good rows of a file."""
        names = [field.name for field in self.fields]
        blocks = (self._cast(block).rename_columns(names) for block, _ in self._read(path))
        return Source(tuple(names), blocks)

    def _read(self, path: Path) -> Blocks:
        if not path.stat().st_size:
            return
        try:
            yield from READERS[self.format.type](self, path)
        except (duckdb.Error, pa.ArrowException, UnicodeError, OSError) as error:
            raise InvalidArgument(f"{path}: {str(error).splitlines()[0]}") from error

    def read_csv(self, path: Path) -> Blocks:
        """Yield the rows of a CSV file, as text."""
        names = [f"c{at}" for at in range(len(self.fields))]
        form = {"delim": (FIELD_DELIMITER, ","), "quote": (QUOTE, '"'), "escape": (ESCAPE, "\\")}
        options = {key: quote_text(get_option(self.format, *given)) for key, given in form.items()}
        options["columns"] = "{" + ", ".join(f"{name}: 'VARCHAR'" for name in names) + "}"
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        given += f", header = {is_true(self.format, SKIP_HEADER)}"
        with closing(duckdb.connect()) as connection:
            found = connection.sql(f"FROM read_csv({quote_text(escape_pattern(path))}, {given}, {CSV_SETTINGS})")
            for batch in open_stream(found, READ_ROWS):
                yield self._clear(pa.Table.from_batches([batch])), []
            wrong = connection.sql(REJECTED).fetchall()
        yield pa.table([pa.array([], pa.string()) for _ in names], names), [line for (line,) in wrong]

    def read_json(self, path: Path) -> Blocks:
        """Yield the members of JSON objects, as text: one object or array a line, or a whole file."""
        blocks = iter([_read_documents(path)]) if is_true(self.format, MULTI_LINE) else _read_lines(path)
        texts = [f"({build_member_sql('json', each.name)} ->> '$') AS c{at}" for at, each in enumerate(self.fields)]
        with closing(duckdb.connect(config=SESSION)) as connection:
            for lines in blocks:
                connection.register("lines", lines)
                wrong = connection.sql(f"SELECT c0 FROM lines WHERE trim(c0) <> '' AND NOT ({IS_JSON})").fetchall()
                block = connection.sql(f"SELECT {', '.join(texts)} FROM ({OBJECTS})").to_arrow_table()
                yield self._clear(block), [text for (text,) in wrong]

    def read_parquet(self, path: Path) -> Blocks:
        """Yield the columns of a Parquet file, found by name without case; others are null."""
        (fragment,) = open_dataset([path], "parquet", merge=True).get_fragments()
        there = {name.casefold(): name for name in reversed(fragment.physical_schema.names)}
        found = [there.get(field.name.casefold()) for field in self.fields]
        for piece in read_fragment(fragment, list(dict.fromkeys(name for name in found if name is not None))).pieces:
            rows = piece if isinstance(piece, pa.Table) else pa.table(piece)
            columns = [
                pa.nulls(rows.num_rows, field.type.arrow()) if name is None else rows[name]
                for name, field in zip(found, self.fields, strict=True)
            ]
            yield pa.table(columns, [f"c{at}" for at in range(len(columns))]), []

    def _clear(self, block: pa.Table) -> pa.Table:
        """Replace the texts that mean null."""
        nulls = [*self.format.options.get(NULL_IF, ()), *([""] if is_true(self.format, EMPTY_FIELD_AS_NULL) else [])]
        if not nulls:
            return block
        marks = pa.array(nulls, pa.string())
        cleared = [pc.if_else(pc.is_in(column, marks), None, column) for column in block.columns]
        return pa.table(cleared, block.column_names)

    def _cast(self, block: pa.Table) -> pa.Table:
        """Return the rows whose values can all be cast."""
        values = ", ".join(f"v{at}" for at in range(len(self.fields)))
        return self._run(f"SELECT {values} FROM cast_rows WHERE NOT ({' OR '.join(self._build_errors())})", block)

    def _build_errors(self) -> list[str]:
        return [f"(c{at} IS NOT NULL AND v{at} IS NULL)" for at in range(len(self.fields))]

    def _describe_error(self, block: pa.Table) -> str:
        """Return a value of a block that cannot be cast, and its column."""
        for at, (field, error) in enumerate(zip(self.fields, self._build_errors(), strict=True)):
            found = self._run(f"SELECT c{at} FROM cast_rows WHERE {error} LIMIT 1", block)
            if found.num_rows:
                return describe_cast_error(field, found[0][0].as_py())
        raise AssertionError("no value of the block is wrong")

    def _run(self, query: str, block: pa.Table) -> pa.Table:
        kinds = [block.schema.field(at).type for at in range(len(self.fields))]
        cells = ", ".join(
            _build_cast(f"c{at}", *pair) + f" AS v{at}" for at, pair in enumerate(zip(self.fields, kinds))
        )
        with closing(duckdb.connect(config=SESSION)) as connection:
            connection.execute(f"SET TimeZone = {quote_text(self.zone)}")
            connection.register("block", block)
            try:
                return connection.sql(f"WITH cast_rows AS (SELECT *, {cells} FROM block) {query}").to_arrow_table()
            except duckdb.Error as error:
                raise InvalidArgument(f"COPY INTO: {str(error).splitlines()[0]}") from error


READERS: Mapping[str, Callable[[FileReader, Path], Blocks]] = {
    CSV: FileReader.read_csv,
    JSON: FileReader.read_json,
    PARQUET: FileReader.read_parquet,
}

_ELEMENTS = "CASE json_type(c0) WHEN 'ARRAY' THEN CAST(c0 AS JSON[]) ELSE [CAST(c0 AS JSON)] END"
_VALUES = f"CASE WHEN json_valid(c0) THEN {_ELEMENTS} END"
IS_JSON = f"json_valid(c0) AND len(list_filter({_VALUES}, lambda j: json_type(j) <> 'OBJECT')) = 0"
OBJECTS = f"SELECT unnest({_VALUES}) AS json FROM lines WHERE {IS_JSON}"
"""The objects of valid lines. A line may be an array of objects, as in Spark."""


def _read_lines(path: Path) -> Iterator[pa.Table]:
    """Yield the lines of a text file."""
    options = csv.ParseOptions(delimiter=NO_DELIMITER, quote_char=False)
    reading = csv.ReadOptions(block_size=BLOCK_BYTES, column_names=["c0"])
    with csv.open_csv(path, reading, options, csv.ConvertOptions(column_types={"c0": pa.string()})) as reader:
        yield from (pa.Table.from_batches([batch]) for batch in reader)


def _read_documents(path: Path) -> pa.Table:
    """Return a file of JSON values, which may span lines. A file that does not parse is one malformed record."""
    query = (
        f"SELECT CAST(json AS VARCHAR) AS c0 FROM read_json_objects({quote_text(escape_pattern(path))}, {DOCUMENTS})"
    )
    with closing(duckdb.connect()) as connection:
        try:
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            return pa.table({"c0": [str(error).splitlines()[0]]})


def _build_cast(value: str, field: t.DataField, given: pa.DataType) -> str:
    """Return SQL for a value in the type of a column, null if it cannot be cast."""
    kind = field.type
    if given == kind.arrow() or (pa.types.is_string(given) and isinstance(kind, TEXTS)):
        return value
    if pa.types.is_string(given) and isinstance(kind, BYTES):
        return f"encode({value})"
    if pa.types.is_string(given) and isinstance(kind, WHOLE):
        value = f"CASE WHEN regexp_full_match({value}, '{DIGITS}') THEN {value} END"
    elif pa.types.is_floating(given) and isinstance(kind, WHOLE):
        value = f"trunc({value})"
    return f"TRY_CAST({value} AS {name_type(kind)})"


LOADED, PARTIALLY_LOADED, LOAD_FAILED, SKIPPED = "LOADED", "PARTIALLY_LOADED", "LOAD_FAILED", "SKIPPED"
REPORT = pa.schema(
    [
        pa.field("file_name", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("rows_loaded", "rows_parsed", "errors_seen")),
        pa.field("first_error", pa.string()),
    ]
)
"""The columns of COPY INTO a table: a row for each file."""
WRITTEN = pa.schema(
    [
        pa.field("output_path", pa.string(), nullable=False),
        pa.field("file_count", pa.int32(), nullable=False),
        pa.field("rows_written", pa.int64(), nullable=False),
    ]
)
"""The columns of COPY INTO a location."""
LOCAL = "file:"

Report = tuple[str, str, int, int, int, str | None]
"""A row of `REPORT`."""
Write = Callable[[Sequence[SourceFile], Mapping[str, str], Premise], Snapshot | None]
"""A function that writes the good rows of files in one commit with properties, under a premise."""


def load_files(
    table: Table,
    statement: CopyInto,
    find: Callable[[], Sequence[SourceFile]],
    count: Callable[[Sequence[SourceFile]], Mapping[str, Tally]],
    write: Write,
) -> list[Report]:
    """Load the files that are not loaded yet, in one commit, and return a row of the report for each file.

    Args:
        find: lists the files of the source; those that PATTERN does not match are left out here.
        count: returns the tally of each file by its path; without a tally a file is empty.

    Raises `InvalidArgument`: an error in a file, under ON_ERROR = ABORT_STATEMENT. CommitConflict: see `append_parts`.
    """
    metadata = table._metadata

    def once() -> list[Report]:
        read, record = metadata.latest_snapshot(), Record.of(metadata)
        files = [each for each in find() if statement.pattern is None or re.search(statement.pattern, each.base)]
        loaded = set() if statement.force else find_loaded(metadata, record, files)
        new = [file for file in files if file.path not in loaded]
        tallies = count(new) if new else {}
        reports = {file: _report(statement, file, tallies.get(file.path, Tally())) for file in new}
        kept = {file: report[2] for file, report in reports.items() if report[1] != LOAD_FAILED}
        whole = record.add(((file.name, file.state) for file in kept), record.begun)
        filled = [file for file, rows in kept.items() if rows]
        snapshot = write(filled, whole.properties(), LoadPremise(read)) if filled else read
        write_history(metadata, kept, snapshot)
        return [*reports.values(), *((file.base, SKIPPED, 0, 0, 0, None) for file in files if file.path in loaded)]

    return retry_on_conflict(WriteTarget.of(metadata), once)


def _report(statement: CopyInto, file: SourceFile, tally: Tally) -> Report:
    if tally.errors and statement.on_error == ABORT:
        raise InvalidArgument(
            f"{file.path}: {tally.errors} of {tally.rows} rows cannot be loaded; {tally.first_error}; nothing was "
            "loaded; mend the file, or give ON_ERROR = CONTINUE or SKIP_FILE"
        )
    loaded = tally.rows - tally.errors if statement.on_error == CONTINUE or not tally.errors else 0
    status = LOADED if not tally.errors else PARTIALLY_LOADED if loaded else LOAD_FAILED
    return (file.base, status, loaded, tally.rows, tally.errors, tally.first_error)


def find_fields(schema: TableSchema, statement: CopyInto) -> list[t.DataField]:
    """Return the columns that a load fills.

    Raises:
        InvalidArgument: an unknown column, one that is named twice, or a missing column that needs a value.
        Unsupported: text files, and a column of a nested type.
    """
    fields = [*schema.fields]
    if statement.columns is not None:
        try:
            fields = [find_column(name, schema) for name in statement.columns]
        except ColumnNotFound as error:
            raise InvalidArgument(f"COPY INTO: Column does not exist in target table: {error}") from error
        if twice := next((each.name for each in fields if fields.count(each) > 1), None):
            raise InvalidArgument(f"COPY INTO: Duplicate columns in column list: {twice}; name each column once")
        for field in schema.fields:
            if field not in fields and not field.type.nullable and field.default_value is None:
                raise InvalidArgument(
                    f"COPY INTO: Non-nullable column {field.name!r} is not in the column list and has no default value"
                )
    if statement.format.type != PARQUET:
        nested = next((each for each in fields if isinstance(each.type, NESTED)), None)
        if nested is not None:
            raise Unsupported(
                f"COPY INTO of {statement.format.type} into {nested.name!r}, {nested.type},",
                hint="leave it out of the list of columns, or load Parquet",
            )
    return fields


NESTED = (t.ArrayType, t.MapType, t.RowType, t.MultisetType, t.VectorType, t.VariantType, t.BlobType)


def check_export(target: str, overwrite: bool) -> Path | None:
    """Check the folder of an export; return its path if it is local.

    Raises `InvalidArgument`: the folder exists, or OVERWRITE would remove files of others.
    """
    store, path = resolve(target)
    if not store.is_local:
        return None
    folder = Path(path)
    if not folder.exists():
        return folder
    if not overwrite:
        raise InvalidArgument(f"{target}: path already exists; give OVERWRITE = TRUE, or another folder")
    other = next((each for each in folder.iterdir() if not _is_exported(each)), None) if folder.is_dir() else folder
    if other is not None:
        raise InvalidArgument(
            f"{target}: OVERWRITE = TRUE would remove {other.name!r}, which no export wrote; give another folder"
        )
    return folder


def _is_exported(path: Path) -> bool:
    return path.name.startswith(("part-", "_", ".")) and path.is_file()


def describe_local(path: Path) -> SourceFile:
    """Return a local file as Java names it, with the name and state that `Catalog.import_table` records."""
    status, real = path.stat(), str(path.resolve())
    millis = status.st_mtime_ns // 1_000_000
    return SourceFile(f"{LOCAL}{path}", status.st_size, millis, real, f"{status.st_size} {status.st_mtime_ns}")


def is_hidden(name: str) -> bool:
    """Return whether a load leaves a file out, as Spark does: markers, checksums and files being written."""
    return name.startswith(("_", "."))


# Catalog.sql


def copy_into(context: Context, statement: CopyInto) -> duckdb.DuckDBPyRelation:
    """Load files into a table, each once, and return a row for each file."""

    table = context.table(statement.table)
    reader = FileReader(statement.format, tuple(find_fields(table._newest, statement)), context.zone())

    def count(files: Sequence[SourceFile]) -> dict[str, Tally]:
        return {file.path: reader.count(_get_path(file)) for file in files}

    def write(files: Sequence[SourceFile], properties: Mapping[str, str], premise: Premise) -> Snapshot | None:
        target = WriteTarget.of(table._metadata, properties=properties)
        parts = [partial(reader.open_rows, _get_path(file)) for file in files]
        return append_parts(target, parts, is_stream=False, premise=premise)

    rows = load_files(table, statement, lambda: list_local(statement.source), count, write)
    return context.relation(make_table(REPORT, rows))


def make_table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    """Return rows as a table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _get_path(file: SourceFile) -> Path:
    return Path(file.path.removeprefix(LOCAL))


def list_local(source: str) -> list[SourceFile]:
    """List the files of a folder, without folders in it, or one file."""
    store, path = resolve(source)
    if not store.is_local:
        raise Unsupported("COPY INTO of files that lie in no local folder", where=source, hint="run it in Spark")
    root = Path(path).absolute()
    if not root.exists():
        raise InvalidArgument(f"{source}: there is no such file or folder")
    paths = [root] if root.is_file() else [each for each in root.iterdir() if each.is_file()]
    return [describe_local(each) for each in sorted(paths) if not is_hidden(each.name)]


def copy_into_location(context: Context, statement: CopyIntoLocation) -> duckdb.DuckDBPyRelation:
    """Write the rows of a table or query to a file in a folder, and return the number of rows."""
    folder = check_export(statement.target, statement.overwrite)
    if folder is None:
        raise Unsupported("COPY INTO a folder that is not local", where=statement.target, hint="run it in Spark")
    query = statement.query or f"SELECT * FROM {'.'.join(map(quote_identifier, statement.table))}"
    found, ending = context.prepared(query), f".{statement.format.type.lower()}"
    options = [f"FORMAT {statement.format.type}", *_list_options(statement.format)]
    if get_option(statement.format, COMPRESSION, "").upper() == "GZIP" and statement.format.type != PARQUET:
        ending += ".gz"
    folder.mkdir(parents=True, exist_ok=True)
    former = list(folder.iterdir())
    target = folder / f"part-00000-{uuid.uuid4()}-c000{ending}"
    text = f"COPY ({found.text}\n) TO {quote_text(str(target))} ({', '.join(options)})"
    done = run_prepared(Prepared(text, found.variables, {}), context.connection.cursor().execute, {})
    (rows,) = cast("duckdb.DuckDBPyConnection", done).fetchone() or (0,)
    for each in former:
        each.unlink()
    return context.relation(make_table(WRITTEN, [(statement.target, 1, rows)]))


def _list_options(format: CopyFormat) -> list[str]:
    """Return the options of DuckDB's COPY. Raises `Unsupported` for formats of dates, which are Java's."""
    dates = next((key for key in (DATE_FORMAT, TIMESTAMP_FORMAT) if key in format.options), None)
    if dates is not None:
        raise Unsupported(f"COPY INTO a location with {dates}", hint="format the column in a query, or run it in Spark")
    given = {EXPORTED_AS[key]: quote_text(values[0]) for key, values in format.options.items()}
    if format.type == CSV:
        return [f"{key} {value}" for key, value in {"HEADER": "'FALSE'", "ESCAPE": "'\\'", **given}.items()]
    return [f"{key} {value}" for key, value in given.items() if value.upper() != "'NONE'" or format.type != PARQUET]


EXPORTED_AS: Mapping[str, str] = {
    COMPRESSION: "COMPRESSION",
    FIELD_DELIMITER: "DELIMITER",
    HEADER: "HEADER",
    QUOTE: "QUOTE",
    ESCAPE: "ESCAPE",
}
"""Options of Paimon -> options of DuckDB's COPY."""
