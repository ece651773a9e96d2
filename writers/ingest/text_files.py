"""Reading of CSV and JSON files with the types of a table, and inference of their column types.

The rows are read as ``morrow export`` writes them: nested values are JSON in a cell of CSV, maps are lists of
pairs, bytes are hexadecimal digits. Values are never rounded, and text is never read as null: in CSV an empty cell is
null and ``""`` is empty text. A type is inferred from all values of a column, and only if every value formats back to
the same text. Other columns stay text: with leading zeros, signs, exponents as in ``1e5``, trailing zeros of different
lengths, or more digits than a double holds.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from morrow.engine.arguments import refuse_depth
from morrow.engine.errors import InvalidArgument
from morrow.readers.expressions.sql import open_stream
from morrow.writers.ingest.store_paths import Place, copy_to_disk, open_text

EXACT_DIGITS = 15
"""Maximum digits of a fractional JSON number that DuckDB reads exactly."""
END_BYTES = 16
"""Bytes at the end of a CSV file in which the last quote is searched."""
BLOCK_BYTES = 16 << 20
"""Bytes of a CSV file that are read at a time."""
READ_ROWS = 1 << 16
"""Rows of a JSON file that are read at a time."""
GLOB = re.compile(r"[*?\[]")
"""Characters that DuckDB treats as a pattern in a file name."""
OTHER_DELIMITERS = ";\t|"
"""Delimiters that one column's name may show, if they are not the one in use."""
NO_COLUMN_NAME = re.compile(r"|[-+.]?\d[-+.,:/TZ \d]*|true|false|null|NaN|\\N", re.IGNORECASE)
"""Cells that are rather values than names of columns: the file may lack a header."""
CSV_ERRORS = (pa.ArrowException, UnicodeError, OSError)
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class CsvOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of a CSV file.

    Args:
        delimiter: one character between cells; None: a comma.
        header: whether the first line has the names of columns. None: it has, and a first line that looks like values
            is refused.
        null_values: the cells that are null, if they are not quoted.
        quote: the character around cells with delimiters; empty: none.
        encoding: a codec of Python.
    """

    delimiter: str | None = None
    header: bool | None = None
    null_values: tuple[str, ...] = ("",)
    quote: str = '"'
    encoding: str = "utf-8"

    @classmethod
    def of(cls, given: Mapping[str, object] | CsvOptions | None) -> CsvOptions:
        """Return options from a mapping. Raises `InvalidArgument` for unknown names and wrong values."""
        if isinstance(given, CsvOptions):
            return given
        try:
            made = msgspec.convert(dict(given or {}), cls)
            codecs.lookup(made.encoding)
        except (msgspec.ValidationError, TypeError, ValueError, LookupError) as error:
            names = ", ".join(cls.__struct_fields__)
            raise InvalidArgument(f"csv options {given!r}: {error}; the options are {names}") from error
        for name, text, most in (("delimiter", made.delimiter or ",", 1), ("quote", made.quote, 1)):
            if len(text) > most or not text.isascii():
                raise InvalidArgument(f"csv option {name}={text!r}: give one ASCII character")
        return made

    def open(self, file: Place, types: Mapping[str, pa.DataType] | None = None, names: Sequence[str] = ()) -> Any:
        """Return Arrow's reader of a file in blocks.

        Args:
            types: the types of columns; Arrow infers the others.
            names: the columns of a file without header, if their number is right; others get ``column_<number>``.

        Raises `InvalidArgument`: not CSV; or the first line looks like values, or has another delimiter.
        """
        found = self.read_names(file, names)
        return csv.open_csv(
            open_text(file),
            csv.ReadOptions(
                block_size=BLOCK_BYTES,
                encoding=self.encoding,
                skip_rows=0 if self.header is False else 1,
                column_names=found,
            ),
            self._parse_options(one_column=len(found) == 1),
            csv.ConvertOptions(
                column_types=types,
                null_values=list(self.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def read_names(self, file: Place, names: Sequence[str] = ()) -> list[str]:
        """Return the names of the columns. Raises as `open`."""
        with file.open("rb") as head:
            if head.read(2) in WIDE_MARKS and self.encoding == "utf-8":
                raise InvalidArgument(f"{file}: the file is UTF-16; give the encoding utf-16")
        options = csv.ReadOptions(
            encoding=self.encoding, autogenerate_column_names=self.header is False, block_size=BLOCK_BYTES
        )
        try:
            with csv.open_csv(open_text(file), options, self._parse_options()) as reader:
                found = list(reader.schema.names)
        except CSV_ERRORS as error:
            raise _make_csv_error(file, error) from error
        if self.header is False:
            return list(names) if len(names) == len(found) else [f"column_{at}" for at in range(1, len(found) + 1)]
        if twice := next((name for name in found if found.count(name) > 1), None):
            raise InvalidArgument(f"{file}: two columns {twice!r}; give each column a name of its own")
        if self.header is None and (cell := next(filter(NO_COLUMN_NAME.fullmatch, found), None)) is not None:
            raise InvalidArgument(
                f"{file}: the first line has the cell {cell!r}, which is not the name of a column; "
                "give header=False (--no-header) if it is a row, header=True (--header) if it has the names"
            )
        if self.delimiter is None and len(found) == 1:
            other = next((mark for mark in OTHER_DELIMITERS if mark in found[0]), None)
            if other is not None:
                raise InvalidArgument(f"{file}: the one column {found[0]!r}; give the delimiter, such as {other!r}")
        return found

    def _parse_options(self, one_column: bool = False) -> csv.ParseOptions:
        return csv.ParseOptions(
            delimiter=self.delimiter or ",",
            quote_char=self.quote or False,
            newlines_in_values=bool(self.quote),
            ignore_empty_lines=not one_column,  # an empty line is then a row with null
        )


def read_csv(
    file: Place, schema: pa.Schema, options: CsvOptions | None = None, names: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """Read a CSV file a block at a time; the first block is empty. Columns missing in the schema get Arrow's inferred
    types.

    Raises `InvalidArgument`: a cell does not match its column's type, or the file is not CSV.
    """
    odd = {field.name: field.type for field in schema if _is_binary(field.type) or pa.types.is_nested(field.type)}
    types = {field.name: pa.string() if field.name in odd else field.type for field in schema}
    try:
        with (options or CsvOptions()).open(file, types, names) as reader:
            names = reader.schema.names
            read = pa.schema([pa.field(name, odd.get(name, reader.schema.field(name).type)) for name in names])
            yield read.empty_table()
            blocks = _check_last_quote(
                file, (pa.Table.from_batches([batch]) for batch in reader), options or CsvOptions()
            )
            cells = {name: kind for name, kind in odd.items() if name in names}
            yield from _parse_members(blocks, cells, read) if cells else blocks
    except (duckdb.Error, *CSV_ERRORS) as error:
        raise _make_csv_error(file, error) from error


def _check_last_quote(file: Place, blocks: Iterator[pa.Table], options: CsvOptions) -> Iterator[pa.Table]:
    """Yield blocks. Raises `InvalidArgument` if the last cell has a quote without end, which Arrow ends at the file's
    end: the rows behind it would be text."""
    cell: object = None
    for block in blocks:
        cell = block.column(block.num_columns - 1)[-1].as_py() if block.num_rows else cell
        yield block
    if not options.quote or not isinstance(cell, str) or "\n" not in cell:
        return
    end = b""
    opened = open_text(file)
    with pa.input_stream(opened) if isinstance(opened, Path) else opened as text:
        while chunk := text.read(BLOCK_BYTES):
            end = (end + chunk)[-END_BYTES:]
    if not end.rstrip(b"\r\n\0").endswith(options.quote.encode()):
        first = cell.partition("\n")[0]
        raise InvalidArgument(
            f"{file}: the cell that begins with {options.quote}{first} has no second quote; "
            "add it, or give another quote character, '' for none"
        )


def _make_csv_error(file: Place, error: Exception) -> InvalidArgument:
    is_coded = isinstance(error, UnicodeError) or "UTF8" in str(error)
    hint = "; give its encoding, such as latin-1" if is_coded else ""
    if "CSV parse error" in str(error):
        hint = "; correct the line, or give the delimiter, such as ';', and the quote"
    return InvalidArgument(f"{file}: {format_error(error)}{hint}")


def _parse_members(blocks: Iterator[pa.Table], cells: Mapping[str, pa.DataType], read: pa.Schema) -> Iterator[pa.Table]:
    at = {name: f"c{number}" for number, name in enumerate(cells)}  # DuckDB ignores the case of names
    query = (
        f"SELECT {', '.join(f'{_cast_cell(at[name], kind)} AS {at[name]}' for name, kind in cells.items())} FROM block"
    )
    with closing(duckdb.connect()) as connection:
        for block in blocks:
            connection.register("block", pa.table([block[name] for name in cells], list(at.values())))
            made = connection.sql(query).to_arrow_table()
            columns = [made[at[name]] if name in cells else block[name] for name in read.names]
            yield pa.table(columns, read.names).cast(read)


def read_json(file: Place, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read a file with one JSON object per line, some rows at a time; the first block is empty. Members missing in the
    schema are text.

    Raises `InvalidArgument`: a value does not match its column's type, or the file does not exist.
    """
    _check_lines([file])
    keys = (
        "CASE WHEN json_type(json) <> 'OBJECT' THEN error('no object: ' || json) "
        "WHEN len(json_keys(json)) <> len(list_distinct(json_keys(json))) "
        "THEN error('a member is named twice: ' || json) "
        "ELSE json_keys(json) END"
    )
    try:
        with copy_to_disk([file]) as local, closing(duckdb.connect()) as connection:
            source = build_json_lines_sql(local)
            told = {name for (name,) in connection.sql(f"SELECT DISTINCT unnest({keys}) FROM {source}").fetchall()}
            others = [pa.field(name, pa.string()) for name in sorted(told.difference(schema.names))]
            fields = [pa.field(each.name, each.type) for each in schema if each.name in told or not told] + others
            cells = (
                f"{_cast_value(each.type, build_member_sql('json', each.name))} AS c{at}"
                for at, each in enumerate(fields)
            )
            made = pa.schema(fields)
            yield made.empty_table()
            if fields:
                batches = open_stream(connection.sql(f"SELECT {', '.join(cells)} FROM {source}"), READ_ROWS)
                for batch in batches:
                    yield pa.Table.from_batches([batch]).rename_columns(made.names).cast(made)
    except (duckdb.Error, pa.ArrowException) as error:
        raise _make_json_error(str(file), error) from error


