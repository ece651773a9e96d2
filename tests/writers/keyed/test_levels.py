"""The files of a bucket, divided into levels, runs and sections."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.types import parse_atomic
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.writers.keyed import levels as module
from morrow.writers.keyed.levels import Levels, list_files, make_key_order, sort_rows, split_sections
from tests.writers.keyed.files import file, order


def levels(*files: DataFileMeta, count: int = 4) -> Levels:
    return Levels.of(files, count, order(), where="t")


def keys(sections: list[tuple[tuple[DataFileMeta, ...], ...]]) -> list[list[list[tuple[int, int]]]]:
    """List the key range of each file."""
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
    assert keys(split_sections([file(*each) for each in ranges], order())) == sections


RANGES = st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(RANGES, max_size=12))
def test_sections_hold_every_file_once_and_share_no_key(ranges: list[tuple[int, int]]) -> None:
    files = [file(*each) for each in ranges]
    sections = split_sections(files, order())
    assert sorted(f.file_name for f in list_files(sections)) == sorted(f.file_name for f in files)
    reached = -1
    for section in keys(sections):
        assert min(low for run in section for low, _ in run) > reached
        reached = max(high for run in section for _, high in run)
        for run in section:
            assert all(before[1] < after[0] for before, after in pairwise(run))
        # The number of runs is minimal: the largest number of files that contain the same key.
        assert len(section) == max(sum(low <= k <= high for run in section for low, high in run) for k in range(36))


# Rows and stored keys, sorted by primary key.


def field(name: str, kind: str) -> t.DataField:
    return t.DataField(0, name, parse_atomic(kind).with_nullable(False))


def in_order(kinds: list[str], rows: list[tuple[Any, ...]]) -> tuple[list[int], list[int]]:
    """Return the row numbers sorted by key, and the start of each key."""
    fields = [field(f"k{i}", kind) for i, kind in enumerate(kinds)]
    schema = {f.name: to_polars_dtype(f.type) for f in fields}
    order, starts = sort_rows(fields, pl.DataFrame(rows, schema=schema, orient="row"), [], [])
    return order.tolist(), starts.tolist()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.one_of(st.integers(-3, 3), st.sampled_from((-(2**63), 2**63 - 1))),
    "STRING": st.sampled_from(("", "a", "ab", "b", "é", "😀", "z" * 20, "z" * 19 + "a")),
    "BYTES": st.sampled_from((b"", b"\x00", b"\x7f", b"\x80", b"\xff")),
    "DOUBLE": st.sampled_from((-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan)),
    "BOOLEAN": st.booleans(),
}


def comparable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (math.isnan(value), 0 if math.isnan(value) else value) if isinstance(value, float) else value


@st.composite
def keyed(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2))
    return kinds, draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=20))


@pytest.mark.parametrize("few", [1, module.MIN_PACKED_KEYS])
@given(keyed())
def test_rows_are_sorted_by_key_and_then_by_place(
    few: int, given_rows: tuple[list[str], list[tuple[Any, ...]]]
) -> None:
    kinds, rows = given_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_PACKED_KEYS", few)
        order, starts = in_order(kinds, rows)
    expected = sorted(range(len(rows)), key=lambda i: (*map(comparable, rows[i]), i))
    ordered = [tuple(map(comparable, rows[i])) for i in expected]
    assert order == expected
    assert starts == [i for i, key in enumerate(ordered) if i == 0 or key != ordered[i - 1]]


@pytest.mark.parametrize(
    "keys",
    [
        lambda i: (i * 7919) % 10007,
        lambda i: -((i * 7919) % 10007),
        lambda i: (i * 2654435761 % 2**32) << 31,  # too far apart to pack with row numbers
        lambda i: i // 3,
        lambda i: 5 - 2**63 + i,
        lambda i: i - i % 2 * 10_000,
    ],
    ids=["scattered", "negative", "far apart", "sorted", "ascending", "two in turn"],
)
def test_many_integers(keys: Callable[[int], int]) -> None:
    values = [keys(i) for i in range(20_000)]
    order, _ = in_order(["BIGINT"], [(value,) for value in values])
    assert order == sorted(range(len(values)), key=lambda i: (values[i], i))


@given(keyed())
def test_stored_keys_compare_as_rows_do(given_rows: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    kinds, rows = given_rows
    fields = [field(f"k{i}", kind) for i, kind in enumerate(kinds)]
    order = make_key_order(fields, where="t")
    stored = [encode_row(row, [f.type for f in fields]) for row in rows]
    assert sorted(range(len(rows)), key=lambda i: (order(stored[i]), i)) == in_order(kinds, rows)[0]
    together = make_key_order(fields, where="t", keys=stored[1:])
    assert [*map(together, stored)] == [*map(order, stored)]


def test_a_key_that_cannot_be_read_is_told_by_its_owner() -> None:
    fields = [field("k", "INT")]
    good = encode_row((1,), [fields[0].type])
    order = make_key_order(fields, where="t", keys=[good, b"short"])
    assert order(good) == (1,)
    with pytest.raises(CorruptFile, match="t"):
        order(b"short")
