"""Deletion vectors of one bucket during a write: restored, changed, and written to index files.

A bucket of a primary-key table, or of an append table with fixed buckets, has one index file: Paimon's writers track
one per bucket, so their next commit would lose a second one. Append tables without buckets have many index files,
rolled at ``deletion-vector.index-file.target-size``, and only the index files with changes are rewritten.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile, StorageError
from morrow.engine.format.deletion_vectors import INDEX_TYPE, DeletionVector, read_entry, write_index_file
from morrow.engine.format.manifest_entries import DeletionRange, IndexFileMeta
from morrow.engine.format.paths import check_external_path, check_segment
from morrow.writers.target import WriteTarget


class IndexChanges(NamedTuple):
    """The written index files, and the index files that they replace."""

    new: tuple[IndexFileMeta, ...] = ()
    replaced: tuple[IndexFileMeta, ...] = ()


class DeletionMaintainer:
    """Deletion vectors of one bucket by the name of their data file.

    Index files are read when one of their vectors is first needed. Not thread-safe.

    Args:
        index_files: the index files of the bucket in the base snapshot; kinds other than deletion vectors are ignored.
        rolling: write several index files, and rewrite only changed ones (append tables without buckets).
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
        """Set the stored index files; vectors in memory stay in memory."""
        self._stored = tuple(files)
        self._holder = {entry.data_file: file for file in self._stored for entry in file.deletion_ranges or ()}
        self._unread = {name: file for name, file in self._holder.items() if name not in self._vectors}
        self._changed: set[str] = set()

    def __contains__(self, data_file: object) -> bool:
        return data_file in self._vectors or data_file in self._unread

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the data files with dead rows."""
        return iter(dict.fromkeys((*self._unread, *self._vectors)))

    def vector(self, data_file: str) -> DeletionVector | None:
        """Return the dead rows of a data file, None if there are none.

        Raises `FileMissing`, `CorruptFile`, `Unsupported`: the index file cannot be read.
        """
        self._read(data_file)
        return self._vectors.get(data_file)

    def dead_rows(self, data_file: str) -> int:
        """Return the number of dead rows of a data file, from metadata if possible."""
        file = self._unread.get(data_file)
        for entry in () if file is None else file.deletion_ranges or ():
            if entry.data_file == data_file and entry.cardinality is not None:
                return entry.cardinality
        vector = self.vector(data_file)
        return 0 if vector is None else vector.cardinality

    def mark(self, data_file: str, positions: npt.NDArray[np.integer]) -> None:
        """Mark rows of a data file as dead, by 0-based position in any order."""
        self.merge(data_file, DeletionVector.from_positions(positions))

    def merge(self, data_file: str, vector: DeletionVector) -> None:
        """Mark the rows in `vector` as dead too."""
        known = self.vector(data_file)
        merged = vector if known is None else known.union(vector)
        if merged.cardinality > (0 if known is None else known.cardinality):
            self._vectors[data_file] = merged
            self._changed.add(data_file)

    def remove(self, data_file: str) -> None:
        """Drop the vector of a data file that compaction has rewritten."""
        if data_file in self:
            self._unread.pop(data_file, None)
            self._vectors.pop(data_file, None)
            self._changed.add(data_file)

    @property
    def changed(self) -> bool:
        """Whether anything differs from the stored vectors."""
        return bool(self._changed)

    def write(self) -> IndexChanges:
        """Write the changes since the last call, if there are any.

        A bucket whose last vector was removed gets an index file without vectors, as Paimon writes it.
        """
        if not self._changed:
            return IndexChanges()
        changes = self._rewrite_touched() if self._rolling else self._whole()
        kept = [file for file in self._stored if file not in changes.replaced]
        self._adopt((*kept, *changes.new))
        return changes

    def discard(self, changes: IndexChanges) -> None:
        """Remove written index files that will not be committed."""
        for file in changes.new:
            self._files.delete(file)

    def _whole(self) -> IndexChanges:
        for data_file in tuple(self._unread):
            self._read(data_file)
        return IndexChanges((self._files.write(self._vectors),), self._stored)

    def _rewrite_touched(self) -> IndexChanges:
        """Rewrite the index files that have changed vectors: first their unchanged vectors, then the changed ones."""
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
        """Read the index file that holds the vector of this data file."""
        file = self._unread.get(data_file)
        if file is None:
            return
        wanted = frozenset(name for name, holder in self._unread.items() if holder is file)
        self._vectors.update(self._files.read(file, wanted))
        for name in wanted:
            del self._unread[name]


INDEX_PREFIX = "index-"


@dataclass(frozen=True)
class IndexFiles:
    """Index files of one bucket: their location and encoding."""

    target: WriteTarget
    partition: bytes
    bucket: int
    _names: Iterator[str] = field(default_factory=lambda: _generate_names(), repr=False, compare=False)

    def path(self, file: IndexFileMeta) -> str:
        """Return the path of an index file. Raises `UnsafePath` if it is outside of the table."""
        if file.external_path is not None:
            target = self.target
            roots = (target.store.url(target.metadata.root), *target.options.external_roots)
            return check_external_path(file.external_path, (*roots, *target.metadata.allowed_roots), where=target.where)
        return self._path(file.file_name)

    def read(self, file: IndexFileMeta, only: frozenset[str] | None = None) -> dict[str, DeletionVector]:
        """Return the vectors in an index file by data file, only for the data files `only` if given.

        Raises `FileMissing`, `CorruptFile`, `Unsupported`: the file is missing, damaged, or of an unknown version.
        """
        if file.deletion_ranges is None:
            raise CorruptFile(self.target.where, f"the index file {file.file_name} does not say what it holds")
        wanted = [entry for entry in file.deletion_ranges if only is None or entry.data_file in only]
        if not wanted:
            return {}
        path = self.path(file)
        data = self.target.store.read(path)
        if len(data) != file.file_size:
            raise CorruptFile(path, f"{len(data)} bytes long where its metadata says {file.file_size}")
        return {
            entry.data_file: read_entry(
                data, entry.offset, entry.length, where=path, expected_cardinality=entry.cardinality
            )
            for entry in wanted
        }

    def write(self, vectors: Mapping[str, DeletionVector]) -> IndexFileMeta:
        """Write one new index file with these vectors, durable on return. Without vectors, an empty file is written.

        Raises:
            InvalidArgument: a position needs ``deletion-vectors.bitmap64``. StorageError: the file cannot be written.
        """
        data, ranges = write_index_file(vectors, bitmap64=self.target.write.bitmap64)
        name = next(self._names)
        self.target.store.write(self._path(name), data)
        return IndexFileMeta(
            index_type=INDEX_TYPE,
            file_name=name,
            file_size=len(data),
            row_count=len(ranges),
            deletion_ranges=tuple(DeletionRange(*entry) for entry in ranges),
        )

    def write_rolling(self, vectors: Mapping[str, DeletionVector]) -> tuple[IndexFileMeta, ...]:
        """Write new index files, closing each that exceeds ``deletion-vector.index-file.target-size``."""
        files: list[IndexFileMeta] = []
        left = dict(vectors)
        with self.together(files):
            while left:
                files.append(self.write(self._one_file(left)))
                for entry in files[-1].deletion_ranges or ():
                    del left[entry.data_file]
        return tuple(files)

    @contextmanager
    def together(self, written: Sequence[IndexFileMeta]) -> Iterator[None]:
        """Wrap the writing of several files; remove all of them if one cannot be written."""
        try:
            yield
        except BaseException:
            for file in written:
                with suppress(StorageError):
                    self.delete(file)
            raise

    def delete(self, file: IndexFileMeta) -> None:
        """Remove an index file that snapshots will never name."""
        self.target.store.delete(self.path(file))

    def _one_file(self, vectors: Mapping[str, DeletionVector]) -> Mapping[str, DeletionVector]:
        """Return the first vectors, up to the one with which their file exceeds the target size."""
        _, ranges = write_index_file(vectors, bitmap64=self.target.write.bitmap64)
        most = self.target.write.deletion_file_size
        kept = sum(1 for entry in ranges if entry.offset <= most)
        return dict(itertools.islice(vectors.items(), max(1, kept)))

    def _path(self, name: str) -> str:
        if not self.target.options.index_in_data_dir:
            return self.target.metadata.paths.index(name)
        return f"{self.target.bucket_folder(self.partition, self.bucket)}/{check_segment(name, self.target.where)}"


def _generate_names() -> Iterator[str]:
    """Yield names ``index-<uuid>-<n>``, numbered per writer."""
    writer = uuid.uuid4()
    return (f"{INDEX_PREFIX}{writer}-{number}" for number in itertools.count())
