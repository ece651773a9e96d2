"""Aggregates whose next value depends on the one before: folds over the list of a key's versions, by `list_reduce`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from morrow.readers.merges.sql.rows import APPEND, PREPEND, RETRACT, START, UNDO, Rows
from morrow.readers.merges.sql.types import type_name

Next = Callable[[str, str], str]
"""Returns the next state, as SQL, from the state and a value."""


def reduced(rows: Rows, values: str, step: Next) -> str:
    """Folds the non-null values in the order in which they came; the first one is the initial state."""
    ordered = f"list({values} ORDER BY {rows.version}){rows.where(f'{rows.column} IS NOT NULL')}"
    state, value = rows.variables("state", "value")
    return f"list_reduce({ordered}, lambda {state}, {value}: {step(state, value)})"


def fold(rows: Rows, add: Next, take_back: Next | None = None, *, reverses: bool = True) -> str:
    """Returns the state after all rows, one after another.

    Args:
        add: the state after a value.
        take_back: the state after a value is retracted; needed where rows may retract.
        reverses: whether an older value and the state are swapped in `add`; ``ignore-retract`` swaps them.
    """
    state, row = rows.variables("state", "row")
    value = f"{row}.value"
    cases = {START: value, APPEND: add(state, value)}
    cases[PREPEND] = add(value, state) if reverses or rows.call.ignore_retract else cases[APPEND]
    if take_back is not None:
        cases[RETRACT], cases[UNDO] = take_back(state, value), take_back(value, value)
    return _list_reduce(rows, cases, f"CAST(NULL AS {type_name(rows.type)})")


def first_taken(rows: Rows, takes: Callable[[str], str]) -> str:
    """Returns the first value for which `takes` is true, for rows that start the state or precede it.

    Paimon records whether a value was taken. From then on each older version that arrives replaces it, even by null;
    before, an older version marks the present value as taken.
    """

    def case(kept: str, candidate: str) -> str:
        value = f"CASE WHEN NOT {state}.taken AND {takes(candidate)} THEN {candidate} ELSE {kept} END"
        return f"{{'value': {value}, 'taken': {state}.taken OR {takes(candidate)}}}"

    state, row = rows.variables("state", "row")
    cases = {
        START: f"{{'value': {row}.value, 'taken': {state}.taken}}",
        APPEND: case(f"{state}.value", f"{row}.value"),
        PREPEND: case(f"{row}.value", f"{state}.value"),
    }
    nothing = f"{{'value': CAST(NULL AS {type_name(rows.type)}), 'taken': FALSE}}"
    return f"struct_extract({_list_reduce(rows, cases, nothing)}, 'value')"


def unless_null(both: Next) -> Next:
    """Returns `both` of a state and a value, or the one that is not null."""
    return lambda state, value: (
        f"CASE WHEN {state} IS NULL OR {value} IS NULL THEN coalesce({state}, {value}) ELSE {both(state, value)} END"
    )


def _list_reduce(rows: Rows, cases: Mapping[str, str], initial: str) -> str:
    """Returns a fold whose next state is that of each row's step."""
    state, row = rows.variables("state", "row")
    if rows.only_appends:
        values = f"list({{'value': {rows.column}}} ORDER BY {rows.version}){rows.where()}"
        return f"list_reduce({values}, lambda {state}, {row}: {cases[APPEND]}, {initial})"
    step = rows.step or _step(rows)
    lines = (
        "list_reduce(",
        f"  list({{'value': {rows.column}, 'step': {step}}} ORDER BY {rows.version}){rows.where()},",
        f"  lambda {state}, {row}: CASE {row}.step",
        *(f"    WHEN '{name}' THEN {cases[name]}" for name in rows.steps),
        "  END,",
        f"  {initial})",
    )
    return "\n".join(lines)


def _step(rows: Rows) -> str:
    cases = [f"WHEN {condition} THEN '{name}'" for name, condition in rows.steps.items() if name != APPEND]
    return f"CASE {' '.join(cases)} ELSE '{APPEND}' END"
