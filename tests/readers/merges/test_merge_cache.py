"""Merged rows in blocks: the part that a commit changes, and the rows of earlier snapshots."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from morrow.readers.merges import sections
from morrow.readers.merges.sections import Merged


def of(keys: list[int], state: int) -> Merged:
    rows = pl.DataFrame({"k": keys, "state": [state] * len(keys)}, schema={"k": pl.Int64, "state": pl.Int64})
    return Merged.of(rows, np.array(keys, np.int64))


@pytest.mark.parametrize(("blocks", "dead"), [(1, 4), (3, 2), (100, 1)])
def test_states_after_commits_are_those_of_a_mapping(blocks: int, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_BLOCKS", blocks)
    monkeypatch.setattr(sections, "MIN_ROWS_PER_DEAD_ROW", dead)
    random = np.random.default_rng(blocks)
    start = random.permutation(200).tolist()  # in random order
    state, expected = of(start, 0), dict.fromkeys(start, 0)
    states = [(state, dict(expected))]
    for number in range(1, 25):
        changed = random.choice(220, 15, replace=False).tolist()
        made = changed[: random.integers(0, 16)]  # the others are deleted
        expected = {k: v for k, v in expected.items() if k not in changed} | dict.fromkeys(made, number)
        state = state.changed(np.sort(np.array(changed, np.int64)), [of(made, number)] if made else [])
        states.append((state, dict(expected)))
    for found, wanted in states:
        assert dict(found.rows.iter_rows()) == wanted and found.rows.height == len(wanted)
        assert sorted(found.fingerprints.tolist()) == sorted(wanted) and found.size > 0
        again = Merged.of_frame(found.framed, found.rows.schema)
        assert again is not None and again.rows.equals(found.rows)


def test_keys_of_one_fingerprint_leave_together() -> None:
    both = Merged.of(pl.DataFrame({"k": ["a", "b", "c"]}), np.array([7, 9, 7], np.int64))

    assert both.changed(np.array([7]), []).rows["k"].to_list() == ["b"]
