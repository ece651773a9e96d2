"""Data file indexes: their answers to comparisons before the data file is opened, and their encoders."""

from morrow.engine.format.file_index.container import ColumnIndex, FileIndex, read_file_index
from morrow.engine.format.file_index.container_encode import build_index, write_container
from morrow.engine.format.file_index.result import ALL, NONE, IndexResult
from morrow.engine.format.file_index.wanted import WantedIndex, build_container, wanted_indexes

__all__ = [
    "ALL",
    "NONE",
    "ColumnIndex",
    "FileIndex",
    "IndexResult",
    "WantedIndex",
    "build_container",
    "build_index",
    "read_file_index",
    "wanted_indexes",
    "write_container",
]
