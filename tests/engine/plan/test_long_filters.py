"""Filters made by programs: long lists, long chains and deep nesting; and equality of filters."""

from __future__ import annotations

import functools
import operator
import pickle
from decimal import Decimal

import polars as pl
import pyarrow.compute as pc
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.predicate import And, Leaf, Op, Or
from tests.support.predicates import FIELDS

LONG = range(5_000)
X, S = pl.col("x"), pl.col("s")


def listed(values: range) -> str:
    return ", ".join(map(str, values))


def test_a_long_list_is_read_without_a_parser() -> None:
    numbers = parse_filter(f"l not in ( {listed(LONG)} ) AND x = 1", FIELDS)
    assert numbers.predicate == And((Leaf("l", Op.NOT_IN, tuple(LONG)), Leaf("x", Op.EQ, (1,))))
    texts = ",".join(f"'it''s {i}'" for i in LONG)
    assert parse_filter(f"s IN({texts})", FIELDS).predicate == Leaf("s", Op.IN, tuple(f"it's {i}" for i in LONG))
    decimals = parse_filter(f"dec IN (-0.5, {listed(LONG)})", FIELDS).predicate
    assert isinstance(decimals, Leaf)
    assert decimals.literals[:3] == (Decimal("-0.5"), 0, 1)
    signed = parse_filter(f"x IN (-1, {listed(LONG)}, 99999999999)", FIELDS).predicate
    assert signed == Leaf("x", Op.IN, (-1, *LONG))


def test_what_looks_like_a_long_list_may_be_text() -> None:
    text = f"x IN ({listed(LONG)})"
    assert parse_filter(f"s = '{text}'", FIELDS).predicate == Leaf("s", Op.EQ, (text,))
    assert parse_filter(f"{text} -- a comment\n AND s = 'a'", FIELDS).columns == {"x", "s"}
    for refused in (f"x IN ({listed(LONG)}", f"x IN ({listed(LONG)}) x"):
        with pytest.raises(InvalidArgument, match="does not parse") as raised:
            parse_filter(refused, FIELDS)
        assert len(str(raised.value)) < 2_000


def test_a_long_list_that_only_duckdb_can_test_is_given_to_it_as_written() -> None:
    text = f"x + 1 IN ({listed(LONG)})"
    (residual,) = parse_filter(f"x > 0 AND {text}", FIELDS).residuals
    assert (residual.text, residual.columns) == (text, {"x"})
    mixed = f"l IN ({listed(LONG)}, 1e0)"
    assert parse_filter(mixed, FIELDS).residuals[0].text == mixed


def test_long_chains_of_comparisons_are_lists() -> None:
    differ, same = Leaf("x", Op.NOT_IN, tuple(LONG)), Leaf("x", Op.IN, tuple(LONG))
    assert parse_filter(" AND ".join(f"x <> {i}" for i in LONG), FIELDS).predicate == differ
    assert parse_filter(functools.reduce(operator.and_, [i != X for i in LONG]), FIELDS).predicate == differ
    assert parse_filter(functools.reduce(operator.and_, [pc.field("x") != i for i in LONG]), FIELDS).predicate == differ
    assert parse_filter(functools.reduce(operator.or_, [i == X for i in LONG]), FIELDS).predicate == same
    assert parse_filter(functools.reduce(operator.or_, [pc.field("x") == i for i in LONG]), FIELDS).predicate == same
    either = parse_filter(" OR ".join(f"(x = {i} AND s = 'a')" for i in LONG[:1_000]), FIELDS).predicate
    assert isinstance(either, Or)
    assert len(either.children) == 1_000


def nested(column: pl.Expr, levels: int) -> pl.Expr:
    made = column == 5
    for i in range(levels):
        made = (made & (column < 1_000 + i)) | (column == 2_000 + i)
    return made


def test_deep_nesting_is_answered_or_refused_with_a_type() -> None:
    (residual,) = parse_filter(nested(X, 300), FIELDS).residuals
    assert residual.columns == {"x"}
    deep = functools.reduce(
        lambda made, i: (made & (pc.field("x") < i)) | (pc.field("l") == i), range(300), pc.scalar(True)
    )
    assert parse_filter(deep, FIELDS).residuals[0].columns == {"x", "l"}
    for text in (
        "(" * 900 + "x = 1" + ")" * 900,
        "NOT (" * 900 + "x = 1" + ")" * 900,
        "abs(" * 900 + "x" + ")" * 900 + " = 1",
    ):
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            parse_filter(text, FIELDS)


ALIKE = [
    (pl.col("d").is_in([0.0, 0.1, 0.2, 0.3, 0.4]), pl.col("d").is_in([0.0, 0.1, 7.2, 7.3, 0.4])),
    (S.str.contains("a.b", literal=False), S.str.contains("a.b", literal=True)),
    (pl.col("d").round(0) == 5.0, pl.col("d").round(1) == 5.0),
    (pl.col("d").is_in(pl.Series([1.0]).implode()), pl.col("d").is_in(pl.Series([2.0]).implode())),
    (pc.field("d").isin([*range(20), 50.5, *range(20)]), pc.field("d").isin([*range(20), 60.5, *range(20)])),
]


@pytest.mark.parametrize("number", range(len(ALIKE)))
def test_filters_whose_text_is_alike_are_two(number: int) -> None:
    one, other = (parse_filter(filter, FIELDS) for filter in ALIKE[number])
    again = parse_filter(ALIKE[number][0], FIELDS)
    assert one.text == other.text
    assert one != other
    assert one == again == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(again)
    assert one.is_identified


@pytest.mark.parametrize("text", ["s = '\ud800'", "upper(s) = '\udfff'", "\ud800 = 1"])
def test_half_a_character_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="half of a surrogate pair"):
        parse_filter(text, FIELDS)


def test_a_python_function_is_the_same_as_none_but_itself() -> None:
    least = 1
    filter = X.map_elements(lambda x: x > least + len("a"), return_dtype=pl.Boolean)
    one, again = parse_filter(filter, FIELDS), parse_filter(filter, FIELDS)
    assert not one.is_identified
    assert one == one
    assert one != again
    with pytest.raises(InvalidArgument, match="looks at more than one row"):
        parse_filter(X.map_batches(lambda column: column.is_first_distinct(), return_dtype=pl.Boolean), FIELDS)
