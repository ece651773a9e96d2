"""The readers of file formats: built in, or registered by other packages.

To add a format: declare it in `morrow.engine.format.file_formats`, put a module in `formats` that has a
`FileReader` as its `READER`, and its name in `BUILT_IN`. In another package, register both by entry points
(`morrow.engine.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.plugins import FILE_READERS, plugin_of
from morrow.readers.files.source import Decoder, FileSource, reading


class ScanFiles(Protocol):
    """Returns files of one schema as one lazy frame, as `morrow.readers.files.scan` does."""

    def __call__(
        self, sources: Sequence[FileSource], fields: Sequence[DataField], position: str | None, /
    ) -> pl.LazyFrame: ...


class Stripe(msgspec.Struct, frozen=True):
    """Decoded columns, perhaps none, of `rows` consecutive rows, in the Arrow types of their fields."""

    rows: int
    columns: tuple[pa.Array, ...]


class KeyBounds(msgspec.Struct, frozen=True):
    """Bounds of a column in a range of `rows` consecutive rows, which can be read apart from the others."""

    rows: int
    low: Any
    high: Any


class FileReader(msgspec.Struct, frozen=True):
    """The way files of a format are read: by `decode`, or by a `scan` of their own. The other functions save work.

    All raise `CorruptFile`, `Unsupported` and errors of the store; what Polars or Arrow raise for damaged bytes is
    turned into `CorruptFile` by the caller.
    """

    decode: Decoder | None = None
    scan: ScanFiles | None = None
    """Scans several files at once, checks the row counts of all where positions count through them, pushes columns and
    filters into the files, and reads any range of rows without those before it."""
    row_count: Callable[[FileSource], int] | None = None
    """Returns the row count according to the file itself, without decoding its rows."""
    stored_names: Callable[[FileSource], Sequence[str]] | None = None
    """Returns the names of the top-level columns."""
    stripes: Callable[[FileSource, Sequence[DataField]], Iterator[Stripe]] | None = None
    """Decodes to Arrow arrays: full reads without filters take them as they are."""
    read_each: Callable[[Sequence[FileSource], Sequence[DataField]], tuple[pl.DataFrame, Sequence[int]]] | None = None
    """Reads several files at once: the rows of one after another, and how many each has, held against its metadata."""
    key_bounds: Callable[[FileSource, str], Sequence[KeyBounds] | None] | None = None
    """Returns bounds of a column by ranges of rows, in their order; None where the file does not hold them."""


BUILT_IN = ("parquet", "orc", "avro", "json", "csv", "text", "blob")
"""Formats with a module of their name in `formats`, imported with the first file of the format."""


def file_reader(format_: str, where: str) -> FileReader:
    """Returns the reader of a format. Raises `Unsupported`: there is none."""
    found = _built_in(format_) if format_ in BUILT_IN else plugin_of(FILE_READERS, format_, FileReader)
    if found is None:
        raise Unsupported(f"the file format {format_!r}", where=where, hint=f"known are {', '.join(BUILT_IN)}")
    return found


def is_scanned(format_: str, where: str) -> bool:
    """Returns whether files of the format have a scan of their own, which reads rows without those before them."""
    return file_reader(format_, where).scan is not None


def stored_names(source: FileSource) -> frozenset[str]:
    """Returns the top-level columns; none for formats that do not store them.

    Meant for files that were read before: little is checked.

    Raises:
        CorruptFile, FileMissing, StorageError.
    """
    names = file_reader(source.format, source.path).stored_names
    if names is None:
        return frozenset()
    with reading(source.path):
        return frozenset(names(source))


@cache
def _built_in(format_: str) -> FileReader:
    found: FileReader = import_module(f"{__package__}.formats.{format_}").READER
    return found
