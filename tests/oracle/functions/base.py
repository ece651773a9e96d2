"""Aggregate functions: they combine two values, and some can retract a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from morrow.engine.format import types as t
from tests.oracle.records import RetractionError


@dataclass(frozen=True)
class Call:
    """A column's aggregate function; `options` are the options that begin with ``fields.<column>.``."""

    function: str
    type: t.DataType
    options: Mapping[str, str]

    def flag(self, option: str) -> bool:
        return self.options.get(option) == "true"


class Aggregator:
    """A column's function with fresh state for every key; before the first record its accumulator is null."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def agg(self, accumulator: Any, new: Any) -> Any:
        raise NotImplementedError

    def agg_reversed(self, accumulator: Any, new: Any) -> Any:
        """Add a record that is older than the accumulated ones, which happens in sequence groups."""
        return self.agg(new, accumulator)

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        raise RetractionError(f"{self.call.function} takes no retraction")


class NullsAside(Aggregator):
    """A base class in which a null on either side returns the other side, and `combine` gets two values."""

    def agg(self, accumulator: Any, new: Any) -> Any:
        if accumulator is None or new is None:
            return new if accumulator is None else accumulator
        return self.combine(accumulator, new)

    def combine(self, accumulator: Any, new: Any) -> Any:
        raise NotImplementedError


class IgnoreRetract(Aggregator):
    """``ignore-retract`` around a function. Its `agg_reversed` is always the plain one, not the function's."""

    def __init__(self, inner: Aggregator) -> None:
        super().__init__(inner.call)
        self.inner = inner

    def agg(self, accumulator: Any, new: Any) -> Any:
        return self.inner.agg(accumulator, new)

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return accumulator