def _make_json_error(where: str, error: Exception) -> InvalidArgument:
    text = format_error(error).strip().rstrip(".")
    hint = "; write one object a line, as `jq -c .` does" if text.startswith("Malformed JSON") else ""
    return InvalidArgument(f"{where}: {text}{hint}")


def _check_lines(files: Sequence[Place]) -> None:
    """Raise `InvalidArgument` if a file is one JSON array."""
    for file in files:
        with file.open("rb") as text:
            if text.read(64).lstrip()[:1] == b"[":
                raise InvalidArgument(f"{file}: one JSON array; write one object a line, as `jq -c '.[]'` makes of it")


def build_json_lines_sql(files: Sequence[Path]) -> str:
    """Return SQL that reads the lines of local JSON files into the column ``json``."""
    places = ", ".join(_quote_text(escape_pattern(file)) for file in files)
    return f"read_json_objects([{places}], format = 'newline_delimited')"


def escape_pattern(file: Path) -> str:
    """Return the path of a file as a pattern that matches it alone."""
    return GLOB.sub(r"[\g<0>]", str(file.resolve()))


def _cast_cell(column: str, kind: pa.DataType) -> str:
    return f"unhex({column})" if _is_binary(kind) else _cast_value(kind, f"CAST({column} AS JSON)")


