"""Random histories played by Morrow, then by Java, then by Morrow again: both read the same rows after every snapshot,
and the same changes of every snapshot.

In `make test`, most pairs of values of merge engine, changelog producer, bucket mode, file format, deletion vectors and
partitions occur together in some case; `make test-long` tries all combinations.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from morrow.engine.format import types as t
from tests.interop.histories import ENGINE_OPTIONS, Case, Model, Step, history
from tests.interop.jvm import JavaPaimon
from tests.interop.players import Java, Morrow
from tests.support.canonical import assert_same_rows

AXES: tuple[tuple[Any, ...], ...] = (
    tuple(ENGINE_OPTIONS),
    ("none", "input", "lookup", "full-compaction"),
    ("1", "2", "-1"),
    ("parquet", "orc", "avro"),
    (False, True),
    (False, True),
)


def all_cases() -> list[Case]:
    return [case for values in itertools.product(*AXES) if (case := Case(*values)).is_valid]


LEAST_PAIRS = 24
"""Pairs of values that may be left out: the last of 140 need as many cases as the others."""


def pairwise_cases() -> list[Case]:
    """Choose few cases that cover most valid pairs of values, each time the case with the most new pairs."""

    def pairs(case: Case) -> frozenset[Any]:
        return frozenset(itertools.combinations(vars(case).items(), 2))

    cases = all_cases()
    missing = set().union(*map(pairs, cases))
    chosen = []
    while len(missing) > LEAST_PAIRS:
        best = max(cases, key=lambda case: len(pairs(case) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
CASES, STEPS = (all_cases(), 7) if IS_LONG else (pairwise_cases(), 5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_read_the_same(case: Case, java: JavaPaimon, tmp_path: Path) -> None:
    model = Model(case)
    by_morrow, by_java = Morrow(tmp_path, case), Java(java, tmp_path, case)
    by_morrow.create()

    steps = list(history(case, seed=1, steps=STEPS))
    first, second = len(steps) // 3, 2 * len(steps) // 3
    for player, part in ((by_morrow, steps[:first]), (by_java, steps[first:second]), (by_morrow, steps[second:])):
        _play(player, part, model, by_morrow, by_java)
    _assert_same_changes(by_morrow, by_java, model)


def _play(player: Morrow | Java, steps: Iterable[Step], model: Model, by_morrow: Morrow, by_java: Java) -> None:
    for step in steps:
        seen = by_morrow.latest
        if player.play(step):
            model.play(step)
        for snapshot in range(seen + 1, by_morrow.latest + 1):
            assert_same_rows(by_morrow.read(snapshot), by_java.read(snapshot), model.fields)
        assert_same_rows(by_morrow.read(), model.rows(), model.fields)


def _assert_same_changes(by_morrow: Morrow, by_java: Java, model: Model) -> None:
    """Compare the changes that a stream from the first snapshot gets, snapshot by snapshot, with row kinds."""
    streamed = by_java.stream()
    rowkind = t.DataField(-1, "rowkind", t.VarCharType())
    for snapshot in range(1, by_morrow.latest + 1):
        changes = by_morrow.changes(snapshot)
        assert_same_rows(changes, streamed.get(str(snapshot), []), (rowkind, *model.fields))
