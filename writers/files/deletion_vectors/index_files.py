"""Reads and writes the deletion vector index files of one bucket."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from morrow.engine.errors import CorruptFile, StorageError
from morrow.engine.format.data_file_meta import DeletionRange, IndexFileMeta
from morrow.engine.format.deletion_index import INDEX_TYPE, read_entry, write_index_file
from morrow.engine.format.deletion_vector import DeletionVector
from morrow.engine.format.paths import external_path, segment
from morrow.writers.target import WriteTarget

INDEX_PREFIX = "index-"


@dataclass(frozen=True)
class IndexFiles:
    """The index files of one bucket: their location and encoding."""

    target: WriteTarget
    partition: bytes
    bucket: int
    _names: Iterator[str] = field(default_factory=lambda: _fresh_names(), repr=False, compare=False)

    def path(self, file: IndexFileMeta) -> str:
        """Returns the path of an index file. Raises `UnsafePath` for one outside of the table."""
        if file.external_path is not None:
            target = self.target
            roots = (target.store.url(target.metadata.root), *target.options.external_roots)
            return external_path(file.external_path, (*roots, *target.metadata.allowed_roots), where=target.where)
        return self._path(file.file_name)

    def read(self, file: IndexFileMeta, only: frozenset[str] | None = None) -> dict[str, DeletionVector]:
        """Returns the vectors in an index file by data file; only those of `only` when it is given.

        Raises:
            FileMissing, CorruptFile, Unsupported: the file is missing, damaged, or of an unknown version.
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
        """Writes one new index file with these vectors, durable on return. No vectors make a file without any.

        Raises:
            InvalidArgument: a position that needs ``deletion-vectors.bitmap64``. StorageError: it cannot be written.
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
        """Writes new index files, closing each that exceeds ``deletion-vector.index-file.target-size``."""
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
        """Wraps the writing of several files, and removes all of them when one cannot be written."""
        try:
            yield
        except BaseException:
            for file in written:
                with suppress(StorageError):
                    self.delete(file)
            raise

    def delete(self, file: IndexFileMeta) -> None:
        """Removes an index file that no snapshot will name."""
        self.target.store.delete(self.path(file))

    def _one_file(self, vectors: Mapping[str, DeletionVector]) -> Mapping[str, DeletionVector]:
        """Returns the first vectors, up to the one that makes their file larger than the target size."""
        _, ranges = write_index_file(vectors, bitmap64=self.target.write.bitmap64)
        most = self.target.write.deletion_file_size
        kept = sum(1 for entry in ranges if entry.offset <= most)
        return dict(itertools.islice(vectors.items(), max(1, kept)))

    def _path(self, name: str) -> str:
        if not self.target.options.index_in_data_dir:
            return self.target.metadata.paths.index(name)
        return f"{self.target.bucket_folder(self.partition, self.bucket)}/{segment(name, self.target.where)}"


def _fresh_names() -> Iterator[str]:
    """Yields ``index-<uuid>-<n>``: each writer numbers its files."""
    writer = uuid.uuid4()
    return (f"{INDEX_PREFIX}{writer}-{number}" for number in itertools.count())