def _cast_value(kind: pa.DataType, value: str, depth: int = 0) -> str:
    """Return SQL that casts a JSON value to `kind`, whose scalar values are still text, bytes or times."""
    if pa.types.is_struct(kind):
        members = ", ".join(
            f"{_quote_text(m.name)}: {_cast_value(m.type, build_member_sql(value, m.name), depth)}" for m in kind
        )
        names = ", ".join(_quote_text(member.name) for member in kind)
        others = f"list_filter(json_keys({value}), lambda n{depth}: n{depth} NOT IN ({names}))"
        return (
            f"CASE coalesce(json_type({value}), 'NULL') WHEN 'NULL' THEN NULL WHEN 'OBJECT' THEN "
            f"CASE WHEN len({others}) > 0 THEN error('there is no member ' || {others}[1]) ELSE {{{members}}} END "
            f"ELSE error('no object: ' || {value}) END"
        )
    if pa.types.is_map(kind):
        pair = f"p{depth}"
        key = _cast_value(kind.key_type, f"({pair} -> '/0')", depth + 1)
        item = _cast_value(kind.item_type, f"({pair} -> '/1')", depth + 1)
        return (
            f"map_from_entries(list_transform(CAST({value} AS JSON[]), lambda {pair}: CASE json_array_length({pair}) "
            f"WHEN 2 THEN {{'k': {key}, 'v': {item}}} ELSE error('no pair of key and value: ' || {pair}) END))"
        )
    if pa.types.is_nested(kind):
        each = f"x{depth}"
        return (
            f"list_transform(CAST({value} AS JSON[]), lambda {each}: {_cast_value(kind.value_type, each, depth + 1)})"
        )
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


