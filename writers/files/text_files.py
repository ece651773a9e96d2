"""CSV, JSON and text files of format tables, as Java writes them: each value as its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.names import col
from morrow.engine.options.declared import formats
from morrow.engine.options.given import Options
from morrow.readers.casts.real_text import real_texts

QUOTED = '"'
TIMESTAMP = "%Y-%m-%d %H:%M:%S%.f"
Fields = Sequence[t.DataField]
Encode = Callable[[pl.DataFrame], bytes]


def csv_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Returns what makes a CSV file. Raises `Unsupported` for a type or an option that it does not write."""
    _check(fields, where)
    delimiter, null = given.get(formats.CSV_FIELD_DELIMITER), given.get(formats.CSV_NULL_LITERAL)
    line, quote = given.get(formats.CSV_LINE_DELIMITER), given.get(formats.CSV_QUOTE_CHARACTER)
    escape = given.get(formats.CSV_ESCAPE_CHARACTER)
    if line != "\n" or len(quote) != 1 or len(escape) != 1 or quote == "\0" or escape == "\0" or len(delimiter) != 1:
        raise Unsupported("writing CSV without quotes, escapes or lines", where=where, hint="keep those of Paimon")
    special = [delimiter, quote, escape]
    if any(each in null for each in (*special, "\n", "\r")):
        raise Unsupported(f"writing CSV with the null literal {null!r}", where=where, hint="set csv.null-literal")

    def encode(frame: pl.DataFrame) -> bytes:
        texts = [_text(frame.get_column(each.name), each.type) for each in fields]
        for series in texts:
            _refuse(series, series == null, f"the text {null!r} would be read as null; set csv.null-literal", where)
            _refuse(series, series.str.contains(r"[\r\n]"), "CSV holds no line breaks; choose JSON or Parquet", where)
        written = []
        for name in map(str, range(len(texts))):
            value = col(name)
            escaped = value.str.replace_all(escape, escape * 2, literal=True)
            escaped = escaped.str.replace_all(quote, escape + quote, literal=True)
            # Java takes a line of blanks for nulls.
            needs = value.str.contains_any(special) | ((value != "") & (value.str.strip_chars() == ""))
            quoted = pl.concat_str([pl.lit(quote), escaped, pl.lit(quote)])
            written.append(pl.when(needs).then(quoted).otherwise(value).fill_null(null).alias(name))
        rows = pl.DataFrame({str(at): series for at, series in enumerate(texts)}).select(
            pl.concat_str(written, separator=delimiter)
        )
        lines = rows.to_series().to_list()
        if given.get(formats.CSV_INCLUDE_HEADER):
            lines.insert(0, delimiter.join(each.name for each in fields))
        return "".join(f"{each}\n" for each in lines).encode()

    return encode


def json_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Returns what makes a JSON file: an object a line. Raises `Unsupported` for a type that it does not write."""
    _check(fields, where)
    line = given.get(formats.JSON_LINE_DELIMITER)

    def encode(frame: pl.DataFrame) -> bytes:
        texts = {each.name: _text(frame.get_column(each.name), each.type) for each in fields}
        rows = pl.DataFrame({"row": pl.DataFrame(texts).to_struct("row")})
        lines = rows.select(col("row").struct.json_encode()).to_series().to_list()
        return "".join(f"{each}{line}" for each in lines).encode()

    return encode


def text_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Returns what makes a text file: its one column as lines. Raises `Unsupported` for other columns."""
    del given
    if len(fields) != 1 or not isinstance(fields[0].type, t.VarCharType):
        raise Unsupported("a text file of other columns than one STRING", where=where)

    def encode(frame: pl.DataFrame) -> bytes:
        series = frame.get_column(fields[0].name)
        _refuse(series, series.is_null(), "a text file holds no null", where)
        _refuse(series, series.str.contains(r"[\r\n]"), "a line of text holds no line breaks", where)
        return "".join(f"{each}\n" for each in series.to_list()).encode()

    return encode


TEXT_ENCODERS: Mapping[str, Callable[[Fields, Options, str], Encode]] = {
    "csv": csv_encoder,
    "json": json_encoder,
    "text": text_encoder,
}


def _check(fields: Fields, where: str) -> None:
    for each in fields:
        if type(each.type) not in _TEXTS:
            raise Unsupported(f"the type {each.type} in a text format", where=where, hint="choose Parquet or ORC")


def _text(series: pl.Series, kind: t.DataType) -> pl.Series:
    return _TEXTS[type(kind)](series, kind)


def _refuse(series: pl.Series, found: pl.Series, why: str, where: str) -> None:
    if found.any():
        raise InvalidArgument(f"{where}, column {series.name!r}: {why}")


def _plain(series: pl.Series, _: t.DataType) -> pl.Series:
    return series.cast(pl.String)


_TEXTS: dict[type[t.DataType], Callable[[pl.Series, t.DataType], pl.Series]] = {
    **dict.fromkeys((t.CharType, t.VarCharType, t.BooleanType, t.DecimalType, t.DateType), _plain),
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _plain),
    **dict.fromkeys((t.FloatType, t.DoubleType), real_texts),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), lambda series, _: series.bin.encode("base64")),
    t.TimestampType: lambda series, _: series.dt.strftime(TIMESTAMP),
}
