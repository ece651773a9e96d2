"""What an aggregate function is: two values become one, and perhaps a value can be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from morrow.engine.format import types as t
from tests.oracle.records import RetractionError


@dataclass(frozen=True)
class Call:
    """An aggregate function as a column has it; `options` are those that begin with ``fields.<column>.``."""

    function: str
    type: t.DataType
    options: Mapping[str, str]

    def flag(self, option: str) -> bool:
        return self.options.get(option) == "true"


class Aggregator:
    """The function of one column, fresh for every key; null is what it accumulates before the first record."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def agg(self, accumulator: Any, new: Any) -> Any:
        raise NotImplementedError

    def agg_reversed(self, accumulator: Any, new: Any) -> Any:
        """Add a record that is older than what has been accumulated, as sequence groups have them."""
        return self.agg(new, accumulator)

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        raise RetractionError(f"{self.call.function} takes no retraction")


class NullsAside(Aggregator):
    """A null on either side leaves the other side as it is; `combine` sees two values."""

    def agg(self, accumulator: Any, new: Any) -> Any:
        if accumulator is None or new is None:
            return new if accumulator is None else accumulator
        return self.combine(accumulator, new)

    def combine(self, accumulator: Any, new: Any) -> Any:
        raise NotImplementedError


class IgnoreRetract(Aggregator):
    """``ignore-retract`` around a function. Its own `agg_reversed` is the plain one, whatever the function's is."""

    def __init__(self, inner: Aggregator) -> None:
        super().__init__(inner.call)
        self.inner = inner

    def agg(self, accumulator: Any, new: Any) -> Any:
        return self.inner.agg(accumulator, new)

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return accumulator