def build_member_sql(value: str, name: str) -> str:
    """Return SQL for the member `name` of a JSON object."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    return f"({value} -> {_quote_text(pointer)})"


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def format_error(error: Exception) -> str:
    """Return the first line of an error of DuckDB or Arrow."""
    return str(error).partition("\n")[0].removeprefix("Invalid Input Error: ")


MAX_DIGITS = 38
"""Maximum digits of a Paimon decimal."""
DAY, TIME = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
WHOLE = r"0|-?[1-9]\d*"
FIXED = r"-?(0|[1-9]\d*)(\.\d+)?"
SHORTEST = r"-?(0|[1-9]\d*)(\.(0|\d*[1-9]))?(e[+-]\d+)?"
"""A number in the form in which a double is printed. ``1e5`` does not match, since it may be a name."""
NO_NUMBER = r"NaN|nan|-?inf|-?Infinity"

JSON_TEXT, JSON_NUMBER = """'"([^"\\\\]|\\\\.)*"'""", "'-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?'"
IS_WHOLE = "regexp_full_match(t, '-?[0-9]+')"
LOSES_WHOLE = "TRY_CAST(TRY_CAST(t AS DOUBLE) AS HUGEINT) IS DISTINCT FROM TRY_CAST(t AS HUGEINT)"
MANTISSA = "regexp_replace({}, '[eE].*', '')"
LOSES_FRACTION = f"{MANTISSA.format('t')} <> {MANTISSA.format('CAST(CAST(t AS DOUBLE) AS VARCHAR)')}"

Check: TypeAlias = Callable[[pa.Array, pa.DataType], bool]


def _is_cast(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_exact(texts: pa.Array, _: pa.DataType) -> bool:
    """Return whether doubles represent all texts exactly: with few digits, or the digits printed for the double."""
    digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[^0-9]|e.*", ""))
    many = texts.filter(pc.greater(digits, EXACT_DIGITS))
    printed = many.cast(pa.float64()).cast(pa.string())
    return not len(many) or bool(
        pc.all(pc.equal(printed, pc.replace_substring_regex(many, r"e([+-])0*", r"e\1"))).as_py()
    )


def _is_short(texts: pa.Array, _: pa.DataType) -> bool:
    return bool(pc.max(pc.utf8_length(pc.replace_substring_regex(texts, "[^0-9]", ""))).as_py() <= MAX_DIGITS)


@dataclass(frozen=True)
class _Guess:
    """A type for texts that match a pattern. If `counts`, all must have the same number of fractional digits."""

    pattern: str
    kind: Callable[[int], pa.DataType]
    check: Check = lambda _, __: True
    counts: bool = False


def _make_timestamp_type(zone: str | None) -> Callable[[int], pa.DataType]:
    return lambda digits: pa.timestamp("us" if digits <= len("micros") else "ns", zone)


GUESSES = (
    *(_Guess(pair, lambda _: pa.bool_()) for pair in ("true|false", "True|False", "TRUE|FALSE")),
    _Guess(WHOLE, lambda _: pa.int64(), _is_cast),
    _Guess(f"{SHORTEST}|{NO_NUMBER}", lambda _: pa.float64(), _is_exact),
    _Guess(FIXED, lambda digits: pa.decimal128(MAX_DIGITS, digits), _is_short, counts=True),
    _Guess(DAY, lambda _: pa.date32(), _is_cast),
    _Guess(TIME, lambda _: pa.time32("ms")),
    _Guess(rf"{DAY}[ T]{TIME}(\.\d{{1,9}})?", _make_timestamp_type(None), _is_cast, counts=True),
    _Guess(rf"{DAY}[ T]{TIME}(\.\d{{1,9}})?Z", _make_timestamp_type("UTC"), _is_cast, counts=True),
)
"""The types to try, in this order."""
MOMENTS = tuple(guess for guess in GUESSES if guess.pattern.startswith(DAY))
"""The types to try for text of JSON, which has numbers and booleans of its own."""


@dataclass
class _Column:
    """The guesses that fit all texts so far, and the number of fractional digits."""

    guesses: Sequence[_Guess] = GUESSES
    digits: set[int] = field(default_factory=set)
    is_empty: bool = True

    def add(self, column: pa.ChunkedArray) -> None:
        texts = pc.unique(column).drop_null()
        if not len(texts) or not self.guesses:
            self.is_empty &= not len(texts)
            return
        self.is_empty = False
        if any(guess.counts for guess in self.guesses):
            fractions = pc.replace_substring_regex(texts, r"^[^.]*\.?|[^0-9]", "")
            self.digits.update(pc.unique(pc.utf8_length(fractions)).to_pylist())
        self.guesses = [guess for guess in self.guesses if self._fits(guess, texts)]

    def _fits(self, guess: _Guess, texts: pa.Array) -> bool:
        if guess.counts and len(self.digits) > 1:
            return False
        matches = pc.match_substring_regex(texts, f"^(?:{guess.pattern})$")
        return bool(pc.all(matches).as_py()) and guess.check(texts, guess.kind(max(self.digits, default=0)))

    def type(self) -> pa.DataType:
        if self.is_empty:
            return pa.null()
        return self.guesses[0].kind(max(self.digits)) if self.guesses else pa.string()


def infer_csv_schema(files: Sequence[Place], options: CsvOptions | None = None, names: Sequence[str] = ()) -> pa.Schema:
    """Infer the columns of CSV files from all of their rows; the type null means no values.

    Raises `InvalidArgument`: a file is not CSV.
    """
    form, columns = options or CsvOptions(), dict[str, _Column]()
    for file in files:
        try:
            found = form.read_names(file, names)
            for name in found:
                columns.setdefault(name, _Column())
            with form.open(file, dict.fromkeys(found, pa.string()), names) as reader:
                for batch in reader:
                    for name, cells in zip(found, batch.columns, strict=True):
                        columns[name].add(cells)
        except CSV_ERRORS as error:
            raise _make_csv_error(file, error) from error
    return pa.schema([(name, column.type()) for name, column in columns.items()])


@refuse_depth("JSON objects are")
def infer_json_schema(files: Sequence[Place]) -> pa.Schema:
    """Infer the columns of files of JSON objects from all of their rows. The type null means no values.

    Integers beyond BIGINT become DECIMAL. Text is a date or timestamp only if all texts of a column have one form.

    Raises:
        InvalidArgument: not JSON, a column with values of several types, or a number with more digits than a double
            holds.
    """
    where = ", ".join(map(str, files[:1])) + (" and others" if len(files) > 1 else "")
    _check_lines(files)
    try:
        with copy_to_disk(files) as local, closing(duckdb.connect()) as connection:
            lines = build_json_lines_sql(local)
            [(found,)] = connection.sql(f"SELECT json_group_structure(json) FROM {lines}").fetchall()
            structure = json.loads(found or "{}")
            if not isinstance(structure, dict):
                raise InvalidArgument(f"{where}: the lines are not JSON objects")
            fields = [pa.field(name, _read_structure(kind, name, where)) for name, kind in structure.items()]
            fields = _refine_texts(connection, lines, [_widen_number(connection, lines, each) for each in fields])
            floats = [each.name for each in fields if _has_type(pa.types.is_floating, each.type)]
            if floats:
                _check_numbers(connection, lines, floats, where)
    except duckdb.Error as error:
        raise _make_json_error(where, error) from error
    return pa.schema(fields)


MAKE_FIRST = "make the table first: morrow create, or Catalog.create_table"
JSON_TYPES: Mapping[str, pa.DataType] = {
    "NULL": pa.null(),
    "BOOLEAN": pa.bool_(),
    **dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT"), pa.int64()),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
}


def _read_structure(found: object, name: str, where: str) -> pa.DataType:
    """Return the type that DuckDB's structure of a member describes."""
    if isinstance(found, dict):
        return pa.struct([(key, _read_structure(kind, f"{name}.{key}", where)) for key, kind in found.items()])
    if isinstance(found, list):
        return pa.list_(_read_structure(found[0], f"{name}[]", where))
    if found not in JSON_TYPES:
        raise InvalidArgument(f"{where}: {name!r} has values of several types; {MAKE_FIRST}")
    return JSON_TYPES[str(found)]


