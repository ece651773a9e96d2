"""Aggregates of numbers, booleans and text, and those that pick one of the values."""

from __future__ import annotations

from morrow.engine.format.types import DecimalType, DoubleType, FloatType
from morrow.readers.expressions.sql import quote_text
from morrow.readers.merges.sql.folds import first_taken, fold, reduced, unless_null
from morrow.readers.merges.sql.rows import PREPEND, RETRACT, START, UNDO, Build, Rows
from morrow.readers.merges.sql.types import type_name

MAX_DECIMAL_SCALE = 38
APPROXIMATE = (FloatType, DoubleType)


def aggregate_of(name: str) -> Build:
    """Returns the builder of an aggregate function that DuckDB has."""
    return lambda rows: f"{name}({rows.column}){rows.where()}"


# --- numbers ---


def sum_of(rows: Rows) -> str:
    """Sums integers and decimals in any order; floats in sequence, since their sum depends on order and width."""
    if isinstance(rows.type, APPROXIMATE):
        return reduced(rows, _signed(rows), lambda total, value: f"{total} + {value}")
    return f"CAST(sum({_signed(rows)}){rows.where()} AS {type_name(rows.type)})"


def _signed(rows: Rows) -> str:
    """Returns the value, negative where it is retracted."""
    column = rows.column
    signs = {RETRACT: f"-{column}", UNDO: f"{column} - {column}"}
    cases = [f"WHEN {rows.steps[step]} THEN {signed}" for step, signed in signs.items() if step in rows.steps]
    return f"CASE {' '.join(cases)} ELSE {column} END" if cases else column


def product(rows: Rows) -> str | None:
    if not isinstance(rows.type, DecimalType):
        return reduced(rows, rows.column, lambda state, value: f"{state} * {value}")
    if 2 * rows.type.scale > MAX_DECIMAL_SCALE:
        return None
    kind = type_name(rows.type)
    return reduced(rows, rows.column, lambda state, value: f"CAST({state} * {value} AS {kind})")


def retracted_product(rows: Rows) -> str | None:
    """Divides retracted factors out; DuckDB does not divide decimals as decimals."""
    if isinstance(rows.type, DecimalType):
        return None
    sign = "/" if isinstance(rows.type, APPROXIMATE) else "//"
    return fold(
        rows,
        unless_null(lambda state, value: f"{state} * {value}"),
        lambda state, value: f"CASE WHEN {value} IS NULL THEN {state} ELSE {state} {sign} {value} END",
    )


def count(rows: Rows) -> str | None:
    """Counts non-null values; a single version, which is never inspected, has a count as its value."""
    if rows.in_group or rows.cut:
        return None
    total = f"count({rows.column})"
    if rows.may_retract:
        retracts = rows.retracts
        total = f"{total}{rows.where(f'NOT {retracts}')} - {total}{rows.where(retracts)}"
    else:
        total += rows.where()
    return f"CASE WHEN count(*) = 1 THEN any_value({rows.column}) ELSE CAST({total} AS {type_name(rows.type)}) END"


# --- one of the values ---


def last_value(rows: Rows) -> str:
    return f"arg_max_null({rows.column}, {rows.place}){rows.where()}"


def retracted_last_value(rows: Rows) -> str:
    """Clears the value for each retraction, in order of arrival; older versions then do not restore one."""
    value = f"CASE WHEN NOT ({rows.retracts}) THEN {rows.column} END"
    newest = [f"NOT {rows.steps[PREPEND]}"] if PREPEND in rows.steps else []
    return f"arg_max_null({value}, {rows.version}){rows.where(*newest)}"


def last_non_null_value(rows: Rows) -> str:
    return f"arg_max({rows.column}, {rows.place}){rows.where()}"


def retracted_last_non_null_value(rows: Rows) -> str:
    """Clears the value for each retraction of a value, even of another value."""
    if PREPEND in rows.steps:
        return fold(
            rows,
            lambda state, value: f"coalesce({value}, {state})",
            lambda state, value: f"CASE WHEN {value} IS NULL THEN {state} END",
        )
    value = f"CASE WHEN NOT ({rows.retracts}) THEN {rows.column} END"
    return f"arg_max_null({value}, {rows.version}){rows.where(f'{rows.column} IS NOT NULL')}"


def first_value(rows: Rows) -> str | None:
    if rows.cut:  # the state that a value was taken outlives the removal of the row
        return None
    if START in rows.steps:
        return first_taken(rows, lambda _value: "TRUE")
    return f"arg_min_null({rows.column}, {rows.place}){rows.where()}"


def first_non_null_value(rows: Rows) -> str | None:
    if rows.cut:
        return None
    if START in rows.steps or PREPEND in rows.steps:
        return first_taken(rows, lambda value: f"{value} IS NOT NULL")
    return f"arg_min({rows.column}, {rows.place}){rows.where()}"


# --- text ---


def listagg(rows: Rows) -> str:
    """Joins texts by the delimiter; an empty text leaves no delimiter behind."""
    if rows.call.distinct:
        return _distinct_listagg(rows)
    column, delimiter = rows.column, quote_text(rows.call.delimiter)
    filled = rows.where(f"{column} <> ''")
    return f"coalesce(string_agg({column}, {delimiter} ORDER BY {rows.place}){filled}, min({column}){rows.where()})"


def _distinct_listagg(rows: Rows) -> str:
    """Appends the parts of a value that the text does not contain yet."""
    delimiter, separator = quote_text(rows.call.delimiter), quote_text(rows.call.delimiter or " ")
    part, i = rows.variables("part", "i")

    def add(state: str, value: str) -> str:
        parts, present = f"string_split({value}, {separator})", f"string_split({state}, {separator})"
        is_new = f"{part} <> '' AND list_position({parts}, {part}) = {i} AND NOT list_contains({present}, {part})"
        new_parts = f"list_filter({parts}, lambda {part}, {i}: {is_new})"
        added = f"array_to_string(list_transform({new_parts}, lambda {part}: {delimiter} || {part}), '')"
        return (
            f"CASE WHEN coalesce({value}, '') = '' THEN coalesce({state}, {value}) "
            f"WHEN coalesce({state}, '') = '' THEN {value} ELSE {state} || {added} END"
        )

    return fold(rows, add)
