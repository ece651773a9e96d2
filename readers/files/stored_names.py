"""The names of the columns that a data file holds, for formats that store them."""

from __future__ import annotations

from morrow.readers.files.registry import file_reader
from morrow.readers.files.source import FileSource, reading


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
