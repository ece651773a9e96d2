"""Rows of CSV and JSON files in the types of a table: what `morrow.cli.text` writes, read back.

Values with members are JSON in a cell of CSV, maps are lists of pairs, bytes are hexadecimal digits. Nothing is rounded
and no text is taken for null: in CSV an empty cell is null, ``""`` an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import csv

from morrow.engine.errors import InvalidArgument

CSV_TEXTS: Mapping[str, Any] = {
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}
"""Which cells of a CSV file are null."""
EXACT_DIGITS = 15
"""Digits of a JSON number that DuckDB keeps where it is no integer."""
BLOCK_BYTES = 16 << 20
"""Of a CSV file, read at once."""
GLOB = re.compile(r"[*?\[]")
"""What DuckDB takes for a pattern in the name of a file."""


def read_csv(file: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Reads a CSV file, a block at a time, the first without rows; columns that the schema lacks are as Arrow finds
    them.

    Raises:
        InvalidArgument: a cell that is not of its column's type, no CSV.
    """
    odd = {field.name: field.type for field in schema if _is_binary(field.type) or pa.types.is_nested(field.type)}
    types = {field.name: pa.string() if field.name in odd else field.type for field in schema}
    try:
        with csv.open_csv(
            file,
            csv.ReadOptions(block_size=BLOCK_BYTES),
            convert_options=csv.ConvertOptions(column_types=types, **CSV_TEXTS),
        ) as reader:
            names = reader.schema.names
            read = pa.schema([pa.field(name, odd.get(name, reader.schema.field(name).type)) for name in names])
            yield read.empty_table()
            blocks = (pa.Table.from_batches([batch]) for batch in reader)
            cells = {name: kind for name, kind in odd.items() if name in names}
            yield from _with_members(blocks, cells, read) if cells else blocks
    except (duckdb.Error, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"{file}: {error_text(error)}") from error


def _with_members(blocks: Iterator[pa.Table], cells: Mapping[str, pa.DataType], read: pa.Schema) -> Iterator[pa.Table]:
    at = {name: f"c{number}" for number, name in enumerate(cells)}  # DuckDB takes "a" and "A" for one
    query = f"SELECT {', '.join(f'{_cell(at[name], kind)} AS {at[name]}' for name, kind in cells.items())} FROM block"
    with closing(duckdb.connect()) as connection:
        for block in blocks:
            connection.register("block", pa.table([block[name] for name in cells], list(at.values())))
            made = connection.sql(query).to_arrow_table()
            columns = [made[at[name]] if name in cells else block[name] for name in read.names]
            yield pa.table(columns, read.names).cast(read)


def read_json(file: Path, schema: pa.Schema) -> pa.Table:
    """Reads a file of one JSON object a line; members that the schema lacks are text.

    Raises:
        InvalidArgument: a value that is not of its column's type, or no such file.
    """
    with file.open("rb") as text:
        if text.read(64).lstrip()[:1] == b"[":
            raise InvalidArgument(f"{file}: one JSON array; write one object a line, as `jq -c '.[]'` makes of it")
    source = json_lines(file)
    keys = "CASE json_type(json) WHEN 'OBJECT' THEN json_keys(json) ELSE error('no object: ' || json) END"
    try:
        with closing(duckdb.connect()) as connection:
            told = {name for (name,) in connection.sql(f"SELECT DISTINCT unnest({keys}) FROM {source}").fetchall()}
            others = [pa.field(name, pa.string()) for name in sorted(told.difference(schema.names))]
            fields = [pa.field(each.name, each.type) for each in schema if each.name in told or not told] + others
            cells = (f"{_value(each.type, member('json', each.name))} AS c{at}" for at, each in enumerate(fields))
            made = connection.sql(f"SELECT {', '.join(cells)} FROM {source}").to_arrow_table()
        return made.rename_columns([each.name for each in fields]).cast(pa.schema(fields))
    except (duckdb.Error, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"{file}: {error_text(error)}") from error


def json_lines(file: Path) -> str:
    """Return SQL for the lines of a file of JSON objects, in the column ``json``."""
    place = GLOB.sub(r"[\g<0>]", str(file.resolve()))
    return f"read_json_objects({_text(place)}, format = 'newline_delimited')"


def _cell(column: str, kind: pa.DataType) -> str:
    return f"unhex({column})" if _is_binary(kind) else _value(kind, f"CAST({column} AS JSON)")


def _value(kind: pa.DataType, value: str, depth: int = 0) -> str:
    """Returns SQL for a JSON value as one of `kind` whose single values are still text, bytes or times."""
    if pa.types.is_struct(kind):
        members = ", ".join(f"{_text(m.name)}: {_value(m.type, member(value, m.name), depth)}" for m in kind)
        names = ", ".join(_text(member.name) for member in kind)
        others = f"list_filter(json_keys({value}), lambda n{depth}: n{depth} NOT IN ({names}))"
        return (
            f"CASE coalesce(json_type({value}), 'NULL') WHEN 'NULL' THEN NULL WHEN 'OBJECT' THEN "
            f"CASE WHEN len({others}) > 0 THEN error('there is no member ' || {others}[1]) ELSE {{{members}}} END "
            f"ELSE error('no object: ' || {value}) END"
        )
    if pa.types.is_map(kind):
        pair = f"p{depth}"
        key = _value(kind.key_type, f"({pair} -> '/0')", depth + 1)
        item = _value(kind.item_type, f"({pair} -> '/1')", depth + 1)
        return (
            f"map_from_entries(list_transform(CAST({value} AS JSON[]), lambda {pair}: CASE json_array_length({pair}) "
            f"WHEN 2 THEN {{'k': {key}, 'v': {item}}} ELSE error('no pair of key and value: ' || {pair}) END))"
        )
    if pa.types.is_nested(kind):
        each = f"x{depth}"
        return f"list_transform(CAST({value} AS JSON[]), lambda {each}: {_value(kind.value_type, each, depth + 1)})"
    text = f"({value} ->> '$')"
    refused = f"WHEN json_type({value}) IN ('OBJECT', 'ARRAY') THEN error('a single value is wanted: ' || {value})"
    if pa.types.is_decimal(kind) or pa.types.is_string(kind):
        digits = f"length(regexp_replace({text}, '[^0-9]', '', 'g')) > {EXACT_DIGITS}"
        is_rounded = f"json_type({value}) = 'DOUBLE' AND regexp_matches({text}, '[.eE]') AND {digits}"
        refused += f" WHEN {is_rounded} THEN error('write it as text: ' || {value})"
    if _is_binary(kind):
        text = f"unhex({text})"
    elif pa.types.is_time(kind):
        text = f"CAST({text} AS TIME)"
    return f"CASE {refused} ELSE {text} END"


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def member(value: str, name: str) -> str:
    """Return SQL for the member `name` of a JSON object."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    return f"({value} -> {_text(pointer)})"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def error_text(error: Exception) -> str:
    """Return the first line of an error of DuckDB or Arrow."""
    return str(error).partition("\n")[0].removeprefix("Invalid Input Error: ")
