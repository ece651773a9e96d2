"""The files of a bucket as levels, runs and sections."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.writers.keyed.levels import Levels, files_of, sections_of
from tests.writers.keyed.files import file, order


def levels(*files: DataFileMeta, count: int = 4) -> Levels:
    return Levels.of(files, count, order(), where="t")


def keys(sections: list[tuple[tuple[DataFileMeta, ...], ...]]) -> list[list[list[tuple[int, int]]]]:
    """Lists the key range of each file."""
    key = order()
    return [[[(key(f.min_key)[0], key(f.max_key)[0]) for f in run] for run in section] for section in sections]


def test_level_zero_has_a_run_for_each_file_the_newest_first() -> None:
    old, new = file(0, 9, sequence=1), file(0, 9, sequence=2)
    assert [run.files for run in levels(old, new).level_runs] == [(new,), (old,)]


def test_a_level_above_is_one_run_in_key_order() -> None:
    low, high = file(0, 4, level=2), file(5, 9, level=2)
    tree = levels(high, low)
    assert [(run.level, run.files) for run in tree.level_runs] == [(2, (low, high))]
    assert (tree.highest, tree.max_level) == (2, 3)


def test_files_of_a_level_above_that_overlap_are_corrupt() -> None:
    with pytest.raises(Unsupported, match="overlap"):
        levels(file(0, 5, level=1), file(5, 9, level=1))


def test_restored_files_may_need_more_levels_than_the_option_says() -> None:
    assert levels(file(level=6), count=3).count == 7


def test_a_tree_has_at_least_two_levels() -> None:
    with pytest.raises(InvalidArgument, match="num-levels"):
        levels(count=1)


def test_an_update_replaces_files_and_may_move_one() -> None:
    moved, merged = file(0, 4), [file(5, 9), file(7, 12)]
    result = file(5, 12, level=3)
    tree = levels(moved, *merged).updated([moved, *merged], [moved.upgraded(3), result], where="t")
    assert [run.files for run in tree.level_runs] == [(moved.upgraded(3), result)]


def test_an_empty_tree() -> None:
    assert (levels().level_runs, levels().highest, levels().files) == ((), -1, ())


@pytest.mark.parametrize(
    ("ranges", "sections"),
    [
        ([], []),
        ([(0, 9)], [[[(0, 9)]]]),
        ([(5, 9), (0, 4)], [[[(0, 4)]], [[(5, 9)]]]),
        ([(0, 4), (4, 9)], [[[(0, 4)], [(4, 9)]]]),
        ([(0, 9), (1, 2), (3, 4)], [[[(0, 9)], [(1, 2), (3, 4)]]]),
        ([(0, 3), (2, 5), (4, 9), (11, 12)], [[[(0, 3), (4, 9)], [(2, 5)]], [[(11, 12)]]]),
    ],
)
def test_sections_are_the_smallest_sets_that_overlap(
    ranges: list[tuple[int, int]], sections: list[list[list[tuple[int, int]]]]
) -> None:
    assert keys(sections_of([file(*each) for each in ranges], order())) == sections


RANGES = st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(RANGES, max_size=12))
def test_sections_hold_every_file_once_and_share_no_key(ranges: list[tuple[int, int]]) -> None:
    files = [file(*each) for each in ranges]
    sections = sections_of(files, order())
    assert sorted(f.file_name for f in files_of(sections)) == sorted(f.file_name for f in files)
    reached = -1
    for section in keys(sections):
        assert min(low for run in section for low, _ in run) > reached
        reached = max(high for run in section for _, high in run)
        for run in section:
            assert all(before[1] < after[0] for before, after in pairwise(run))
        # As few runs as can be: as many as the most files that hold one key.
        assert len(section) == max(sum(low <= k <= high for run in section for low, high in run) for k in range(36))
