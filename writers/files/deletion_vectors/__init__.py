"""The deletion vectors of a bucket: the dead rows of its data files, and the index files that store them.

Public: `DeletionMaintainer`, `IndexFiles`.
"""

from morrow.writers.files.deletion_vectors.index_files import IndexFiles
from morrow.writers.files.deletion_vectors.maintainer import DeletionMaintainer, IndexChanges

__all__ = ["DeletionMaintainer", "IndexChanges", "IndexFiles"]
