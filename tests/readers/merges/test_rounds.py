"""Versions laid out in rounds give what folding each key alone gives."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.merges.rounds import Rounds
from morrow.readers.merges.versions import versions_of


def joined(state: pl.DataFrame, version: pl.DataFrame) -> pl.DataFrame:
    """Folds texts one behind the other, which shows the order."""
    return pl.concat([state, version], how="horizontal").select(text=pl.col("text") + pl.col("new"))


def folded(keys: list[int], texts: list[str]) -> list[str]:
    rounds = versions_of(pl.DataFrame({"k": keys}), pl.DataFrame(), ()).rounds
    state = pl.DataFrame({"text": pl.repeat("", rounds.keys, dtype=pl.String, eager=True)})
    return rounds.run(pl.DataFrame({"new": texts})[pl.Series(rounds.rows)], state, joined)["text"].to_list()


def test_round_r_holds_the_r_th_version_of_every_key_that_has_so_many() -> None:
    keys = [1, 2, 3, 2, 3, 3]
    rounds = versions_of(pl.DataFrame({"k": keys}), pl.DataFrame(), ()).rounds
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
    each = [versions_of(pl.DataFrame({"k": part}, schema={"k": pl.Int64}), pl.DataFrame(), ()).rounds for part in parts]
    rounds = Rounds.joined([Rounds(part.rows + start, part.heights) for part, start in zip(each, starts, strict=True)])
    state = pl.DataFrame({"text": pl.repeat("", rounds.keys, dtype=pl.String, eager=True)})
    texts = pl.DataFrame({"new": [f"{number}," for number in range(len(keys))]}, schema={"new": pl.String})
    expected: dict[tuple[int, int], str] = {}
    for number, key in enumerate(keys):
        expected[key] = expected.get(key, "") + f"{number},"
    found = rounds.run(texts[pl.Series(rounds.rows, dtype=pl.Int64)], state, joined)["text"].to_list()
    assert sorted(found) == sorted(text for key, text in expected.items() if keys.count(key) > 1)
