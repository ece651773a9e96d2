"""Columns with arrays in no particular order, since Java fills them from hash sets and hash maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NESTED_TABLES = ("nested_update", "nested_partial_update")


def set_columns(names: Iterable[str], options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in names if _is_unordered(name, options))


def _is_unordered(name: str, options: Mapping[str, str]) -> bool:
    function = options.get(f"fields.{name}.aggregate-function", options.get("fields.default-aggregate-function"))
    return function in NESTED_TABLES or (function == "collect" and options.get(f"fields.{name}.distinct") == "true")
