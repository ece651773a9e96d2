"""Rows that share a key are found for every type of key, however its hashes fall."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks import hashed_keys
from morrow.readers.masks.hashed_keys import shared_keys
from morrow.readers.masks.ordering import comparable, newest_of_each_key
from morrow.readers.merges.versions import versions_of

LONG_TEXT = "x" * (1 << 20)
NANOS = pl.Datetime("ns")
KEYS: dict[str, tuple[Any, list[Any]]] = {
    "text": (pl.String, ["", "\0", "a", "a\0", "a\0\0", "ä", "🙂", "user-1", "user-10", LONG_TEXT, LONG_TEXT + "\0"]),
    "bytes": (pl.Binary, [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff" * 9]),
    "decimal": (pl.Decimal(38, 2), [Decimal(v) for v in ("0", "-0.01", "0.01", "9" * 36 + ".99", "-" + "9" * 36)]),
    "timestamp": (pl.Datetime("us"), [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59)]),
    "nanos": (NANOS, [datetime(1677, 9, 22), datetime(1970, 1, 1), datetime(2262, 4, 11)]),
    "date": (pl.Date, [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "time": (pl.Time, [time(0), time(23, 59, 59, 999_999)]),
    "float": (pl.Float64, [float("nan"), -0.0, 0.0, 1.5, float("-inf"), 5e-324]),
    "bool": (pl.Boolean, [False, True]),
    "bigint": (pl.Int64, [-(2**63), -1, 0, 2**63 - 1]),
    "int": (pl.Int32, [-(2**31), 0, 2**31 - 1]),
}


def same(value: Any) -> Any:
    """Returns the value as keys compare it: -0.0 is 0.0, and NaN equals itself."""
    return ("NaN" if value != value else value + 0.0) if isinstance(value, float) else value


@st.composite
def runs_of_keys(draw: st.DrawFn) -> tuple[pl.DataFrame, list[int]]:
    """Files of keys, each sorted and with no key twice, the first often with most of the rows."""
    names = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=5))
    key = st.tuples(*(st.sampled_from(range(len(KEYS[name][1]))) for name in names))
    first = draw(st.lists(key, min_size=0, max_size=40))
    others = draw(st.lists(st.lists(key, max_size=6), max_size=4))
    rows: list[tuple[Any, ...]] = []
    heights = []
    for run in (first, *others):
        values = [tuple(KEYS[name][1][i] for name, i in zip(names, each)) for each in sorted(set(run))]
        unique = list({tuple(map(same, each)): each for each in values}.values())
        rows += unique
        heights.append(len(unique))
    columns = [
        pl.Series(f"k{i}", [row[i] for row in rows], dtype=KEYS[name][0], strict=False) for i, name in enumerate(names)
    ]
    return pl.DataFrame(columns), heights


@given(runs_of_keys(), st.booleans())
def test_as_a_dictionary_finds_them(keys: tuple[pl.DataFrame, list[int]], with_runs: bool) -> None:
    frame, heights = keys
    runs = heights if with_runs else None
    values = [tuple(map(same, row)) for row in frame.rows()]
    last = {value: number for number, value in enumerate(values)}

    newest = newest_of_each_key(frame, pl.DataFrame(), (), runs)
    versions = versions_of(frame, pl.DataFrame(), (), runs)

    assert np.flatnonzero(newest).tolist() == sorted(last.values())
    assert versions.single.tolist() == [values.count(value) == 1 for value in values]
    rows, rounds, start = versions.rounds.rows.tolist(), [], 0
    for height in versions.rounds.heights:
        rounds.append(rows[start : start + height])
        start += height
    found = (
        {values[row]: [held[i] for held in rounds if i < len(held)] for i, row in enumerate(rounds[0])} if rows else {}
    )
    several = {v: [i for i, value in enumerate(values) if value == v] for v in last if values.count(v) > 1}
    assert found == several


@given(runs_of_keys(), st.lists(st.sampled_from([None, 0, 1, 2]), min_size=80, max_size=80), st.booleans())
def test_ages_come_before_positions(
    keys: tuple[pl.DataFrame, list[int]], ages: list[int | None], descending: bool
) -> None:
    frame, runs = keys
    age = pl.DataFrame({"age": pl.Series(ages[: frame.height], dtype=pl.Int64)})
    last: dict[Any, tuple[Any, int]] = {}
    for number, row in enumerate(frame.rows()):
        held = ages[number]
        rank = (-1_000 if held is None else -held if descending else held, number)
        value = tuple(map(same, row))
        last[value] = max(last.get(value, rank), rank)

    newest = newest_of_each_key(frame, age, [descending], runs)

    assert np.flatnonzero(newest).tolist() == sorted(number for _, number in last.values())


@pytest.mark.parametrize("bits", [1, 3])
@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 40))
def test_hashes_that_meet_in_a_slot_are_told_apart(bits: int, values: list[int], long: int) -> None:
    long = min(long, len(values))
    hashes = np.array([*dict.fromkeys(values[:long]), *values[long:]], np.uint64)
    long = len(dict.fromkeys(values[:long]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashed_keys, "SLOTS", 0)
        patch.setattr(hashed_keys, "LEAST_BITS", bits)
        newest = hashed_keys._newest(hashes, long)
    last = {value: number for number, value in enumerate(hashes.tolist())}
    assert newest.tolist() == [-1 if last[v] == i else last[v] for i, v in enumerate(hashes.tolist())]


def test_a_hash_never_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pl.DataFrame({"k": ["a", "b", "a", "c"]})
    monkeypatch.setattr(hashed_keys, "hashed", lambda frame: np.zeros(frame.height, np.uint64))

    assert shared_keys(keys, [2, 2]) is None
    assert newest_of_each_key(keys, pl.DataFrame(), (), [2, 2]).tolist() == [False, True, True, True]
    assert versions_of(keys, pl.DataFrame(), (), [2, 2]).single.tolist() == [False, True, False, True]


def test_files_that_follow_one_another_are_one_run() -> None:
    keys = pl.DataFrame({"k": ["a", "a", "a", "b"], "n": [1, 2, 3, 0]})
    assert hashed_keys._long(comparable(keys), [2, 2, 0]) == 4
    assert hashed_keys._long(comparable(keys[::-1]), [2, 2]) == 0
    assert hashed_keys._long(comparable(keys), [3, 1]) == 4
    assert hashed_keys._long(comparable(pl.DataFrame({"k": [1.0, 2.0], "n": [1, 2]})), [2]) == 2  # floats as numbers
