"""First and last values, null or not: which value stays, and what a retraction or an older record does to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import ArrayType, IntType, VarCharType
from tests.support.aggregates import folded, function, stepped

TEXT = VarCharType()
# Accumulator and new value: every way in which they can be null.
PAIRS = [(None, None), (None, "new"), ("acc", None), ("acc", "new")]


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        ("last_value", "agg", [None, "new", None, "new"]),
        ("last_value", "agg_reversed", [None, None, "acc", "acc"]),
        ("last_value", "retract", [None, None, None, None]),
        ("last_non_null_value", "agg", [None, "new", "acc", "new"]),
        ("last_non_null_value", "agg_reversed", [None, "new", "acc", "acc"]),
        ("last_non_null_value", "retract", [None, None, "acc", None]),
        ("primary-key", "agg", [None, "new", None, "new"]),
        ("primary-key", "retract", [None, "new", None, "new"]),
        # The first functions begin anew here: their first value is not taken yet.
        ("first_value", "agg", [None, "new", None, "new"]),
        ("first_value", "agg_reversed", [None, None, "acc", "acc"]),
        ("first_non_null_value", "agg", [None, "new", "acc", "new"]),
        ("first_non_null_value", "agg_reversed", [None, "new", "acc", "acc"]),
    ],
)
def test_one_step(name: str, step: str, expected: list[Any]) -> None:
    value = stepped(step, name, TEXT, PAIRS)
    assert (value if len(value) == len(PAIRS) else value * len(PAIRS)) == expected  # a null literal is one row


def test_first_value_keeps_a_null() -> None:
    assert folded("first_value", TEXT, ("agg", None), ("agg", "a"), ("agg", "b")) is None
    assert folded("first_non_null_value", TEXT, ("agg", None), ("agg", "a"), ("agg", "b")) == "a"


def test_an_older_record_is_a_better_first_value() -> None:
    assert folded("first_value", TEXT, ("agg", "b"), ("agg_reversed", "a"), ("agg", "c")) == "a"


def test_an_older_null_replaces_the_first_value_as_in_java() -> None:
    for name in ("first_value", "first_non_null_value"):
        assert folded(name, TEXT, ("agg", "b"), ("agg_reversed", None)) is None


def test_a_reversed_step_that_finds_nothing_taken_takes_the_accumulator() -> None:
    # The swapped step sees nothing but the null accumulator: first_value takes that for the first value.
    assert folded("first_value", TEXT, ("agg_reversed", "a"), ("agg", "b")) is None
    assert folded("first_non_null_value", TEXT, ("agg_reversed", "a"), ("agg", "b")) == "b"


def test_all_of_them_pick_and_so_take_columns_of_every_type() -> None:
    for name in ("last_value", "last_non_null_value", "first_value", "first_non_null_value", "primary-key"):
        assert function(name, ArrayType(element=IntType())).picks


def test_first_values_cannot_be_retracted() -> None:
    for name in ("first_value", "first_non_null_value"):
        compiled = function(name, TEXT)
        assert compiled.retract({}, None) is None  # type: ignore[arg-type]  # neither is looked at


@given(st.lists(st.none() | st.integers(-5, 5), min_size=1))
def test_folds_pick_what_their_names_say(values: list[int | None]) -> None:
    def fold(name: str) -> Any:
        return folded(name, IntType(), *(("agg", value) for value in values))

    present = [value for value in values if value is not None]
    first, last = (present[0], present[-1]) if present else (None, None)
    assert (fold("first_value"), fold("last_value")) == (values[0], values[-1])
    assert (fold("first_non_null_value"), fold("last_non_null_value")) == (first, last)
