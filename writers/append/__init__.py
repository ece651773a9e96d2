"""Append tables: writing rows, compacting small files, sorting, and changing rows."""

from morrow.writers.append.small_files import compact_append
from morrow.writers.append.writer import AppendWriter

__all__ = ["AppendWriter", "compact_append"]
