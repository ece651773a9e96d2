"""Data files as lazy frames: one module per file format behind one function, `scan`."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.readers.files.registry import FileReader, check_place, find_file_reader, verify
from morrow.readers.files.source import Chunk, FileSource, stream_decoder, translate_errors

__all__ = ["Chunk", "FileReader", "FileSource", "check_place", "scan", "translate_errors", "verify"]


def scan(sources: Sequence[FileSource], fields: Sequence[DataField], *, position: str | None = None) -> pl.LazyFrame:
    """Scan files of one format and schema as a lazy frame with exactly `fields`, in their order.

    `fields` are columns with their names in the files. Their dtypes follow `to_polars_dtype`: maps and multisets are
    lists of struct{key, value}. With `position` a last column of that name holds the row's 0-based position as an
    unsigned integer, counted through all sources in their order. Several sources must have known row counts.

    Collect inside `translate_errors(...)`, which turns Polars' errors for a bad file into Morrow's.

    Raises:
        InvalidArgument: no source, several formats, or positions through files of unknown row counts.
        Unsupported: a format that Morrow does not read.
        CorruptFile, FileMissing, StorageError: when the frame is collected, or at once for Parquet with positions.
    """
    formats = {source.format for source in sources}
    if len(formats) != 1:
        raise InvalidArgument(f"a scan reads files of one format, not {sorted(formats)}")
    if position is not None and len(sources) > 1 and any(source.row_count < 0 for source in sources):
        raise InvalidArgument("positions through several files need their row counts")
    (format_,) = formats
    found = find_file_reader(format_, sources[0].path)
    if found.scan is not None:
        return found.scan(sources, fields, position)
    if found.decode is None:
        raise Unsupported(f"the file format {format_!r}", where=sources[0].path, hint="its reader decodes nothing")
    return stream_decoder(found.decode, sources, fields, position)
