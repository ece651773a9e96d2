"""bool_and and bool_or leave nulls out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import BooleanType
from tests.support.aggregates import folded, function, stepped

PAIRS = [(a, b) for a in (None, False, True) for b in (None, False, True)]


def test_bool_and() -> None:
    expected = [None, False, True, False, False, False, True, False, True]
    assert stepped("agg", "bool_and", BooleanType(), PAIRS) == expected


def test_bool_or() -> None:
    expected = [None, False, True, False, False, True, True, True, True]
    assert stepped("agg", "bool_or", BooleanType(), PAIRS) == expected


def test_neither_can_be_retracted() -> None:
    for name in ("bool_and", "bool_or"):
        assert function(name, BooleanType()).retract({}, None) is None  # type: ignore[arg-type]  # neither is looked at


@given(st.lists(st.booleans(), min_size=1))
def test_folds_are_all_and_any(values: list[bool]) -> None:
    steps = [("agg", value) for value in values]
    assert folded("bool_and", BooleanType(), *steps) is all(values)
    assert folded("bool_or", BooleanType(), *steps) is any(values)
