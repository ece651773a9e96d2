r"""CSV data files: no header by default, ``\`` escapes, base64 for bytes, the null literal is empty text.

Files are read by Arrow as text and parsed column by column. In two cases Java is more lenient where Morrow reports a
corrupt file: ``csv.mode`` (``permissive``, ``dropmalformed``) makes Java drop or blank values that do not parse, and
Java reads lines with too few or too many values. CSV files do not name their columns; `FileSource.columns` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.names import col
from morrow.engine.options import Options
from morrow.engine.options.declared import formats
from morrow.readers.files.formats.text_lines import CHUNK_BYTES, decompressed
from morrow.readers.files.formats.text_values import parsed
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource

DISABLED = frozenset({"", "\0"})


def decode_csv(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yields chunks of about 16 MiB of text."""
    names = source.columns or tuple(each.name for each in fields)
    if missing := [each.name for each in fields if each.name not in names]:
        raise CorruptFile(source.path, f"has no column {missing[0]!r}; its columns are {', '.join(names)}")
    given = source.given
    if given.get(formats.CSV_LINE_DELIMITER) not in ("\n", "\r\n", "\r"):
        raise Unsupported("a csv.line-delimiter other than a line break", where=source.path)
    columns = [parsed(col(each.name), each.type, source.path).alias(each.name) for each in fields]
    wanted = [each.name for each in fields] or [names[0]]
    with decompressed(source) as stream:
        try:
            batches = arrow_csv.open_csv(
                stream,
                read_options=_read_options(names, given.get(formats.CSV_INCLUDE_HEADER)),
                parse_options=_parse_options(given),
                convert_options=_convert_options(wanted, given.get(formats.CSV_NULL_LITERAL)),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise
        for batch in batches:
            yield Chunk(batch.num_rows, pl.DataFrame(pl.from_arrow(batch)).select(columns))


def _read_options(names: Sequence[str], header: bool) -> arrow_csv.ReadOptions:
    return arrow_csv.ReadOptions(column_names=list(names), skip_rows=int(header), block_size=CHUNK_BYTES)


def _parse_options(given: Options) -> arrow_csv.ParseOptions:
    delimiter, quote = given.get(formats.CSV_FIELD_DELIMITER), given.get(formats.CSV_QUOTE_CHARACTER)
    escape = given.get(formats.CSV_ESCAPE_CHARACTER)
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


READER = FileReader(decode=decode_csv)
