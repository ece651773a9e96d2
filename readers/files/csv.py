r"""CSV data files: no header by default, ``\`` escapes, base64 for bytes, the null literal is empty text.

Read by Arrow as text and parsed column by column. Two places where Java is more forgiving and Morrow reports a
corrupt file: ``csv.mode`` (``permissive``, ``dropmalformed``) makes Java drop or blank what does not parse, and Java
reads lines with too few or too many values. CSV files do not name their columns: `FileSource.columns` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.types import DataField
from morrow.readers.files.source import Chunk, FileSource
from morrow.readers.files.text_lines import CHUNK_BYTES, decompressed
from morrow.readers.files.text_values import parsed

FIELD_DELIMITER = ("csv.field-delimiter", "field-delimiter", "seq", "delimiter")
LINE_DELIMITER = ("csv.line-delimiter", "lineSep")
QUOTE = ("csv.quote-character", "quote")
ESCAPE = ("csv.escape-character", "escape")
HEADER = ("csv.include-header", "header")
NULL_LITERAL = ("csv.null-literal", "nullvalue")
"""Option names with their fallbacks, as in Paimon."""
DISABLED = frozenset({"", "\0"})


def decode_csv(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Chunks of about 16 MiB of text."""
    names = source.columns or tuple(each.name for each in fields)
    if missing := [each.name for each in fields if each.name not in names]:
        raise CorruptFile(source.path, f"has no column {missing[0]!r}; its columns are {', '.join(names)}")
    options = source.options
    if _option(options, LINE_DELIMITER, "\n") not in ("\n", "\r\n", "\r"):
        raise Unsupported("a csv.line-delimiter other than a line break", where=source.path)
    columns = [parsed(pl.col(each.name), each.type, source.path).alias(each.name) for each in fields]
    wanted = [each.name for each in fields] or [names[0]]
    with decompressed(source) as stream:
        try:
            batches = arrow_csv.open_csv(
                stream,
                read_options=_read_options(names, _option(options, HEADER, "false").lower() == "true"),
                parse_options=_parse_options(options),
                convert_options=_convert_options(wanted, _option(options, NULL_LITERAL, "")),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise
        for batch in batches:
            yield Chunk(batch.num_rows, pl.DataFrame(pl.from_arrow(batch)).select(columns))


def _option(options: Mapping[str, str], keys: Sequence[str], default: str) -> str:
    return next((options[key] for key in keys if key in options), default)


def _read_options(names: Sequence[str], header: bool) -> arrow_csv.ReadOptions:
    return arrow_csv.ReadOptions(column_names=list(names), skip_rows=int(header), block_size=CHUNK_BYTES)


def _parse_options(options: Mapping[str, str]) -> arrow_csv.ParseOptions:
    delimiter, quote = _option(options, FIELD_DELIMITER, ","), _option(options, QUOTE, '"')
    escape = _option(options, ESCAPE, "\\")
    return arrow_csv.ParseOptions(
        delimiter=delimiter[0],
        quote_char=False if quote in DISABLED else quote[0],
        escape_char=False if escape in DISABLED else escape[0],
        double_quote=True,
        newlines_in_values=False,
        ignore_empty_lines=False,
    )


def _convert_options(names: Sequence[str], null_literal: str) -> arrow_csv.ConvertOptions:
    return arrow_csv.ConvertOptions(
        include_columns=list(names),
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[null_literal],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
