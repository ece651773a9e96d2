"""Places (partition and bucket), and the paths and removal of their data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from morrow.engine.errors import StorageError
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.paths import segment
from morrow.writers.target import WriteTarget


class InBucket(Protocol):
    """An object that belongs to one bucket, such as a commit message."""

    @property
    def partition(self) -> bytes: ...

    @property
    def bucket(self) -> int: ...


@dataclass(frozen=True)
class Placement:
    """One bucket of one partition (a BinaryRow, arity first)."""

    partition: bytes
    bucket: int

    @classmethod
    def of(cls, held: InBucket) -> Placement:
        """Returns the bucket that `held` belongs to."""
        return cls(held.partition, held.bucket)


def file_path(target: WriteTarget, place: Placement, name: str) -> str:
    """Returns the path of a data file, or of a file that belongs to one, in its bucket's folder."""
    return f"{target.bucket_folder(place.partition, place.bucket)}/{name}"


def delete_files(target: WriteTarget, place: Placement, files: Iterable[DataFileMeta]) -> None:
    """Removes data files that nothing names any more, with their extra files. Missing ones are no error.

    Raises:
        StorageError: the first error of those that could not be removed; all others are removed.
    """
    folder = target.bucket_folder(place.partition, place.bucket)
    errors: list[StorageError] = []
    for name in (name for file in files for name in (file.file_name, *file.extra_files)):
        try:
            target.store.delete(f"{folder}/{segment(name, folder)}")
        except StorageError as error:
            errors.append(error)
    if errors:
        raise errors[0]
