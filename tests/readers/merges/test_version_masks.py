"""Rows that share a key are found and ordered."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.merges.version_masks import Rounds, Versions, find_numbered_versions, find_versions

NO_AGE = pl.DataFrame()


def in_order(versions: Versions) -> list[list[int]]:
    """Sort the rows of each key with several versions, oldest first."""
    rounds = versions.rounds
    found: list[list[int]] = [[] for _ in range(rounds.keys)]
    rows = iter(rounds.rows.tolist())
    for height in rounds.heights:
        for key in range(height):
            found[key].append(next(rows))
    return found


def test_versions_of_a_key_follow_one_another_the_oldest_first() -> None:
    #                   oldest file   next      newest
    keys = pl.DataFrame({"k": [1, 2, 3, 2, 3, 9, 3]})
    versions = find_versions(keys, NO_AGE, (), [3, 3, 1])
    assert versions.single.tolist() == [True, False, False, False, False, True, False]
    assert in_order(versions) == [[2, 4, 6], [1, 3]]


def test_age_decides_before_the_file_does_and_null_is_the_oldest() -> None:
    keys = pl.DataFrame({"k": [1, 1, 1]})
    age = pl.DataFrame({"sequence": [5, None, 3]})
    assert in_order(find_versions(keys, age, [False])) == [[1, 2, 0]]
    assert in_order(find_versions(keys, age, [True])) == [[1, 0, 2]]


def test_no_rows_have_no_versions() -> None:
    versions = find_versions(pl.DataFrame({"k": pl.Series([], dtype=pl.Int64)}), NO_AGE, (), [])
    assert (versions.single.tolist(), in_order(versions)) == ([], [])


RUNS = st.lists(st.sets(st.integers(-5, 30) | st.integers(-(2**63), 2**63 - 1), max_size=12), max_size=6)


@given(RUNS, st.sampled_from([pl.Int64, pl.String]), st.booleans())
def test_versions_are_those_of_a_dict(runs: list[set[int]], dtype: type[pl.DataType], with_runs: bool) -> None:
    rows = [key for run in runs for key in sorted(run)]
    expected: dict[object, list[int]] = {}
    for number, key in enumerate(rows):
        expected.setdefault(key, []).append(number)
    keys = pl.DataFrame({"k": pl.Series(rows, dtype=pl.Int64).cast(dtype)})
    versions = find_versions(keys, NO_AGE, (), [len(run) for run in runs] if with_runs else None)
    assert sorted(in_order(versions)) == sorted(numbers for numbers in expected.values() if len(numbers) > 1)
    assert versions.single.tolist() == [len(expected[key]) == 1 for key in rows]


@given(st.lists(st.sets(st.integers(0, 9), max_size=8), max_size=6))
def test_versions_of_numbered_keys_are_those_of_keys(runs: list[set[int]]) -> None:
    keys = pl.DataFrame({"k": [key for run in runs for key in sorted(run)]}, schema={"k": pl.Int64})
    expected = find_versions(keys, NO_AGE, (), [len(run) for run in runs])
    found = find_numbered_versions(keys.to_series().to_numpy(), 10)
    assert found.single.tolist() == expected.single.tolist()
    assert sorted(in_order(found)) == sorted(in_order(expected))


@pytest.mark.parametrize("files", [2, 300])
def test_any_number_of_files_can_hold_a_key(files: int) -> None:
    versions = find_versions(pl.DataFrame({"k": [7] * files}), NO_AGE, (), [1] * files)
    assert in_order(versions) == [list(range(files))]


def test_of_levels_above_zero_only_the_lowest_counts() -> None:
    """Lookup compactions have already included higher levels in a lower level's row, so only the lowest counts."""
    keys = pl.DataFrame({"k": [1, 2, 1, 3, 1, 2]})
    levels = np.array([5, 5, 4, 4, 0, 3])

    versions = find_versions(keys, NO_AGE, (), [2, 2, 2], levels)

    assert versions.single.tolist() == [False, False, False, True, False, True]
    assert in_order(versions) == [[2, 4]]


def test_versions_among_the_rows_that_share_keys() -> None:
    keys = pl.DataFrame({"k": [1, 2, 3, 4, 2, 4, 9, 4]})
    found = find_versions(keys, pl.DataFrame(), (), [4, 3, 1])
    kept = np.array([False, True, False, True, True, True, False, True])
    left = found.among(kept)
    before = [keys["k"][int(row)] for row in found.rounds.rows]
    assert [keys.filter(pl.Series(kept))["k"][int(row)] for row in left.rounds.rows] == before
    assert left.rounds.heights == found.rounds.heights


# Versions that are folded in rounds give the same result as folding each key alone.


def joined(state: pl.DataFrame, version: pl.DataFrame) -> pl.DataFrame:
    """Append texts, so that the order of the fold shows."""
    return pl.concat([state, version], how="horizontal").select(text=pl.col("text") + pl.col("new"))


def folded(keys: list[int], texts: list[str]) -> list[str]:
    rounds = find_versions(pl.DataFrame({"k": keys}), pl.DataFrame(), ()).rounds
    state = pl.DataFrame({"text": pl.repeat("", rounds.keys, dtype=pl.String, eager=True)})
    return rounds.run(pl.DataFrame({"new": texts})[pl.Series(rounds.rows)], state, joined)["text"].to_list()


def test_round_r_holds_the_r_th_version_of_every_key_that_has_so_many() -> None:
    keys = [1, 2, 3, 2, 3, 3]
    rounds = find_versions(pl.DataFrame({"k": keys}), pl.DataFrame(), ()).rounds
    assert rounds.heights == (2, 2, 1)  # keys 2 and 3, twice; then key 3 alone
    assert rounds.rows.tolist() == [2, 1, 4, 3, 5]
    assert folded(keys, list("abcdef")) == ["cef", "bd"]


@given(st.lists(st.integers(0, 6), max_size=40))
def test_a_fold_in_rounds_is_a_fold_of_each_key(keys: list[int]) -> None:
    texts = [f"{number}," for number in range(len(keys))]
    expected: dict[int, str] = {}
    for key, text in zip(keys, texts, strict=True):
        expected[key] = expected.get(key, "") + text
    assert sorted(folded(keys, texts)) == sorted(text for key, text in expected.items() if keys.count(key) > 1)


@given(st.lists(st.lists(st.integers(0, 6), max_size=20), max_size=4))
def test_rounds_of_parts_that_share_no_key_are_joined(parts: list[list[int]]) -> None:
    keys = [(number, key) for number, part in enumerate(parts) for key in part]
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    each = [
        find_versions(pl.DataFrame({"k": part}, schema={"k": pl.Int64}), pl.DataFrame(), ()).rounds for part in parts
    ]
    rounds = Rounds.joined([Rounds(part.rows + start, part.heights) for part, start in zip(each, starts, strict=True)])
    state = pl.DataFrame({"text": pl.repeat("", rounds.keys, dtype=pl.String, eager=True)})
    texts = pl.DataFrame({"new": [f"{number}," for number in range(len(keys))]}, schema={"new": pl.String})
    expected: dict[tuple[int, int], str] = {}
    for number, key in enumerate(keys):
        expected[key] = expected.get(key, "") + f"{number},"
    found = rounds.run(texts[pl.Series(rounds.rows, dtype=pl.Int64)], state, joined)["text"].to_list()
    assert sorted(found) == sorted(text for key, text in expected.items() if keys.count(key) > 1)
