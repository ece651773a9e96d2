"""Sections, which are chains of overlapping key ranges, are found for all buckets at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.plan.sections import number_sections, rank_keys

Key: TypeAlias = tuple[str | None, int]
File: TypeAlias = tuple[int, int, int]
"""Bucket, lowest and highest key."""


def sections(files: list[File]) -> list[int]:
    columns = np.array(files, np.int64).reshape(-1, 3).T
    return list(map(int, number_sections(*columns)))


def slow_sections(files: list[File]) -> set[frozenset[int]]:
    """Merge groups that hold overlapping files of one bucket until no two groups overlap."""
    groups = [{i} for i in range(len(files))]

    def touch(a: int, b: int) -> bool:
        (bucket, low, high), (other, other_low, other_high) = files[a], files[b]
        return bucket == other and low <= other_high and other_low <= high

    while pairs := [(a, b) for a in groups for b in groups if a is not b and any(touch(i, j) for i in a for j in b)]:
        a, b = pairs[0]
        groups.remove(b)
        a |= b
    return {frozenset(group) for group in groups}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        ([(0, 1, 5)], [0]),
        ([(0, 1, 5), (0, 6, 9)], [0, 1]),
        ([(0, 1, 5), (0, 5, 9)], [0, 0]),
        ([(0, 1, 9), (0, 2, 3), (0, 8, 12), (0, 13, 14)], [0, 0, 0, 1]),
        ([(0, 1, 9), (1, 1, 9), (1, 2, 3), (2, 1, 1)], [0, 1, 1, 2]),
    ],
    ids=["none", "one", "apart", "touching", "chain", "buckets"],
)
def test_files_whose_keys_overlap_are_one_section(files: list[File], expected: list[int]) -> None:
    assert sections(files) == expected


bounds = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


@given(st.lists(st.tuples(st.integers(0, 2), bounds).map(lambda f: (f[0], *f[1])), max_size=9).map(sorted))
def test_sections_are_those_of_the_slow_way(files: list[File]) -> None:
    groups: dict[int, set[int]] = {}
    for i, section in enumerate(sections(files)):
        groups.setdefault(section, set()).add(i)

    assert {frozenset(group) for group in groups.values()} == slow_sections(files)
    assert sorted(groups) == list(range(len(groups)))


def ranks(lows: list[Key], highs: list[Key]) -> tuple[list[int], list[int]]:
    def columns(keys: list[Key]) -> list[pl.Series]:
        texts, numbers = [key[0] for key in keys], [key[1] for key in keys]
        return [pl.Series(texts, dtype=pl.String), pl.Series(numbers, dtype=pl.Int64)]

    found = rank_keys(columns([*lows, *highs])).tolist()
    return found[: len(lows)], found[len(lows) :]


def test_composite_keys_have_ranks() -> None:
    low, high = ranks([("a", 2), ("b", 1)], [("a", 9), ("b", 1)])

    assert low[0] < high[0] < low[1] == high[1]


keys = st.tuples(st.sampled_from(["", "a", "ab", "b", "é"]), st.integers(-2, 2))


@given(st.lists(st.tuples(keys, keys), min_size=1, max_size=8))
def test_ranks_compare_as_the_keys_do(files: list[tuple[Key, Key]]) -> None:
    low, high = ranks([file[0] for file in files], [file[1] for file in files])
    ranked = [*zip(low + high, [file[0] for file in files] + [file[1] for file in files])]

    for rank, key in ranked:
        for other_rank, other in ranked:
            assert (rank < other_rank, rank == other_rank) == (key < other, key == other)
