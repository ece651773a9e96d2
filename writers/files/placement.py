"""Buckets as places: where data files of a partition and bucket lie, and how they are removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from morrow.engine.errors import StorageError
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.paths import segment
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class Placement:
    """One bucket of one partition (a BinaryRow, arity first)."""

    partition: bytes
    bucket: int


def file_path(target: WriteTarget, place: Placement, name: str) -> str:
    """The path of a data file, or of a file that goes with one, in its bucket's folder."""
    return f"{target.bucket_folder(place.partition, place.bucket)}/{name}"


def delete_files(target: WriteTarget, place: Placement, files: Iterable[DataFileMeta]) -> None:
    """Remove data files that nothing names any more, with the files that go with them. Missing ones are no error.

    Raises:
        StorageError: some could not be removed, this one first; all others are gone.
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
