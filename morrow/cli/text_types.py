"""Types of the columns of CSV and JSON files, from all of their values.

A type is chosen only if it gives back each text that it is made of. Others stay text: leading zeros, signs, exponents
as in ``1e5``, trailing zeros of different lengths, digits that no double holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from morrow.cli.text_rows import BLOCK_BYTES, CSV_TEXTS, EXACT_DIGITS, error_text, json_lines, member
from morrow.engine.errors import InvalidArgument

MAX_DIGITS = 38
"""The digits of Paimon's largest decimals."""
DAY, TIME = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
WHOLE = r"0|-?[1-9]\d*"
FIXED = r"-?(0|[1-9]\d*)(\.\d+)?"
SHORTEST = r"-?(0|[1-9]\d*)(\.(0|\d*[1-9]))?(e[+-]\d+)?"
"""A number as it is printed from a double. ``1e5`` is none of these: it may be a name."""
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
    """Return whether all texts are digits of a double: few of them, or those that the double is printed with."""
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
    """A type for texts of a pattern, all with the same number of digits after the point if it `counts` these."""

    pattern: str
    kind: Callable[[int], pa.DataType]
    check: Check = lambda _, __: True
    counts: bool = False


def _moment(zone: str | None) -> Callable[[int], pa.DataType]:
    return lambda digits: pa.timestamp("us" if digits <= len("micros") else "ns", zone)


GUESSES = (
    *(_Guess(pair, lambda _: pa.bool_()) for pair in ("true|false", "True|False", "TRUE|FALSE")),
    _Guess(WHOLE, lambda _: pa.int64(), _is_cast),
    _Guess(f"{SHORTEST}|{NO_NUMBER}", lambda _: pa.float64(), _is_exact),
    _Guess(FIXED, lambda digits: pa.decimal128(MAX_DIGITS, digits), _is_short, counts=True),
    _Guess(DAY, lambda _: pa.date32(), _is_cast),
    _Guess(TIME, lambda _: pa.time32("ms")),
    _Guess(rf"{DAY}[ T]{TIME}(\.\d{{1,9}})?", _moment(None), _is_cast, counts=True),
    _Guess(rf"{DAY}[ T]{TIME}(\.\d{{1,9}})?Z", _moment("UTC"), _is_cast, counts=True),
)
"""The types that are tried, from the first on."""


@dataclass
class _Column:
    """The guesses that fit all texts so far, and the digits after the point that they have."""

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


def csv_schema(file: Path) -> pa.Schema:
    """Return the columns of a CSV file; null: those without any value. Raises `InvalidArgument`: no CSV."""
    options = csv.ReadOptions(block_size=BLOCK_BYTES)
    try:
        with csv.open_csv(file, options) as reader:
            names = reader.schema.names
        texts = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **CSV_TEXTS)
        columns = [_Column() for _ in names]
        with csv.open_csv(file, options, convert_options=texts) as reader:
            for batch in reader:
                for column, cells in zip(columns, batch.columns, strict=True):
                    column.add(cells)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{file}: {error}") from error
    return pa.schema([(name, column.type()) for name, column in zip(names, columns, strict=True)])


def json_schema(file: Path) -> pa.Schema:
    """Return the columns of a file of JSON objects, as Arrow finds them in its first block; null: none has a value.

    Whole numbers beyond BIGINT become DECIMAL. Texts that Arrow takes for moments stay texts unless all have one form.

    Raises:
        InvalidArgument: a number with more digits than a double holds.
        pa.ArrowInvalid: no JSON, or values of two types.
    """
    import pyarrow.dataset as ds

    found, lines = ds.dataset(file, format="json").schema, json_lines(file)
    try:
        with closing(duckdb.connect()) as connection:
            fields = [_json_field(connection, lines, each) for each in found]
            if any(_holds(pa.types.is_floating, each.type) for each in fields):
                columns = [each.name for each in fields if _holds(pa.types.is_floating, each.type)]
                _check_numbers(connection, lines, columns, file)
    except duckdb.Error as error:
        raise InvalidArgument(f"{file}: {error_text(error)}") from error
    return pa.schema(fields)


def _json_field(connection: duckdb.DuckDBPyConnection, lines: str, each: pa.Field) -> pa.Field:
    texts = f"SELECT DISTINCT {member('json', each.name)} ->> '$' AS text FROM {lines} ORDER BY text NULLS LAST"
    if pa.types.is_nested(each.type):
        return each.with_type(_without_moments(each.type))
    if pa.types.is_timestamp(each.type):
        column = _Column()
        column.add(connection.sql(texts).to_arrow_table()["text"])
        return each.with_type(column.type())
    if pa.types.is_floating(each.type):
        whole = (
            f"SELECT coalesce(bool_and(regexp_full_match(text, '{WHOLE}')), false), max(length(text)) FROM ({texts})"
        )
        [(is_whole, length)] = connection.sql(whole).fetchall()
        if is_whole and length <= MAX_DIGITS:
            return each.with_type(pa.decimal128(MAX_DIGITS, 0))
    return each


def _check_numbers(connection: duckdb.DuckDBPyConnection, lines: str, columns: Sequence[str], file: Path) -> None:
    """Raise `InvalidArgument` for a number that a double does not give back: any fraction, and integers of `columns`.

    DuckDB prints the members of an object anew, so that only a whole line has the digits of fractions.
    """
    sources = [
        (
            "json",
            f"NOT {IS_WHOLE} AND length(regexp_replace(t, '[^0-9]', '', 'g')) > {EXACT_DIGITS} AND {LOSES_FRACTION}",
        )
    ]
    sources += [
        (member("json", name), f"{IS_WHOLE} AND length(t) > {EXACT_DIGITS} AND {LOSES_WHOLE}") for name in columns
    ]
    for value, is_lost in sources:
        numbers = f"regexp_extract_all(regexp_replace(CAST({value} AS VARCHAR), {JSON_TEXT}, '', 'g'), {JSON_NUMBER})"
        query = f"SELECT t FROM (SELECT unnest({numbers}) AS t FROM {lines}) WHERE {is_lost} LIMIT 1"
        if lost := connection.sql(query).fetchall():
            raise InvalidArgument(f"{file}: a DOUBLE would lose digits of the number {lost[0][0]}; write it as text")


def _holds(is_of: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds(is_of, kind.field(at).type) for at in range(kind.num_fields))
    return is_of(kind)


def _without_moments(kind: pa.DataType) -> pa.DataType:
    """Return a type whose members and items are texts where Arrow takes them for moments."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_without_moments(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_moments(kind.value_type)))
    return pa.string() if pa.types.is_timestamp(kind) else kind
