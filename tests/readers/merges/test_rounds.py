"""Versions laid out in rounds give what folding each key alone gives."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

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
