"""Data file indexes: what they know about a comparison before the data file is opened."""

from morrow.engine.format.file_index.container import ColumnIndex, FileIndex, read_file_index
from morrow.engine.format.file_index.result import ALL, NONE, IndexResult

__all__ = ["ALL", "NONE", "ColumnIndex", "FileIndex", "IndexResult", "read_file_index"]
