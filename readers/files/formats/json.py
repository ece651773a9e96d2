"""JSON data files: one object a line, atomic values written as text, maps as objects.

Polars decodes the lines into text, and the text is parsed column by column. A member that a line lacks is null, as in
Java. ``json.ignore-parse-errors`` makes Java turn bad lines into nulls; here they are always an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.types import DataField
from morrow.engine.names import col
from morrow.engine.options.declared.formats import JSON_LINE_DELIMITER
from morrow.readers.files.formats.text_lines import lines
from morrow.readers.files.formats.text_values import parsed, text_dtype
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource


def decode_json(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yields chunks of about 16 MiB of text."""
    document = pl.Struct({each.name: text_dtype(each.type) for each in fields})
    columns = [parsed(col(each.name), each.type, source.path).alias(each.name) for each in fields]
    for chunk in lines(source, source.given.get(JSON_LINE_DELIMITER)):
        if fields:
            rows = chunk.str.json_decode(dtype=document)
            if len(rows) != len(chunk):  # Polars joins the lines by commas
                raise CorruptFile(source.path, "a line holds not one JSON object")
            yield Chunk(len(chunk), rows.struct.unnest().select(columns))
        else:
            yield Chunk(len(chunk), pl.DataFrame())


READER = FileReader(decode=decode_json)
