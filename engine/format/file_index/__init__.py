"""Data file indexes: their answers to comparisons before the data file is opened, and their encoders."""

from morrow.engine.format.file_index.builder import (
    RequestedIndex,
    build_container,
    build_index,
    find_requested_indexes,
    write_container,
)
from morrow.engine.format.file_index.container import ColumnIndex, FileIndex, read_file_index
from morrow.engine.format.file_index.row_sets import ALL, NONE, IndexResult

__all__ = [
    "ALL",
    "NONE",
    "ColumnIndex",
    "FileIndex",
    "IndexResult",
    "RequestedIndex",
    "build_container",
    "build_index",
    "find_requested_indexes",
    "read_file_index",
    "write_container",
]
