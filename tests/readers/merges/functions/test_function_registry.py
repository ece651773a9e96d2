"""Aggregators for calls: built-in functions, ignored retractions, and functions of other packages."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import polars as pl
import pytest

from morrow.engine import plugins
from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataType, IntType, VarCharType
from morrow.engine.merge.functions import BUILT_IN
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.merges.functions import AGGREGATORS, find_aggregator
from morrow.readers.merges.functions.base import VALUE, Aggregator, State
from tests.support.aggregates import folded, function, stepped


class Longest(Aggregator):
    """A user's function that keeps the longest text."""

    def agg(self, state: State, new: pl.Expr) -> State:
        longer = new.str.len_chars() > state[VALUE].str.len_chars().fill_null(-1)
        return {VALUE: pl.when(longer).then(new).otherwise(state[VALUE])}


class AtLeast(Aggregator):
    """A user's function that is created for its column and an option."""

    def __init__(self, call: AggregateCall, dtype: DataType) -> None:
        assert dtype == IntType()
        self.floor = int(dict(call.options)["floor"])

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: pl.max_horizontal(state[VALUE], new, pl.lit(self.floor, dtype=pl.Int32))}


def install(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    class Entry(metadata.EntryPoint):
        def load(self) -> Any:
            return functions[self.name]

    def entry_points(group: str, name: str) -> metadata.EntryPoints:
        return metadata.EntryPoints(Entry(name, f"package:{name}", group) for name in functions).select(
            group="morrow.aggregate_functions", name=name
        )

    monkeypatch.setattr(plugins, "entry_points", entry_points)


def test_every_function_that_is_described_computes() -> None:
    assert set(BUILT_IN) <= set(AGGREGATORS)


def test_every_described_retraction_is_there() -> None:
    for name in ("sum", "product", "count", "last_value", "last_non_null_value"):
        assert BUILT_IN[name].retracts
        assert function(name, IntType()).retract({VALUE: pl.col("acc")}, pl.col("new")) is not None


def test_ignored_retractions_change_nothing() -> None:
    assert stepped("retract", "sum", IntType(), [(7, 2), (None, 2)], ignore_retract=True) == [7, None]
    assert folded("max", IntType(), ("agg", 2), ("retract", 9), ("agg", 5), ignore_retract=True) == 5


def test_the_rest_of_a_function_is_untouched_by_ignored_retractions() -> None:
    assert function("first_value", IntType(), ignore_retract=True).picks
    assert folded("first_value", IntType(), ("agg", None), ("retract", 9), ("agg", 5), ignore_retract=True) is None
    assert folded("first_value", IntType(), ("agg", 1), ("agg_reversed", 0), ignore_retract=True) == 0


def test_a_function_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, longest=Longest())
    assert folded("longest", VarCharType(), ("agg", "a"), ("agg", "abc"), ("agg", "ab")) == "abc"


def test_a_function_of_another_package_may_be_made_for_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, at_least=AtLeast)
    assert folded("at_least", IntType(), ("agg", 1), ("agg", 2), options=(("floor", "5"),)) == 5


def test_a_built_in_function_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, max=Longest())
    assert folded("max", IntType(), ("agg", 1), ("agg", 2)) == 2


def test_what_does_not_compute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, shortest="no aggregator")
    with pytest.raises(Unsupported, match=r"'median' is not supported; known are last_value, "):
        find_aggregator(AggregateCall("median"), IntType())
    with pytest.raises(Unsupported, match=r"'shortest' is not supported; its entry point .* 'no aggregator'"):
        find_aggregator(AggregateCall("shortest"), IntType())
