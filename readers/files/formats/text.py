"""Text data files (each line is the value of the only column), and parsing of lines and values for CSV and JSON.

Java writes null as an empty line, which is read as empty text, both by Java and here.

Values have the form of Java's casts to and from text. Numbers are digits; FLOAT and DOUBLE may also be ``NaN`` and
``Infinity``. BOOLEAN is ``true`` or ``false``, BINARY is base64. DATE is ``2024-02-29``, TIME is ``12:30:00.5``, and
TIMESTAMP is ``2024-02-29 12:30:00.5``. TIMESTAMP_LTZ is written in the zone of the writer's machine, which the file
does not name: it cannot be read back exactly and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.library_versions import DECODES_MAPS
from morrow.engine.names import get_member
from morrow.engine.options.declared.files import TEXT_LINE_DELIMITER
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.casts.java_strings import format_reals
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource


def decode_text(source: FileSource, fields: Sequence[t.DataField]) -> Iterator[Chunk]:
    """Yield chunks of about 16 MiB of text."""
    if len(fields) > 1 or not all(isinstance(each.type, TEXT_TYPES) for each in fields):
        raise Unsupported(
            "a text file with more than one column of text", where=source.path, hint="check file.format of the table"
        )
    delimiter = source.given.get(TEXT_LINE_DELIMITER)
    for chunk in read_lines(source, delimiter):
        yield Chunk(len(chunk), pl.DataFrame([chunk.alias(each.name) for each in fields]))


READER = FileReader(decode=decode_text)

CHUNK_BYTES = 1 << 24
"""Bytes of text that are decoded at a time."""
NEWLINE = b"\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Arrow codec of each file name extension that Paimon's writers append."""
UNREADABLE_CODECS = frozenset({"deflate", "snappy", "lz4", "lzo"})
"""Extensions of Hadoop framings that no library here decodes."""


def open_decompressed(source: FileSource) -> BinaryIO | pa.NativeFile:
    """Open the text of a file as a stream; the extension gives the compression.

    Raises `Unsupported`: a Hadoop framing of snappy, lz4, lzo or deflate.
    """
    extension = source.path.rpartition(".")[2]
    if extension in UNREADABLE_CODECS:
        raise Unsupported(f"text compressed with {extension}", where=source.path)
    stream = source.store.open(source.path)
    return pa.CompressedInputStream(stream, CODECS[extension]) if extension in CODECS else stream


def read_lines(source: FileSource, delimiter: str) -> Iterator[pl.Series]:
    r"""Yield lines of a text file in chunks, without their ends, as a String series named ``line``.

    The delimiter ``"\n"`` stands for ``\n``, ``\r`` and ``\r\n``, and a byte order mark is then skipped.

    Raises:
        pa.ArrowInvalid: not UTF-8.
        OSError: damaged compression.
    """
    ending = delimiter.encode()
    rest = b""
    with open_decompressed(source) as stream:
        first = True
        while piece := bytes(stream.read(CHUNK_BYTES)):
            if first and ending == NEWLINE:
                piece = piece.removeprefix(BYTE_ORDER_MARK)
            first = False
            complete, found, rest = _normalize_line_ends(rest + piece, ending).rpartition(ending)
            if found:
                yield _split(complete, delimiter)
    if rest := rest.replace(b"\r", NEWLINE) if ending == NEWLINE else rest:
        yield _split(rest.removesuffix(NEWLINE) if ending == NEWLINE else rest, delimiter)


def _normalize_line_ends(text: bytes, ending: bytes) -> bytes:
    """Replace line ends by one newline each; a carriage return at the very end may be half of one and stays."""
    if ending != NEWLINE or b"\r" not in text:
        return text
    body, last = (text[:-1], b"\r") if text.endswith(b"\r") else (text, b"")
    return body.replace(b"\r\n", NEWLINE).replace(b"\r", NEWLINE) + last


def _split(text: bytes, delimiter: str) -> pl.Series:
    whole = pa.array([text], pa.large_binary()).cast(pa.large_string())
    return pl.Series("line", pl.from_arrow(pc.split_pattern(whole, delimiter).flatten()), dtype=pl.String)


DATE_FORMAT = "%Y-%m-%d"
TIME_FORMAT = "%H:%M:%S%.f"
TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S%.f"
BOOLEANS = {"true": True, "false": False}

TEXT_TYPES = (t.CharType, t.VarCharType)

MARK, MARK_IN_JSON = "\x01number ", r"\u0001number "
"""Marker before the text of a number that a JSON document has instead of a text."""


