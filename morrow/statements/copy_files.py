"""Rows of files for COPY INTO of `Catalog.sql`: CSV and JSON as text, Parquet in its types, cast to the columns.

A record that does not parse and a value that cannot be cast are errors, which are counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.readers.expressions.duckdb_queries import open_stream
from morrow.readers.expressions.sql import SESSION, name_type, quote_text
from morrow.statements.copy_parser import (
    CSV,
    EMPTY_FIELD_AS_NULL,
    ESCAPE,
    FIELD_DELIMITER,
    JSON,
    MULTI_LINE,
    NULL_IF,
    PARQUET,
    QUOTE,
    SKIP_HEADER,
    get_option,
    is_true,
)
from morrow.statements.statement import CopyFormat
from morrow.writers.history.load_history import Tally, describe_cast_error
from morrow.writers.ingest.row_files import open_dataset, read_fragment
from morrow.writers.ingest.sources import Source
from morrow.writers.ingest.text_files import build_member_sql, escape_pattern

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
