"""Compactions of one bucket: files that are rewritten or moved, and retractions that are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import ColumnNotFound, Unsupported
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta
from morrow.engine.options.declarations import LookupCompact
from morrow.engine.options.write_options import WriteOptions
from morrow.writers.buckets.routers import BucketState
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.compaction import (
    Compactor,
    CompactUnit,
    EarlyFull,
    ForceUpLevelZero,
    OffPeak,
    UniversalCompaction,
    make_strategy,
)
from morrow.writers.keyed.levels import LevelRun, Section, list_files
from morrow.writers.keyed.rewriter import CompactResult, Rewriter
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.target import WriteTarget
from tests.writers.keyed.files import file, run, runs
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
"""Files of at least 70% of the target size are moved, not rewritten."""


class Told(Rewriter):
    """A rewriter that records its calls and returns plausible results."""

    def __init__(self, target: WriteTarget, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, PLACE, vectors)
        self.done: list[str] = []

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        files = list_files(sections)
        drops = ", drop deletes" if drop_deletes else ""
        self.done.append(f"rewrite {len(files)} to {output_level}{drops}")
        merged = replace_all(files, output_level)
        return CompactResult(files, merged)

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        self.done.append(f"move {file.level} to {output_level}")
        return super().upgrade(output_level, file)


def replace_all(files: Sequence[DataFileMeta], level: int) -> tuple[DataFileMeta, ...]:
    """Describe the file that would replace several files."""
    low, high = min(file.min_key for file in files), max(file.max_key for file in files)
    size = sum(file.file_size for file in files)
    return (file(level=level, size=size, min_key=low, max_key=high),)


class Everything:
    """A strategy that compacts all runs to the given level."""

    def __init__(self, level: int) -> None:
        self.level = level

    def pick(self, levels: int, runs: Sequence[LevelRun]) -> CompactUnit:  # noqa: ARG002
        return CompactUnit.of(self.level, runs)


def compacted(
    folder: Path, files: Iterable[DataFileMeta], level: int = 5, *, full: bool = False, **options: str
) -> list[str]:
    """Compact all files to a level, and return the recorded calls."""
    target = keyed_table(folder, {"target-file-size": f"{TARGET_SIZE} b", **options})
    rewriter = Told(target)
    Compactor(target, files, rewriter, Everything(level)).compact(full)
    return rewriter.done


# --- rewriting or moving ---


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


# Runs picked by universal compaction. The expected values come from Java Paimon's own tests.

MAX_LEVEL = 5


def sizes(unit: CompactUnit | None) -> list[int] | None:
    return None if unit is None else [file.file_size for file in unit.files]


def level_zero(*sizes: int) -> list[LevelRun]:
    return [run(0, size) for size in sizes]


# --- output levels ---


@pytest.mark.parametrize(("count", "level"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)])
def test_output_goes_to_the_level_below_the_next_run(count: int, level: int) -> None:
    tree = [run(level) for level in (0, 0, 1, 3, 4)]
    assert UniversalCompaction(25, 1, 3).unit(tree, MAX_LEVEL, count).output_level == level


def test_output_never_goes_to_level_zero_so_more_runs_are_taken() -> None:
    unit = UniversalCompaction(25, 1, 3).unit(runs((0, 1), (0, 2), (0, 3), (2, 9)), MAX_LEVEL, 1)
    assert (sizes(unit), unit.output_level) == ([1, 2, 3, 9], MAX_LEVEL)


# --- reasons to pick runs ---


def test_nothing_is_picked_below_the_trigger() -> None:
    assert UniversalCompaction(0, 1, 4).pick(6, level_zero(9, 9, 1)) is None


def test_newer_runs_that_outgrow_the_oldest_are_all_compacted() -> None:
    assert sizes(UniversalCompaction(25, 1, 3).pick(3, level_zero(1, 2, 3, 3))) == [1, 2, 3, 3]


def test_runs_of_like_size_are_compacted_together() -> None:
    assert sizes(UniversalCompaction(25, 1, 3).pick(4, runs((0, 1), (1, 1), (2, 1), (3, 50)))) == [1, 1, 1]


def test_too_many_runs_are_compacted_whatever_their_size() -> None:
    assert sizes(UniversalCompaction(25, 1, 3).pick(4, runs((0, 1), (1, 2), (2, 3), (3, 50)))) == [1, 2, 3]


def test_level_zero_is_taken_along_up_to_a_level_above_it() -> None:
    compaction = UniversalCompaction(25, 1, 3)
    assert sizes(compaction.pick(3, runs((0, 1), (0, 1), (1, 1), (2, 50)))) == [1, 1, 1]
    assert sizes(compaction.pick(3, runs((0, 1), (0, 2), (1, 3), (2, 50)))) == [1, 2, 3]


def test_level_zero_alone_is_compacted_whole() -> None:
    unit = UniversalCompaction(200, 1, 5).pick(6, level_zero(1, 1, 1, 1024, 1024 * 1024))
    assert unit is not None
    assert (sizes(unit), unit.output_level) == ([1, 1, 1, 1024, 1024 * 1024], 5)


def test_size_amplification_as_runs_of_one_arrive() -> None:
    compaction = UniversalCompaction(25, 0, 1)
    tree, history = [1], []
    for _ in range(18):
        tree = [1, *tree]
        picked = compaction.by_amplification(3, level_zero(*tree))
        tree = tree if picked is None else [sum(file.file_size for file in picked.files)]
        history.append(tree)
    assert history == [
        *([2], [3], [4], [1, 4], [6], [1, 6], [8], [1, 8], [1, 1, 8], [11], [1, 11], [1, 1, 11], [14]),
        *([1, 14], [1, 1, 14], [1, 1, 1, 14], [18], [1, 18]),
    ]


def test_size_ratio_as_runs_of_one_arrive() -> None:
    compaction = UniversalCompaction(25, 1, 5)
    tree, history = [1, 1, 1, 1], []
    for _ in range(12):
        tree = [1, *tree]
        picked = compaction.by_ratio(len(tree), runs(*enumerate(tree)))
        count = 0 if picked is None else len(picked.files)
        tree = [sum(tree[:count]), *tree[count:]] if count else tree
        history.append(tree)
    assert history == [
        *([5], [1, 5], [1, 1, 5], [1, 1, 1, 5], [4, 5], [1, 4, 5], [1, 1, 4, 5], [3, 4, 5], [1, 3, 4, 5]),
        *([2, 3, 4, 5], [1, 2, 3, 4, 5], [16]),
    ]


@pytest.mark.parametrize(("ratio", "picked"), [(10, None), (20, [8, 9, 10])])
def test_size_ratio_is_how_much_larger_the_next_run_may_be(ratio: int, picked: list[int] | None) -> None:
    assert sizes(UniversalCompaction(25, ratio, 2).by_ratio(3, runs((0, 8), (1, 9), (2, 10)))) == picked


@pytest.mark.parametrize(
    ("start", "end", "hour", "more"),
    [(0, 6, 0, 10), (0, 6, 6, 0), (22, 6, 23, 10), (22, 6, 5, 10), (22, 6, 6, 0), (22, 6, 21, 0)],
)
def test_larger_runs_are_taken_along_in_off_peak_hours(start: int, end: int, hour: int, more: int) -> None:
    assert OffPeak(start, end, 10).now(hour) == more


# --- early full compactions ---


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> datetime:
        return datetime(2026, 1, 1) + timedelta(seconds=self.seconds)


def test_everything_is_compacted_once_in_an_interval() -> None:
    clock = Clock()
    early = EarlyFull(interval=timedelta(seconds=1), now=clock)
    compaction = UniversalCompaction(100, 1, 3, early)
    quiet, grown = runs((0, 1), (1, 3), (2, 5)), runs((0, 3), (1, 3), (2, 5))

    assert sizes(compaction.pick(3, quiet)) == [1, 3, 5]  # there was none yet
    clock.seconds = 1.001
    assert sizes(compaction.pick(3, quiet)) == [1, 3, 5]
    assert compaction.pick(3, quiet) is None
    clock.seconds = 1.5
    assert sizes(compaction.pick(3, grown)) == [3, 3, 5]  # by size amplification, which counts as well
    clock.seconds = 2.001
    assert compaction.pick(3, quiet) is None


def test_a_small_bucket_is_always_compacted_whole() -> None:
    compaction = UniversalCompaction(100, 1, 3, EarlyFull(total_size=10))
    assert sizes(compaction.pick(3, runs((0, 1), (1, 3), (2, 5)))) == [1, 3, 5]
    assert compaction.pick(3, runs((0, 2), (1, 6), (2, 10))) is None
    assert compaction.pick(4, runs((3, 5))) is None


def test_much_above_the_bottom_level_is_compacted_into_it() -> None:
    compaction = UniversalCompaction(100, 1, 3, EarlyFull(incremental_size=10))
    assert compaction.pick(4, runs((0, 2), (1, 8), (3, 100))) is None
    assert sizes(compaction.pick(4, runs((0, 3), (1, 8), (3, 100)))) == [3, 8, 100]


# --- emptying level 0 ---


def test_level_zero_is_emptied_at_every_pick() -> None:
    compaction = ForceUpLevelZero(UniversalCompaction(25, 1, 3))
    picks = [
        compaction.pick(3, level_zero(1, 2, 2, 2)),
        compaction.pick(3, runs((0, 1), (1, 2), (2, 2))),
        compaction.pick(3, runs((0, 1), (2, 2))),
        compaction.pick(3, runs((1, 1), (2, 2))),
    ]
    assert [unit and (sizes(unit), unit.output_level) for unit in picks] == [
        ([1, 2, 2, 2], 2),
        ([1, 2, 2], 2),
        ([1], 1),
        None,
    ]


def test_gentle_lookups_empty_level_zero_after_some_picks() -> None:
    compaction = ForceUpLevelZero(UniversalCompaction(25, 1, 5), interval=3)
    tree = runs((0, 1), (2, 2))
    assert [sizes(compaction.pick(3, tree)) for _ in range(6)] == [None, None, [1], None, None, [1]]


# --- options ---


@pytest.mark.parametrize(
    ("members", "lookup", "strategy"),
    [
        ({}, False, UniversalCompaction()),
        ({"size_ratio": 7, "run_trigger": 3}, False, UniversalCompaction(200, 7, 3)),
        ({"force_up_level_zero": True}, False, ForceUpLevelZero(UniversalCompaction())),
        ({}, True, ForceUpLevelZero(UniversalCompaction())),
        ({"lookup_compact": LookupCompact.GENTLE}, True, ForceUpLevelZero(UniversalCompaction(), 10)),
        (
            {"optimization_interval": timedelta(hours=1)},
            False,
            UniversalCompaction(early=EarlyFull(timedelta(hours=1))),
        ),
        (
            {"off_peak_hours": (22, 6), "off_peak_size_ratio": 50},
            False,
            UniversalCompaction(off_peak=OffPeak(22, 6, 50)),
        ),
    ],
)
def test_options(members: dict[str, Any], lookup: bool, strategy: object) -> None:
    assert make_strategy(WriteOptions(**members), lookup=lookup) == strategy


# --- properties of any tree ---


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[LevelRun]]:
    levels = draw(st.integers(2, 7))
    size = st.integers(1, 1000)
    zero = [run(0, draw(size)) for _ in range(draw(st.integers(0, 8)))]
    above = [run(level, draw(size)) for level in range(1, levels) if draw(st.booleans())]
    return levels, zero + above


@given(trees(), st.integers(0, 300), st.integers(0, 100), st.integers(1, 8), st.booleans())
def test_a_pick_is_a_prefix_that_goes_between_what_is_left(
    tree: tuple[int, list[LevelRun]], amplification: int, ratio: int, trigger: int, force: bool
) -> None:
    levels, all_runs = tree
    universal = UniversalCompaction(amplification, ratio, trigger)
    unit = (ForceUpLevelZero(universal) if force else universal).pick(levels, all_runs)
    if unit is None:
        assert len(all_runs) <= trigger
        assert not (force and any(run.level == 0 for run in all_runs))
        return
    files = [file for run in all_runs for file in run.files]
    assert list(unit.files) == files[: len(unit.files)]
    left = all_runs[len(unit.files) :]
    assert 0 < unit.output_level < levels
    assert all(unit.output_level < run.level for run in left)
    assert all(file.level <= unit.output_level for file in unit.files)


def test_tables_whose_indexes_java_builds_are_written(tmp_path: Path) -> None:
    """Java reads files without their index whole; but an index of a missing column makes the table unreadable."""
    options = {"deletion-vectors.enabled": "true", "pk-btree.index.columns": "v", "pk-bitmap.index.columns": ""}
    target = keyed_table(tmp_path, options)
    table = morrow.open(target.metadata.root)
    table.upsert([{"k": 1, "v": "a"}])
    table.upsert([{"k": 1, "v": "b"}])
    table.compact(full=True)
    assert table.scan(filter="v = 'b'").to_dicts() == [{"k": 1, "v": "b"}]
    with pytest.raises(ColumnNotFound, match=r"'pk-btree\.index\.columns' 'v' is not a column"):
        table.alter.rename_column("v", "w")
    with pytest.raises(Unsupported, match="does not build these indexes"):
        table.alter.set_options({"pk-bitmap.index.columns": "v"})


def test_tables_with_indexes_of_vectors_are_written_if_searches_read_all_rows(tmp_path: Path) -> None:
    """In mode ``fast``, Paimon's searches leave out rows whose index is not built yet."""
    indexed = {"deletion-vectors.enabled": "true", "pk-vector.index.columns": "v"}
    for path, modes in (("a", {}), ("b", {"global-index.search-mode": "full", "vector-index.search-mode": "fast"})):
        with pytest.raises(Unsupported, match=r"set 'vector-index\.search-mode' to full"):
            keyed_table(tmp_path / path, {**indexed, **modes})
    target = keyed_table(tmp_path, {**indexed, "global-index.search-mode": "full"})
    assert morrow.open(target.metadata.root).upsert([{"k": 1, "v": "a"}]) is not None
