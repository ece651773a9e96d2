"""listagg: what is appended, and what distinct leaves out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import VarCharType
from tests.support.aggregates import folded, function, stepped

TEXT = VarCharType()


def test_nulls_and_empty_texts_are_left_out() -> None:
    pairs = [
        (None, None),
        (None, "b"),
        ("a", None),
        ("a", "b"),
        ("a", ""),
        ("", "b"),
        (None, ""),
        ("", None),
        ("a", " "),
    ]
    expected = [None, "b", "a", "a,b", "a", "b", "", "", "a, "]
    assert stepped("agg", "listagg", TEXT, pairs) == expected
    assert stepped("agg", "listagg", TEXT, pairs, distinct=True) == expected


def test_the_delimiter_may_be_any_text() -> None:
    assert stepped("agg", "listagg", TEXT, [("a", "b")], delimiter=" - ") == ["a - b"]
    assert stepped("agg", "listagg", TEXT, [("a", "b")], delimiter="") == ["ab"]


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        ("a", "a", "a"),
        ("a,b", "b,c", "a,b,c"),
        ("a", "c,b,c,a", "a,c,b"),  # tokens come in their own order, once
        ("a", "b,,c,", "a,b,c"),  # empty tokens are left out
        ("a,a,,", "b", "a,a,,,b"),  # what is there stays as it is
        ("a", ",", "a"),
        ("aa", "a", "aa,a"),  # tokens, not parts of them
        ("é", "𐀀,é", "é,𐀀"),
    ],
)
def test_distinct_appends_new_tokens(acc: str, new: str, expected: str) -> None:
    assert stepped("agg", "listagg", TEXT, [(acc, new)], distinct=True) == [expected]


def test_distinct_with_an_empty_delimiter_splits_at_blanks() -> None:
    assert stepped("agg", "listagg", TEXT, [("a b", "b c")], distinct=True, delimiter="") == ["a bc"]


def test_the_delimiter_is_no_pattern() -> None:
    assert stepped("agg", "listagg", TEXT, [("a.b", "b.c")], distinct=True, delimiter=".") == ["a.b.c"]


def test_a_first_value_is_not_looked_into() -> None:
    assert folded("listagg", TEXT, ("agg", "a,a,,b"), distinct=True) == "a,a,,b"


def test_an_older_text_goes_before() -> None:
    assert folded("listagg", TEXT, ("agg", "b"), ("agg_reversed", "a")) == "a,b"


def test_it_cannot_be_retracted() -> None:
    assert function("listagg", TEXT).retract({}, None) is None  # type: ignore[arg-type]  # neither is looked at


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "ab", ""])).map(";".join), min_size=1, max_size=5))
def test_distinct_is_a_set_in_order(texts: list[str]) -> None:
    expected, *rest = [text for text in texts if text] or [""]
    for token in ";".join(rest).split(";"):
        expected += f";{token}" if token and token not in expected.split(";") else ""
    assert folded("listagg", TEXT, *(("agg", text) for text in texts), distinct=True, delimiter=";") == expected
