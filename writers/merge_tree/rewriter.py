"""Compaction of some files of a bucket: merges them into files of a higher level, or moves them there as they are.

`Rewriter` merges and nothing more. What else happens to keys that arrive at a higher level (changelogs, deletion
vectors) is the business of its subclasses in `morrow.writers.lookup`, which override `rewrite` and `upgrade`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.writers.deletion_vectors import DeletionMaintainer
from morrow.writers.files import Placement, write_files
from morrow.writers.merge_tree.levels import Levels, Section, files_of
from morrow.writers.merge_tree.sorted_merge import sorted_merge
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class CompactResult:
    """Files that a compaction replaced, those it made, and the changelog it wrote."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The files that are new, which does not hold for those that were moved."""
        moved = {file.file_name for file in self.before}
        return (*(file for file in self.after if file.file_name not in moved), *self.changelog)

    def __add__(self, other: CompactResult) -> CompactResult:
        """Both, one after the other."""
        return CompactResult(self.before + other.before, self.after + other.after, self.changelog + other.changelog)


class Rewriter:
    """Plain merges. `levels` is set by the writer before each compaction: all files of the bucket as they are then."""

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        self.target = target
        self.place = place
        self.vectors = vectors
        self.levels: Levels | None = None

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        """Merge the files of `sections` into new files at `output_level`.

        Args:
            drop_deletes: whether retractions are left out, because nothing below can hold their keys.
        """
        before = files_of(sections)
        frames = sorted_merge(self.target, self.place, sections, vectors=self.vectors, drop_deletes=drop_deletes)
        after = write_files(self.target, self.place, frames, level=output_level, source=FileSource.COMPACT)
        self.replaced(before)
        return CompactResult(before, tuple(after))

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        """Move one file to `output_level` without rewriting it."""
        return CompactResult((file,), (file.upgraded(output_level),))

    def replaced(self, files: Sequence[DataFileMeta]) -> None:
        """Called after files were rewritten (not: upgraded): their deletion vectors have been applied."""
        if self.vectors is not None:
            for file in files:
                self.vectors.remove(file.file_name)
