"""JSON data files: one object a line, atomic values written as text, maps as objects.

Polars decodes the lines into text, and the text is parsed column by column. A member that a line lacks is null, as in
Java. ``json.ignore-parse-errors`` makes Java turn bad lines into nulls; here they are always an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField, DataType
from morrow.engine.names import col
from morrow.engine.options.declared.files import JSON_LINE_DELIMITER
from morrow.readers.files.formats.text import MARK_IN_JSON, TEXT_TYPES, parse_values, read_lines, to_text_dtype
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource, list_member_types

FRACTION = r'("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+))'
"""A pattern of texts, and of numbers with a fraction or an exponent outside of texts."""
AFTER_A_MEMBER = r"[:\[,]\s*-?\d+[.eE]"
EDGE = "\x01"
"""A character that JSON texts contain only as an escape."""


def decode_json(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yield chunks of about 16 MiB of text."""
    document = pl.Struct({each.name: to_text_dtype(each.type) for each in fields})
    has_texts = any(_has_texts(each.type) for each in fields)
    for chunk in read_lines(source, source.given.get(JSON_LINE_DELIMITER)):
        if not fields:
            yield Chunk(len(chunk), pl.DataFrame())
            continue
        marks = has_texts and bool(chunk.str.contains(AFTER_A_MEMBER).any())
        try:
            rows = (_mark_numbers(chunk) if marks else chunk).str.json_decode(dtype=document)
        except pl.exceptions.ComputeError as error:
            raise Unsupported(f"a line that is not one JSON object ({error})", where=source.path) from error
        if len(rows) != len(chunk):  # Polars joins the lines with commas
            raise Unsupported("a line that is not one JSON object", where=source.path, hint="write an object a line")
        columns = [
            parse_values(col(each.name), each.type, source.path, marks=marks).alias(each.name) for each in fields
        ]
        yield Chunk(len(chunk), rows.struct.unnest().select(columns))


def _has_texts(type_: DataType) -> bool:
    return isinstance(type_, TEXT_TYPES) or any(map(_has_texts, list_member_types(type_)))


def _mark_numbers(chunk: pl.Series) -> pl.Series:
    """Turn numbers with a fraction or an exponent into marked texts, since Polars would shorten the numbers.

    Java writes them as doubles: ``1.0``, and ``1000.0`` for ``1e3``.
    """
    edged = chunk.str.replace_all(FRACTION, f"${{1}}{EDGE}${{2}}{EDGE}").str.replace_all(EDGE * 2, "", literal=True)
    return edged.str.replace_all(f"{EDGE}([^{EDGE}]+){EDGE}", f'"{MARK_IN_JSON}${{1}}"')


READER = FileReader(decode=decode_json)
