"""Compactions of one bucket: what is rewritten, what is moved as it is, which retractions are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from morrow.engine.format.data_file_meta import EMPTY_ROW, DataFileMeta
from morrow.writers.buckets.restored import BucketState
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.compaction import Compactor
from morrow.writers.keyed.levels import LevelRun, Section, files_of
from morrow.writers.keyed.rewriter import CompactResult, Rewriter
from morrow.writers.keyed.strategy import CompactUnit
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget
from tests.writers.keyed.files import file
from tests.writers.keyed.tables import (
    PLACE,
    commit,
    keyed_table,
    levels,
    numbered,
    on_disk,
    read,
    rows,
    state,
    write,
    writer,
)

TARGET_SIZE = 1000
LARGE, SMALL = 700, 699
"""Files of seven tenths of the target size are moved as they are."""


class Told(Rewriter):
    """Writes down what it is told to do, and does as if it had."""

    def __init__(self, target: WriteTarget, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, PLACE, vectors)
        self.done: list[str] = []

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        files = files_of(sections)
        drops = ", drop deletes" if drop_deletes else ""
        self.done.append(f"rewrite {len(files)} to {output_level}{drops}")
        merged = replace_all(files, output_level)
        return CompactResult(files, merged)

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        self.done.append(f"move {file.level} to {output_level}")
        return super().upgrade(output_level, file)


def replace_all(files: Sequence[DataFileMeta], level: int) -> tuple[DataFileMeta, ...]:
    """Puts one file in place of several."""
    low, high = min(file.min_key for file in files), max(file.max_key for file in files)
    size = sum(file.file_size for file in files)
    return (file(level=level, size=size, min_key=low, max_key=high),)


class Everything:
    """Compacts all runs, to the given level."""

    def __init__(self, level: int) -> None:
        self.level = level

    def pick(self, levels: int, runs: Sequence[LevelRun]) -> CompactUnit:  # noqa: ARG002
        return CompactUnit.of(self.level, runs)


def compacted(
    folder: Path, files: Iterable[DataFileMeta], level: int = 5, *, full: bool = False, **options: str
) -> list[str]:
    """Compacts all files to a level; returns what is done with them."""
    target = keyed_table(folder, {"target-file-size": f"{TARGET_SIZE} b", **options})
    rewriter = Told(target)
    Compactor(target, files, rewriter, Everything(level)).compact(full)
    return rewriter.done


# --- rewritten or moved ---


def test_a_large_file_that_overlaps_nothing_is_moved(tmp_path: Path) -> None:
    assert compacted(tmp_path, [file(0, 9, size=LARGE)]) == ["move 0 to 5"]


def test_small_neighbours_are_rewritten_together(tmp_path: Path) -> None:
    files = [file(0, 9, size=SMALL), file(10, 19, size=SMALL, sequence=1)]
    assert compacted(tmp_path, files) == ["rewrite 2 to 5, drop deletes"]


def test_a_large_file_ends_what_is_rewritten_before_it(tmp_path: Path) -> None:
    small = [file(low, low + 9, sequence=low) for low in (0, 10, 30, 40)]
    files = [*small, file(20, 29, size=LARGE, sequence=20)]
    assert compacted(tmp_path, files) == ["rewrite 2 to 5, drop deletes", "move 0 to 5", "rewrite 2 to 5, drop deletes"]


def test_files_that_overlap_are_rewritten_whatever_their_size(tmp_path: Path) -> None:
    files = [file(0, 9, size=LARGE), file(9, 19, size=LARGE, sequence=1)]
    assert compacted(tmp_path, files) == ["rewrite 2 to 5, drop deletes"]


def test_a_small_file_alone_is_moved(tmp_path: Path) -> None:
    assert compacted(tmp_path, [file(0, 9, size=1)], level=3) == ["move 0 to 3"]


@pytest.mark.parametrize("retractions", [1, None], ids=["some", "unknown"])
def test_a_file_with_retractions_is_rewritten_on_its_way_to_the_bottom(tmp_path: Path, retractions: int | None) -> None:
    some = file(0, 9, size=LARGE, delete_row_count=retractions)
    assert compacted(tmp_path / "bottom", [some], level=5) == ["rewrite 1 to 5, drop deletes"]
    assert compacted(tmp_path / "above", [some], level=4) == ["move 0 to 4"]


def test_all_files_are_rewritten_if_the_options_say_so(tmp_path: Path) -> None:
    options = {"compaction.force-rewrite-all-files": "true"}
    assert compacted(tmp_path, [file(size=LARGE)], **options) == ["rewrite 1 to 5, drop deletes"]


def test_a_file_that_is_where_it_belongs_stays(tmp_path: Path) -> None:
    files = [file(0, 9, level=5, size=LARGE), file(20, 29, size=LARGE, sequence=1)]
    assert compacted(tmp_path, files) == ["move 0 to 5"]


# --- full compactions ---


def test_a_full_compaction_of_what_is_compacted_does_nothing(tmp_path: Path) -> None:
    files = [file(0, 9, level=5), file(10, 19, level=5)]
    assert compacted(tmp_path / "a", files, full=True) == []
    assert compacted(tmp_path / "b", [], full=True) == []
    forced = {"compaction.force-rewrite-all-files": "true"}
    assert compacted(tmp_path / "c", files, full=True, **forced) == ["rewrite 1 to 5, drop deletes"] * 2


def test_a_full_compaction_takes_a_single_run_to_the_bottom(tmp_path: Path) -> None:
    assert compacted(tmp_path, [file(level=3)], full=True) == ["move 3 to 5"]


# --- retractions ---


@pytest.mark.parametrize(
    ("output", "older", "drops"),
    [(5, None, True), (3, None, True), (3, 3, True), (3, 4, False)],
    ids=["bottom", "nothing below", "all below taken along", "an older run below"],
)
def test_retractions_go_where_nothing_below_can_hold_their_keys(
    tmp_path: Path, output: int, older: int | None, drops: bool
) -> None:
    new = [file(0, 9, sequence=2), file(5, 12, sequence=3)]
    files = [*new, *([] if older is None else [file(0, 9, level=older, sequence=1)])]
    target = keyed_table(tmp_path)
    rewriter = Told(target)

    class Newest:
        def pick(self, levels: int, runs: Sequence[LevelRun]) -> CompactUnit:  # noqa: ARG002
            return CompactUnit.of(output, runs if older == output else runs[:2])

    Compactor(target, files, rewriter, Newest()).compact(False)
    assert rewriter.done[0].endswith("drop deletes") == drops


def test_a_deleted_key_stays_deleted_through_every_level(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"num-sorted-run.compaction-trigger": "2", "compaction.size-ratio": "1000"})
    write(target, numbered(range(100)))
    write(target, rows(("-D", 7, "v7")))
    for start in range(0, 60, 20):
        write(target, numbered(range(start + 8, start + 12), "w"))
        assert 7 not in read(target)
    assert len(read(target)) == 99


# --- deletion vectors ---


DEAD = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "10", "num-levels": "6"}


def test_a_file_of_mostly_dead_rows_is_rewritten(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, DEAD)
    write(target, numbered(range(10)))
    write(target, numbered(range(4), "w"))
    assert levels(target) == [(4, 4), (5, 10)]
    write(target, numbered(range(4, 6), "w"))
    assert (5, 10) in levels(target)
    write(target, numbered(range(6, 7), "w"))
    write(target)  # the next commit finds that 7 of 10 rows are dead
    assert (5, 3) in levels(target)
    assert read(target) == {**{k: f"w{k}" for k in range(7)}, **{k: f"v{k}" for k in range(7, 10)}}


def test_a_full_compaction_clears_deletion_vectors(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, DEAD)
    write(target, numbered(range(10)))
    write(target, numbered(range(3), "w"))
    bucket = writer(target)
    bucket.compact(full=True)
    message = bucket.prepare_commit()
    commit(target, message)
    assert levels(target) == [(5, 10)]
    assert [file.row_count for file in message.compact_new_index_files] == [0]
    assert read(target)[1] == "w1"


def test_vectors_of_files_that_are_gone_are_dropped_with_the_next_change(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, DEAD)
    write(target, numbered(range(10)))
    vectors = DeletionMaintainer(target, EMPTY_ROW, 0)
    vectors.mark("gone.parquet", np.array([1]))
    stray = BucketState(files=state(target).files, total_buckets=1, index_files=vectors.write().new)

    bucket = MergeTreeWriter(target, PLACE, stray)
    assert bucket.prepare_commit().is_empty
    bucket.write(numbered(range(3), "w"))
    (index,) = bucket.prepare_commit().compact_new_index_files
    assert [entry.data_file for entry in index.deletion_ranges or ()] == [file.file_name for file in stray.files]


# --- failures ---


def test_a_compaction_that_fails_half_way_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = keyed_table(tmp_path, {"target-file-size": "1 kb"})
    write(target, numbered(range(10)))
    write(target, numbered(range(10), "w"))
    write(target, numbered(range(20, 30)))
    before = on_disk(target)

    def failing(*_: object) -> CompactResult:
        raise OSError("no space left")

    monkeypatch.setattr(Rewriter, "upgrade", failing)  # after the first two files have been rewritten
    bucket = writer(target)
    with pytest.raises(OSError, match="no space"):
        bucket.compact(full=True)
    bucket.close()
    assert on_disk(target) == before
