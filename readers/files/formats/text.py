"""Text data files: each line is the value of the only column.

Java writes null as an empty line and reads that as empty text; so does this reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.options.declared.formats import TEXT_LINE_DELIMITER
from morrow.readers.files.formats.text_lines import lines
from morrow.readers.files.formats.text_values import TEXT_TYPES
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource


def decode_text(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yields chunks of about 16 MiB of text."""
    if len(fields) > 1 or not all(isinstance(each.type, TEXT_TYPES) for each in fields):
        raise Unsupported(
            "a text file with more than one column of text", where=source.path, hint="check file.format of the table"
        )
    delimiter = source.given.get(TEXT_LINE_DELIMITER)
    for chunk in lines(source, delimiter):
        yield Chunk(len(chunk), pl.DataFrame([chunk.alias(each.name) for each in fields]))


READER = FileReader(decode=decode_text)
