"""Compaction of files of a bucket: merges them into files of a higher level, or moves them there unchanged.

`Rewriter` only merges. Its subclasses in `morrow.writers.keyed.lookup` override `rewrite` and `upgrade` to handle keys
that arrive at a higher level (changelogs, deletion vectors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.writers.files import Placement, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.levels import Levels, Section, files_of
from morrow.writers.keyed.sorted_merge import sorted_merge
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class CompactResult:
    """The files that a compaction replaced, the files it made, and the changelog it wrote."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The new files, without those that were only moved."""
        moved = {file.file_name for file in self.before}
        return (*(file for file in self.after if file.file_name not in moved), *self.changelog)

    def __add__(self, other: CompactResult) -> CompactResult:
        """Returns both results, one after the other."""
        return CompactResult(self.before + other.before, self.after + other.after, self.changelog + other.changelog)


class Rewriter:
    """Plain merges. The writer sets `levels`, all current files of the bucket, before each compaction."""

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        self.target = target
        self.place = place
        self.vectors = vectors
        self.levels: Levels | None = None

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        """Merges the files of `sections` into new files at `output_level`.

        Args:
            drop_deletes: whether retractions are dropped, because no older file can hold their keys.
        """
        before = files_of(sections)
        frames = sorted_merge(self.target, self.place, sections, vectors=self.vectors, drop_deletes=drop_deletes)
        after = write_files(self.target, self.place, frames, level=output_level, source=FileSource.COMPACT)
        self.replaced(before)
        return CompactResult(before, tuple(after))

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        """Moves one file to `output_level` without rewriting it."""
        return CompactResult((file,), (file.upgraded(output_level),))

    def replaced(self, files: Sequence[DataFileMeta]) -> None:
        """Drops the deletion vectors of rewritten (not upgraded) files, which have been applied."""
        if self.vectors is not None:
            for file in files:
                self.vectors.remove(file.file_name)
