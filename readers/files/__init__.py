"""Data files as lazy frames: one module per file format behind one function, `scan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.readers.files.checks import check_place, verify
from morrow.readers.files.parquet import scan_parquet
from morrow.readers.files.source import Chunk, Decoder, FileSource, reading, streamed

__all__ = ["DECODERS", "FileSource", "check_place", "reading", "scan", "verify"]


def _decoder(format_: str) -> Decoder:
    """Returns `decode_<format>` of the module of that name, which is imported with the first file of its format."""

    def decode(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
        decoder: Decoder = getattr(import_module(f"{__name__}.{format_}"), f"decode_{format_}")
        return decoder(source, fields)

    return decode


DECODERS = {format_: _decoder(format_) for format_ in ("avro", "blob", "csv", "json", "orc", "text")}
"""Formats that are decoded chunk by chunk; Parquet is scanned by Polars itself."""


def scan(
    sources: Sequence[FileSource],
    fields: Sequence[DataField],
    *,
    position: str | None = None,
    row_groups: Sequence[int] | None = None,
) -> pl.LazyFrame:
    """Scans files of one format and schema as a lazy frame with exactly `fields`, in their order.

    `fields` are columns as the files have them (names in the file). Their dtypes are those of `polars_dtype`: maps
    and multisets are lists of struct{key, value}. With `position` a last column of that name holds the
    row's 0-based position as an unsigned integer, counted through all sources in their order; their row counts must be
    known if there are several. `row_groups` restricts a Parquet file to some of its row groups.

    Collect inside `reading(...)`, which turns Polars' errors for a bad file into Morrow's.

    Raises:
        InvalidArgument: no source, several formats, or positions through files of unknown row counts.
        Unsupported: a format that Morrow does not read.
        CorruptFile, FileMissing, StorageError: when the frame is collected; of Parquet files with positions at once.
    """
    formats = {source.format for source in sources}
    if len(formats) != 1:
        raise InvalidArgument(f"a scan reads files of one format, not {sorted(formats)}")
    if position is not None and len(sources) > 1 and any(source.row_count < 0 for source in sources):
        raise InvalidArgument("positions through several files need their row counts")
    (format_,) = formats
    if format_ == "parquet":
        return scan_parquet(sources, fields, position, row_groups)
    if row_groups is not None:
        raise InvalidArgument(f"row groups are a thing of Parquet, not of {format_}")
    if format_ not in DECODERS:
        known = ", ".join(["parquet", *DECODERS])
        raise Unsupported(f"the file format {format_!r}", where=sources[0].path, hint=f"known are {known}")
    return streamed(DECODERS[format_], sources, fields, position)
