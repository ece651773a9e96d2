"""What universal compaction picks. The examples are the facts of Java Paimon's own tests."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.options.words import LookupCompact
from morrow.engine.options.writing import WriteOptions
from morrow.writers.keyed.levels import LevelRun
from morrow.writers.keyed.strategy import (
    CompactUnit,
    EarlyFull,
    ForceUpLevelZero,
    OffPeak,
    UniversalCompaction,
    strategy_of,
)
from tests.writers.keyed.files import run, runs

MAX_LEVEL = 5


def sizes(unit: CompactUnit | None) -> list[int] | None:
    return None if unit is None else [file.file_size for file in unit.files]


def level_zero(*sizes: int) -> list[LevelRun]:
    return [run(0, size) for size in sizes]


# --- where the output goes ---


@pytest.mark.parametrize(("count", "level"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)])
def test_output_goes_to_the_level_below_the_next_run(count: int, level: int) -> None:
    tree = [run(level) for level in (0, 0, 1, 3, 4)]
    assert UniversalCompaction(25, 1, 3).unit(tree, MAX_LEVEL, count).output_level == level


def test_output_never_goes_to_level_zero_so_more_runs_are_taken() -> None:
    unit = UniversalCompaction(25, 1, 3).unit(runs((0, 1), (0, 2), (0, 3), (2, 9)), MAX_LEVEL, 1)
    assert (sizes(unit), unit.output_level) == ([1, 2, 3, 9], MAX_LEVEL)


# --- why something is picked ---


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


# --- full compactions ahead of time ---


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
    assert sizes(compaction.pick(3, grown)) == [3, 3, 5]  # by size amplification, which counts
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


# --- level 0 emptied ---


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
    assert strategy_of(WriteOptions(**members), lookup=lookup) == strategy


# --- what holds for any tree ---


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