def _widen_number(connection: duckdb.DuckDBPyConnection, lines: str, each: pa.Field) -> pa.Field:
    """Return an integer or float column as DECIMAL if all its numbers are whole and some exceed BIGINT."""
    if not (pa.types.is_integer(each.type) or pa.types.is_floating(each.type)):
        return each
    text = f"{build_member_sql('json', each.name)} ->> '$'"
    query = (
        f"SELECT coalesce(bool_and(regexp_full_match(t, '{WHOLE}')), false), max(length(t)), "
        "coalesce(bool_and(TRY_CAST(t AS BIGINT) IS NOT NULL), true) "
        f"FROM (SELECT {text} AS t FROM {lines}) WHERE t IS NOT NULL"
    )
    [(is_whole, length, is_small)] = connection.sql(query).fetchall()
    is_decimal = is_whole and length <= MAX_DIGITS and not (is_small and pa.types.is_integer(each.type))
    return each.with_type(pa.decimal128(MAX_DIGITS, 0)) if is_decimal else each


def _refine_texts(connection: duckdb.DuckDBPyConnection, lines: str, fields: list[pa.Field]) -> list[pa.Field]:
    """Return the columns with text columns as dates or timestamps, if all of their texts are."""
    columns = {each.name: _Column(MOMENTS) for each in fields if pa.types.is_string(each.type)}
    if columns:
        cells = (f"{build_member_sql('json', name)} ->> '$' AS c{at}" for at, name in enumerate(columns))
        for batch in open_stream(connection.sql(f"SELECT {', '.join(cells)} FROM {lines}"), READ_ROWS):
            for column, texts in zip(columns.values(), batch.columns, strict=True):
                column.add(texts)
            if not any(column.guesses for column in columns.values()):
                break
    return [each.with_type(columns[each.name].type()) if each.name in columns else each for each in fields]


