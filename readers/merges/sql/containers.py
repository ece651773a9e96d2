"""Aggregates of arrays and maps. Java's hash sets and maps have no order; here the order is that of appearance."""

from __future__ import annotations

from morrow.engine.format.types import (
    ArrayType,
    BinaryType,
    MapType,
    MultisetType,
    RowType,
    VarBinaryType,
    VectorType,
)
from morrow.readers.merges.sql.folds import fold, unless_null
from morrow.readers.merges.sql.rows import START, Rows

BYTES = (BinaryType, VarBinaryType)
CONSTRUCTED = (ArrayType, MapType, MultisetType, RowType, VectorType)


def collect(rows: Rows) -> str | None:
    """Returns one array of all elements; the order of a group is irrelevant, unless ``ignore-retract`` hides that."""
    order = rows.place if rows.call.ignore_retract else rows.version
    array = f"flatten(list({rows.column} ORDER BY {order}){rows.where(f'{rows.column} IS NOT NULL')})"
    if not rows.call.distinct:
        return array
    if not _compares_elements(rows):
        return None
    alone = f"count(*){rows.where(f'NOT {rows.steps[START]}')} = 0" if START in rows.steps else "count(*) = 1"
    return f"CASE WHEN {alone} THEN any_value({rows.column}){rows.where()} ELSE {_distinct(rows, array)} END"


def retracted_collect(rows: Rows) -> str | None:
    """Removes, for each retracted element, the first equal one."""
    if not _compares_elements(rows):
        return None

    def add(state: str, value: str) -> str:
        both = f"list_concat({state}, {value})"
        return (
            f"CASE WHEN coalesce({state}, {value}) IS NOT NULL THEN {_distinct(rows, both) if distinct else both} END"
        )

    def take_back(state: str, value: str) -> str:
        x, y, i = rows.variables("x", "y", "i")
        same = f"lambda {y}: {y} IS NOT DISTINCT FROM {x}"
        is_left = f"len(list_filter({state}[:{i}], {same})) > len(list_filter({value}, {same}))"
        return f"CASE WHEN {value} IS NULL THEN {state} ELSE list_filter({state}, lambda {x}, {i}: {is_left}) END"

    distinct = rows.call.distinct
    folded = fold(rows, add, take_back, reverses=False)
    alone = distinct and not rows.in_group  # a single version is never inspected
    return f"CASE WHEN count(*) = 1 THEN any_value({rows.column}) ELSE {folded} END" if alone else folded


def merge_map(rows: Rows) -> str:
    """Replaces earlier entries by later ones of the same key."""
    maps = f"list({rows.column} ORDER BY {rows.place}){rows.where(f'{rows.column} IS NOT NULL')}"
    merged, newer = rows.variables("merged", "newer")
    return f"list_reduce({maps}, lambda {merged}, {newer}: map_concat({merged}, {newer}))"


def retracted_merge_map(rows: Rows) -> str:
    """Removes retracted keys, whatever their values."""

    def take_back(state: str, value: str) -> str:
        (entry,) = rows.variables("entry")
        keeps = f"lambda {entry}: NOT list_contains(map_keys({value}), {entry}.key)"
        left = f"list_filter(map_entries({state}), {keeps})"
        return f"CASE WHEN {state} IS NULL OR {value} IS NULL THEN {state} ELSE map_from_entries({left}) END"

    return fold(rows, unless_null(lambda state, value: f"map_concat({state}, {value})"), take_back)


def _distinct(rows: Rows, array: str) -> str:
    """Keeps the elements of an array at their first places, null among them.

    A list of one array binds the array to a name.
    """
    a, x, i = rows.variables("a", "x", "i")
    first = f"list_filter({a}, lambda {x}, {i}: list_position({a}, {x}) = {i})"
    return f"list_transform([{array}], lambda {a}: {first})[1]"


def _compares_elements(rows: Rows) -> bool:
    """Returns whether DuckDB's equality of those elements is Java's.

    In Java, byte arrays equal only themselves, and rows, arrays and maps in the state are assumed to be distinct, which
    those of a start need not be.
    """
    assert isinstance(rows.type, ArrayType)
    element = rows.type.element
    trusts = rows.call.distinct and isinstance(element, CONSTRUCTED) and not rows.only_appends
    return not isinstance(element, BYTES) and not trusts
