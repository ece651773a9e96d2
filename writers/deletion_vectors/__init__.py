"""Keeps the deletion vectors of a bucket: which rows of its data files are dead, in which index files that is written.

Public: `DeletionMaintainer`, `IndexFiles`.
"""

from morrow.writers.deletion_vectors.index_files import IndexFiles
from morrow.writers.deletion_vectors.maintainer import DeletionMaintainer, IndexChanges

__all__ = ["DeletionMaintainer", "IndexChanges", "IndexFiles"]
