"""The deletion vectors of one bucket during a write: restored, marked, removed, written.

A bucket of a primary-key table, and of an append table with fixed buckets, has one index file: Paimon's own writers
track one per bucket, so a second one would be lost with their next commit. Append tables without buckets have many,
rolled at ``deletion-vector.index-file.target-size``, and only those that a change touches are rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from morrow.engine.format.data_file_meta import IndexFileMeta
from morrow.engine.format.deletion_index import INDEX_TYPE
from morrow.engine.format.deletion_vector import DeletionVector
from morrow.writers.files.deletion_vectors.index_files import IndexFiles
from morrow.writers.target import WriteTarget


class IndexChanges(NamedTuple):
    """The index files that were written, and those that they replace."""

    new: tuple[IndexFileMeta, ...] = ()
    replaced: tuple[IndexFileMeta, ...] = ()


class DeletionMaintainer:
    """Deletion vectors of one bucket by the name of their data file.

    Index files are read when one of their vectors is first needed. Not safe for use by several threads at once.

    Args:
        index_files: those of the bucket in the snapshot that is written upon; kinds other than deletion vectors are
            ignored.
        rolling: several index files, of which only the touched ones are rewritten (append tables without buckets).
    """

    def __init__(
        self,
        target: WriteTarget,
        partition: bytes,
        bucket: int,
        index_files: Iterable[IndexFileMeta] = (),
        *,
        rolling: bool = False,
    ) -> None:
        self._files = IndexFiles(target, partition, bucket)
        self._rolling = rolling
        self._vectors: dict[str, DeletionVector] = {}
        self._adopt(file for file in index_files if file.index_type == INDEX_TYPE)

    def _adopt(self, files: Iterable[IndexFileMeta]) -> None:
        """Sets the stored index files; vectors in memory stay there."""
        self._stored = tuple(files)
        self._holder = {entry.data_file: file for file in self._stored for entry in file.deletion_ranges or ()}
        self._unread = {name: file for name, file in self._holder.items() if name not in self._vectors}
        self._changed: set[str] = set()

    def __contains__(self, data_file: object) -> bool:
        return data_file in self._vectors or data_file in self._unread

    def __iter__(self) -> Iterator[str]:
        """Yields the names of the data files with dead rows."""
        return iter(dict.fromkeys((*self._unread, *self._vectors)))

    def vector(self, data_file: str) -> DeletionVector | None:
        """Returns the dead rows of a data file, None when there are none.

        Raises:
            FileMissing, CorruptFile, Unsupported: the index file cannot be read.
        """
        self._read(data_file)
        return self._vectors.get(data_file)

    def dead_rows(self, data_file: str) -> int:
        """Returns the number of dead rows of a data file, from metadata where it has the number."""
        file = self._unread.get(data_file)
        for entry in () if file is None else file.deletion_ranges or ():
            if entry.data_file == data_file and entry.cardinality is not None:
                return entry.cardinality
        vector = self.vector(data_file)
        return 0 if vector is None else vector.cardinality

    def mark(self, data_file: str, positions: npt.NDArray[np.integer]) -> None:
        """Marks rows of a data file as dead, by 0-based position in any order."""
        self.merge(data_file, DeletionVector.from_positions(positions))

    def merge(self, data_file: str, vector: DeletionVector) -> None:
        """Marks the rows in `vector` as dead too."""
        known = self.vector(data_file)
        merged = vector if known is None else known.union(vector)
        if merged.cardinality > (0 if known is None else known.cardinality):
            self._vectors[data_file] = merged
            self._changed.add(data_file)

    def remove(self, data_file: str) -> None:
        """Drops the vector of a data file that compaction has rewritten."""
        if data_file in self:
            self._unread.pop(data_file, None)
            self._vectors.pop(data_file, None)
            self._changed.add(data_file)

    @property
    def changed(self) -> bool:
        """Whether anything differs from the stored vectors."""
        return bool(self._changed)

    def write(self) -> IndexChanges:
        """Writes the changes since the last call; nothing when there are none.

        A bucket whose last vector was removed gets an index file without vectors, as Paimon writes it.
        """
        if not self._changed:
            return IndexChanges()
        changes = self._touched() if self._rolling else self._whole()
        kept = [file for file in self._stored if file not in changes.replaced]
        self._adopt((*kept, *changes.new))
        return changes

    def discard(self, changes: IndexChanges) -> None:
        """Removes index files that were written and will not be committed."""
        for file in changes.new:
            self._files.delete(file)

    def _whole(self) -> IndexChanges:
        for data_file in tuple(self._unread):
            self._read(data_file)
        return IndexChanges((self._files.write(self._vectors),), self._stored)

    def _touched(self) -> IndexChanges:
        """Writes the index files of changed vectors: first their unchanged vectors, then the changed ones."""
        touched = dict.fromkeys(self._holder[name].file_name for name in sorted(self._changed & self._holder.keys()))
        replaced = tuple(file for file in self._stored if file.file_name in touched)
        new: list[IndexFileMeta] = []
        with self._files.together(new):
            for file in replaced:
                names = [
                    entry.data_file for entry in file.deletion_ranges or () if entry.data_file not in self._changed
                ]
                for name in names:
                    self._read(name)
                new += self._files.write_rolling({name: self._vectors[name] for name in names})
            changed = {name: self._vectors[name] for name in sorted(self._changed) if name in self._vectors}
            new += self._files.write_rolling(changed)
        return IndexChanges(tuple(new), replaced)

    def _read(self, data_file: str) -> None:
        """Reads the vectors of the index file that holds this data file's."""
        file = self._unread.get(data_file)
        if file is None:
            return
        wanted = frozenset(name for name, holder in self._unread.items() if holder is file)
        self._vectors.update(self._files.read(file, wanted))
        for name in wanted:
            del self._unread[name]