def to_text_dtype(type_: t.DataType) -> pl.DataType:
    """Return the dtype of `type_` with text for every atomic type, to which a JSON document is decoded."""
    if isinstance(type_, t.RowType):
        return pl.Struct({member.name: to_text_dtype(member.type) for member in type_.fields})
    if isinstance(type_, (t.ArrayType, t.VectorType)):
        return pl.List(to_text_dtype(type_.element))
    if isinstance(type_, t.MapType):
        if not DECODES_MAPS:
            raise Unsupported(f"{type_} in JSON with Polars {pl.__version__}", hint="run: pip install 'polars>=2'")
        return pl.Map(pl.String(), to_text_dtype(type_.value))
    return pl.String()


def parse_values(text: pl.Expr, type_: t.DataType, where: str, *, marks: bool = False) -> pl.Expr:
    """Parse values of `type_` from text of `to_text_dtype(type_)`; text that does not parse fails when collected.

    With `marks` text may begin with `MARK`, which marks the text of a number.

    Raises `Unsupported`: TIMESTAMP_LTZ, and types that Paimon's text formats cannot write.
    """
    if isinstance(type_, t.RowType):
        names = [m.name for m in type_.fields]
        members = [
            parse_values(get_member(text, m.name, names), m.type, where, marks=marks).alias(m.name)
            for m in type_.fields
        ]
        return pl.when(text.is_not_null()).then(pl.struct(members))
    if isinstance(type_, (t.ArrayType, t.VectorType)):
        return text.list.eval(parse_values(pl.element(), type_.element, where, marks=marks)).cast(
            to_polars_dtype(type_)
        )
    if isinstance(type_, t.MapType):
        return _parse_entries(text, type_, where, marks=marks)
    parser = _PARSERS.get(type(type_))
    if parser is None:
        raise Unsupported(f"the type {type_} in a text format", where=where)
    if marks:
        text = _to_double_text(text) if isinstance(type_, TEXT_TYPES) else text.str.strip_prefix(MARK)
    return parser(text, type_)


def _to_double_text(text: pl.Expr) -> pl.Expr:
    """Return the text; marked numbers become Java's text of the double."""
    number = text.str.strip_prefix(MARK).cast(pl.Float64, strict=False)
    written = number.map_batches(lambda series: format_reals(series, t.DoubleType()), return_dtype=pl.String())
    return pl.when(text.str.starts_with(MARK)).then(written).otherwise(text)


def _parse_entries(text: pl.Expr, type_: t.MapType, where: str, *, marks: bool) -> pl.Expr:
    if not isinstance(type_.key, (*TEXT_TYPES, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)):
        # Java writes keys of other types in their internal form and cannot read them back itself.
        raise Unsupported(f"the map key type {type_.key} in a text format", where=where)
    plain = pl.List(pl.Struct({"key": pl.String(), "value": to_text_dtype(type_.value)}))
    entry = pl.struct(
        parse_values(pl.element().struct.field("key"), type_.key, where).alias("key"),
        parse_values(pl.element().struct.field("value"), type_.value, where, marks=marks).alias("value"),
    )
    return text.cast(plain).list.eval(entry)


def _cast(text: pl.Expr, type_: t.DataType) -> pl.Expr:
    return text.cast(to_polars_dtype(type_))


def _parse_timestamp(text: pl.Expr, type_: Any) -> pl.Expr:
    dtype = to_polars_dtype(type_)
    assert isinstance(dtype, pl.Datetime)
    return text.str.to_datetime(TIMESTAMP_FORMAT, time_unit=dtype.time_unit, strict=True)


_PARSERS: dict[type[t.DataType], Callable[[pl.Expr, Any], pl.Expr]] = {
    t.CharType: lambda text, _: text,
    t.VarCharType: lambda text, _: text,
    t.BinaryType: lambda text, _: text.str.decode("base64"),
    t.VarBinaryType: lambda text, _: text.str.decode("base64"),
    t.BooleanType: lambda text, _: text.str.to_lowercase().replace_strict(BOOLEANS, return_dtype=pl.Boolean),
    t.DateType: lambda text, _: text.str.to_date(DATE_FORMAT),
    t.TimeType: lambda text, _: text.str.to_time(TIME_FORMAT),
    t.TimestampType: _parse_timestamp,
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _cast),
    **dict.fromkeys((t.FloatType, t.DoubleType, t.DecimalType), _cast),
}
