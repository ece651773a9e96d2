"""Registry of the readers of file formats: scans, and checks of files against metadata without reading data.

To add a format, declare it in `morrow.engine.format.file_formats`, put a module in `formats` that has a
`FileReader` as its `READER`, and add its name to `BUILT_IN`. In another package, register both by entry points
(`morrow.engine.plugins`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from posixpath import dirname
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, UnsafePath, Unsupported
from morrow.engine.format.file_formats import WHEELS
from morrow.engine.format.types import DataField
from morrow.engine.plan.predicate import PartCondition
from morrow.engine.plugins import FILE_READERS, load_plugin_of
from morrow.readers.files.source import Decoder, FileSource, check_rows, stream_decoder, translate_errors


class ScanFiles(Protocol):
    """Returns files of one schema as one lazy frame, as `morrow.readers.files.scan` does."""

    def __call__(
        self, sources: Sequence[FileSource], fields: Sequence[DataField], position: str | None, /
    ) -> pl.LazyFrame: ...


class Stripe(msgspec.Struct, frozen=True):
    """Decoded columns (possibly none) of `rows` consecutive rows, in the Arrow types of their fields."""

    rows: int
    columns: tuple[pa.Array, ...]


class KeyBounds(msgspec.Struct, frozen=True):
    """Bounds of a column in a range of `rows` consecutive rows that can be read separately."""

    rows: int
    low: Any
    high: Any


class SearchParts(Protocol):
    """Searches a file for a condition on parts of variants; returns None if the file has no columns of the parts.

    `names` are the names of columns in the file. `evaluate` returns which rows of parts fulfil the condition.
    """

    def __call__(
        self,
        source: FileSource,
        names: Mapping[str, str],
        condition: PartCondition,
        evaluate: Callable[[pl.DataFrame], npt.NDArray[np.bool_]],
        /,
    ) -> tuple[npt.NDArray[np.bool_], bool] | None: ...


class FileReader(msgspec.Struct, frozen=True):
    """A reader of files of one format: by `decode`, or by its own `scan`. The other functions save work.

    All raise `CorruptFile`, `Unsupported` and errors of the store. The caller turns errors of Polars and Arrow for
    damaged bytes into `CorruptFile`.
    """

    decode: Decoder | None = None
    scan: ScanFiles | None = None
    """Scans several files at once, and pushes columns and filters into the files.

    Checks the row counts of all files if positions count through them. Reads any range of rows without the rows before.
    """
    row_count: Callable[[FileSource], int] | None = None
    """Returns the row count according to the file itself, without decoding its rows."""
    stored_names: Callable[[FileSource], Sequence[str]] | None = None
    """Returns the names of the top-level columns."""
    stripes: Callable[[FileSource, Sequence[DataField]], Iterator[Stripe]] | None = None
    """Decodes to Arrow arrays, which full reads without filters return unchanged."""
    read_each: Callable[[Sequence[FileSource], Sequence[DataField]], tuple[pl.DataFrame, Sequence[int]]] | None = None
    """Reads several files at once: their rows in sequence, and the row count of each, checked against metadata."""
    key_bounds: Callable[[FileSource, str], Sequence[KeyBounds] | None] | None = None
    """Returns bounds of a column by ranges of rows, in their order; None if the file lacks bounds."""
    search_parts: SearchParts | None = None
    """Returns the rows that may fulfil a condition on parts of variants, and whether all of these rows do."""


BUILT_IN = ("parquet", "orc", "avro", "json", "csv", "text", "blob", *WHEELS, "row")
"""Formats with a module in `formats`, imported with the first file of the format."""


def find_file_reader(format_: str, where: str) -> FileReader:
    """Return the reader of a format. Raises `Unsupported` if there is none."""
    found = _load_built_in(format_) if format_ in BUILT_IN else load_plugin_of(FILE_READERS, format_, FileReader)
    if found is None:
        raise Unsupported(f"the file format {format_!r}", where=where, hint=f"known are {', '.join(BUILT_IN)}")
    return found


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


def is_scanned(format_: str, where: str) -> bool:
    """Return whether the format has its own scan, which reads a range of rows without the rows before."""
    return find_file_reader(format_, where).scan is not None


def read_stored_names(source: FileSource) -> frozenset[str]:
    """Return the top-level columns; none for formats that do not store them.

    Meant for files that were read before: little is checked.

    Raises `CorruptFile`, `FileMissing`, `StorageError`.
    """
    names = find_file_reader(source.format, source.path).stored_names
    if names is None:
        return frozenset()
    with translate_errors(source.path):
        return frozenset(names(source))


@cache
def _load_built_in(format_: str) -> FileReader:
    module = import_module(f"{__package__}.formats.{'wheel_files' if format_ in WHEELS else format_}")
    found: FileReader = module.READERS[format_] if format_ in WHEELS else module.READER
    return found


def verify(source: FileSource, *, rows: bool = False) -> None:
    """Check that the file exists with the size that metadata gives; with `rows` also its row count.

    The size costs one look-up. The row count costs one read of the footer, or of the whole file for Avro; it is not
    checked for text formats.

    Raises `FileMissing`, `CorruptFile`.
    """
    size = source.store.size(source.path)
    if size is None:
        raise FileMissing(source.path)
    if source.size and size != source.size:
        raise CorruptFile(source.path, f"has {size} bytes where metadata says {source.size}")
    if rows and (row_count := find_file_reader(source.format, source.path).row_count) is not None:
        with translate_errors(source.path):
            check_rows(source, row_count(source))


def check_place(path: str, roots: Sequence[str]) -> None:
    """Check that no link leads from a data file on a local disk to a path outside of these roots.

    The roots may be links themselves. If no folder below them is a link, this costs one look-up per folder.

    Raises `UnsafePath`: a link leads out of the roots.
    """
    base = next((root for root in roots if path.startswith(f"{root.rstrip('/')}/")), None)
    if base is None or not _has_link(path, base.rstrip("/")):
        return
    real = os.path.realpath(path)
    if not any(real.startswith(f"{os.path.realpath(root).rstrip('/')}/") for root in roots):
        raise UnsafePath(
            f"{path}: the data file is a link, or in a folder that is one, to {real}, outside of the table's folder "
            f"{base}; if you trust it, name its folder in morrow.open(..., allowed_roots=[...])"
        )


def _has_link(path: str, base: str) -> bool:
    while len(path) > len(base):
        if os.path.islink(path):  # noqa: PTH114  # a Path takes longer to make
            return True
        path = dirname(path)
    return False