def _check_numbers(connection: duckdb.DuckDBPyConnection, lines: str, columns: Sequence[str], where: str) -> None:
    """Raise `InvalidArgument` for numbers that a double cannot represent exactly: all fractions, and integers of
    `columns`.

    DuckDB reformats the members of an object, so only whole lines have the original digits of fractions.
    """
    sources = [
        (
            "json",
            f"NOT {IS_WHOLE} AND (coalesce(isinf(TRY_CAST(t AS DOUBLE)), true) OR "
            f"length(regexp_replace(t, '[^0-9]', '', 'g')) > {EXACT_DIGITS} AND {LOSES_FRACTION})",
        )
    ]
    sources += [
        (build_member_sql("json", name), f"{IS_WHOLE} AND length(t) > {EXACT_DIGITS} AND {LOSES_WHOLE}")
        for name in columns
    ]
    for value, is_lost in sources:
        numbers = f"regexp_extract_all(regexp_replace(CAST({value} AS VARCHAR), {JSON_TEXT}, '', 'g'), {JSON_NUMBER})"
        query = f"SELECT t FROM (SELECT unnest({numbers}) AS t FROM {lines}) WHERE {is_lost} LIMIT 1"
        if lost := connection.sql(query).fetchall():
            raise InvalidArgument(f"{where}: a DOUBLE would lose digits of the number {lost[0][0]}; write it as text")


def _has_type(is_of: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_type(is_of, kind.field(at).type) for at in range(kind.num_fields))
    return is_of(kind)
