"""Functions of texts, arrays, maps and nested tables.

Java keeps distinct values in hash sets and hash maps, so arrays of `collect` with ``distinct`` and of nested tables
come in any order, and so do maps. Here the order is that of first appearance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from morrow.engine.format import types as t
from tests.oracle.functions.base import Aggregator, Call, NullsAside

Pairs = list[tuple[Any, Any]]
Nested = list[dict[str, Any] | None]
CONSTRUCTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VectorType)


class Listagg(NullsAside):
    def combine(self, accumulator: str, new: str) -> str:
        delimiter = self.call.options.get("list-agg-delimiter", ",")
        if not accumulator or not new:
            return accumulator or new
        if not self.call.flag("distinct"):
            return accumulator + delimiter + new
        # An empty delimiter splits at blanks, but joins without a separator.
        seen = set(accumulator.split(delimiter or " "))
        for token in new.split(delimiter or " "):
            if token and token not in seen:
                seen.add(token)
                accumulator += delimiter + token
        return accumulator


class Collect(Aggregator):
    """A list of values; ``distinct`` compares arrays, maps and rows one by one, and trusts the accumulator."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        assert isinstance(call.type, t.ArrayType)
        self.distinct = call.flag("distinct")
        self.trusts = isinstance(call.type.element, CONSTRUCTED)

    def agg(self, accumulator: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        if accumulator is None and new is None:
            return None
        if not self.distinct:
            return [*(accumulator or ()), *(new or ())]
        result = list(accumulator or ()) if self.trusts else []
        for element in new or () if self.trusts else [*(accumulator or ()), *(new or ())]:
            if not any(same(element, one) for one in result):
                result.append(element)
        return result

    def agg_reversed(self, accumulator: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        return self.agg(accumulator, new)

    def retract(self, accumulator: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        """Remove one equal element, from the front, for each retracted one."""
        if accumulator is None or not new:
            return accumulator
        taken, left = list(new), []
        for element in accumulator:
            at = next((i for i, one in enumerate(taken) if same(one, element)), None)
            if at is None:
                left.append(element)
            else:
                taken.pop(at)
        return left


def same(a: Any, b: Any) -> bool:
    """Compare like Java's ``equals``: zeros have a sign, NaN equals itself, and byte arrays are never equal."""
    if isinstance(a, float) and isinstance(b, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, bytes):
        return False
    return bool(a == b)


class MergeMap(NullsAside):
    def combine(self, accumulator: Pairs, new: Pairs) -> Pairs:
        result = list(accumulator)
        for key, value in new:
            at = next((i for i, (known, _) in enumerate(result) if same(known, key)), len(result))
            result[at : at + 1] = [(key, value)]
        return result

    def retract(self, accumulator: Pairs | None, new: Pairs | None) -> Pairs | None:
        if accumulator is None or not new:
            return accumulator
        return [(key, value) for key, value in accumulator if not any(same(key, taken) for taken, _ in new)]


class MergeMapWithKeyTime(NullsAside):
    """A map of rows with a time as text: the later row is kept, a null row removes the key, a null time is skipped."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        assert isinstance(call.type, t.MapType) and isinstance(call.type.value, t.RowType)
        self.time = call.options.get("ts-field") or call.type.value.fields[-1].name

    def combine(self, accumulator: Pairs, new: Pairs) -> Pairs:
        result = dict(accumulator)
        for key, row in new:
            if row is None:
                result.pop(key, None)
            elif row[self.time] is not None:
                old = result.get(key)
                if old is None or old[self.time] is None or utf16(row[self.time]) > utf16(old[self.time]):
                    result[key] = row
        return list(result.items())


def utf16(text: str) -> bytes:
    """Return the 16-bit units of a text, which Java compares."""
    return text.encode("utf-16-be", "surrogatepass")


class NestedTable(NullsAside):
    """An array of rows, with or without a key."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.key = [name.strip() for name in call.options.get("nested-key", "").split(",") if name.strip()]

    def key_of(self, row: dict[str, Any]) -> Hashable:
        """Return a key that compares by bytes as in Java: zeros have a sign and NaN equals itself."""
        return tuple(repr(row[name]) for name in self.key)


class NestedUpdate(NestedTable):
    def combine(self, accumulator: Nested, new: Nested) -> Nested:
        limit = int(self.call.options.get("count-limit", 2**31 - 1))
        if len(accumulator) >= limit:
            return accumulator
        rows = _not_null(accumulator) + _not_null(new)[: limit - len(accumulator)]
        return list({self.key_of(row): row for row in rows}.values()) if self.key else [*rows]

    def retract(self, accumulator: Nested | None, new: Nested | None) -> Nested | None:
        if accumulator is None or new is None:
            return accumulator
        if not self.key:
            return [row for row in _not_null(accumulator) if row not in _not_null(new)]
        rows = {self.key_of(row): row for row in _not_null(accumulator)}
        for row in _not_null(new):
            rows.pop(self.key_of(row), None)
        return list(rows.values())


class NestedPartialUpdate(NestedTable):
    def combine(self, accumulator: Nested, new: Nested) -> Nested:
        rows: dict[Hashable, dict[str, Any]] = {}
        for row in _not_null(accumulator) + _not_null(new):
            known = rows.setdefault(self.key_of(row), dict.fromkeys(row))
            known.update({name: value for name, value in row.items() if value is not None})
        return list(rows.values())


def _not_null(rows: Nested) -> list[dict[str, Any]]:
    return [row for row in rows if row is not None]
