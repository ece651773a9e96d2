"""Aggregate functions as DuckDB aggregates, by the names of Paimon's options.

Most have a closed form, others are folds over the list of a key's versions, by `list_reduce`. Functions with neither
are written as a call of ``morrow_<function>``, which DuckDB does not have: Morrow merges such columns itself.

Sums and products that exceed their type raise in DuckDB; Java wraps integers and returns null for decimals. DuckDB
treats -0.0 and 0.0 as equal; max, min and sets of Java do not. Java's hash sets and maps are unordered; here elements
keep the order of appearance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from morrow.engine.format import types as t
from morrow.engine.merge.functions import find_function_spec
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options.declarations import AGGREGATE_FUNCTION_PLUGINS
from morrow.engine.plugins import load_plugin
from morrow.engine.structs import replace
from morrow.readers.expressions.sql import name_type, quote_text

MAX_DECIMAL_SCALE = 38
APPROXIMATE = (t.FloatType, t.DoubleType)


def make_aggregate(name: str) -> Build:
    """Return the builder of an aggregate function that DuckDB has."""
    return lambda rows: f"{name}({rows.column}){rows.where()}"


# --- numbers ---


def sum_of(rows: Rows) -> str:
    """Sum integers and decimals in any order; floats in sequence, since their sum depends on order and width."""
    if isinstance(rows.type, APPROXIMATE):
        return reduce_values(rows, _sign_value(rows), lambda total, value: f"{total} + {value}")
    return f"CAST(sum({_sign_value(rows)}){rows.where()} AS {name_type(rows.type)})"


def _sign_value(rows: Rows) -> str:
    """Return the value, negated if it is retracted."""
    column = rows.column
    signs = {RETRACT: f"-{column}", UNDO: f"{column} - {column}"}
    cases = [f"WHEN {rows.steps[step]} THEN {signed}" for step, signed in signs.items() if step in rows.steps]
    return f"CASE {' '.join(cases)} ELSE {column} END" if cases else column


def build_product(rows: Rows) -> str | None:
    if not isinstance(rows.type, t.DecimalType):
        return reduce_values(rows, rows.column, lambda state, value: f"{state} * {value}")
    if 2 * rows.type.scale > MAX_DECIMAL_SCALE:
        return None
    kind = name_type(rows.type)
    return reduce_values(rows, rows.column, lambda state, value: f"CAST({state} * {value} AS {kind})")


def retract_product(rows: Rows) -> str | None:
    """Divide retracted factors out; DuckDB does not divide decimals as decimals."""
    if isinstance(rows.type, t.DecimalType):
        return None
    sign = "/" if isinstance(rows.type, APPROXIMATE) else "//"
    return fold(
        rows,
        combine_non_null(lambda state, value: f"{state} * {value}"),
        lambda state, value: f"CASE WHEN {value} IS NULL THEN {state} ELSE {state} {sign} {value} END",
    )


def count(rows: Rows) -> str | None:
    """Count non-null values; a single version, which is never inspected, has a count as its value."""
    if rows.in_group or rows.cut:
        return None
    total = f"count({rows.column})"
    if rows.may_retract:
        retracts = rows.retracts
        total = f"{total}{rows.where(f'NOT {retracts}')} - {total}{rows.where(retracts)}"
    else:
        total += rows.where()
    return f"CASE WHEN count(*) = 1 THEN any_value({rows.column}) ELSE CAST({total} AS {name_type(rows.type)}) END"


# --- one of the values ---


def build_last_value(rows: Rows) -> str:
    return f"arg_max_null({rows.column}, {rows.place}){rows.where()}"


def retract_last_value(rows: Rows) -> str:
    """Clear the value for each retraction, in order of arrival; older versions then do not restore one."""
    value = f"CASE WHEN NOT ({rows.retracts}) THEN {rows.column} END"
    newest = [f"NOT {rows.steps[PREPEND]}"] if PREPEND in rows.steps else []
    return f"arg_max_null({value}, {rows.version}){rows.where(*newest)}"


def build_last_non_null_value(rows: Rows) -> str:
    return f"arg_max({rows.column}, {rows.place}){rows.where()}"


def retract_last_non_null_value(rows: Rows) -> str:
    """Clear the value for each retraction of a value, even of another value."""
    if PREPEND in rows.steps:
        return fold(
            rows,
            lambda state, value: f"coalesce({value}, {state})",
            lambda state, value: f"CASE WHEN {value} IS NULL THEN {state} END",
        )
    value = f"CASE WHEN NOT ({rows.retracts}) THEN {rows.column} END"
    return f"arg_max_null({value}, {rows.version}){rows.where(f'{rows.column} IS NOT NULL')}"


def build_first_value(rows: Rows) -> str | None:
    if rows.cut:  # the flag that a value was taken survives the removal of the row
        return None
    if START in rows.steps:
        return take_first(rows, lambda _value: "TRUE")
    return f"arg_min_null({rows.column}, {rows.place}){rows.where()}"


def build_first_non_null_value(rows: Rows) -> str | None:
    if rows.cut:
        return None
    if START in rows.steps or PREPEND in rows.steps:
        return take_first(rows, lambda value: f"{value} IS NOT NULL")
    return f"arg_min({rows.column}, {rows.place}){rows.where()}"


# --- text ---


def build_listagg(rows: Rows) -> str:
    """Join texts by the delimiter; an empty text leaves no delimiter behind."""
    if rows.call.distinct:
        return _build_distinct_listagg(rows)
    column, delimiter = rows.column, quote_text(rows.call.delimiter)
    filled = rows.where(f"{column} <> ''")
    return f"coalesce(string_agg({column}, {delimiter} ORDER BY {rows.place}){filled}, min({column}){rows.where()})"


def _build_distinct_listagg(rows: Rows) -> str:
    """Append the parts of a value that the text does not contain yet."""
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


BYTES = (t.BinaryType, t.VarBinaryType)
CONSTRUCTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VectorType)


def collect(rows: Rows) -> str | None:
    """Return one array of all elements; a group's order does not matter, except under ``ignore-retract``."""
    order = rows.place if rows.call.ignore_retract else rows.version
    array = f"flatten(list({rows.column} ORDER BY {order}){rows.where(f'{rows.column} IS NOT NULL')})"
    if not rows.call.distinct:
        return array
    if not _is_equality_exact(rows):
        return None
    alone = f"count(*){rows.where(f'NOT {rows.steps[START]}')} = 0" if START in rows.steps else "count(*) = 1"
    return f"CASE WHEN {alone} THEN any_value({rows.column}){rows.where()} ELSE {_drop_equal(rows, array)} END"


def retract_collect(rows: Rows) -> str | None:
    """Remove, for each retracted element, the first equal one."""
    if not _is_equality_exact(rows):
        return None

    def add(state: str, value: str) -> str:
        both = f"list_concat({state}, {value})"
        return (
            f"CASE WHEN coalesce({state}, {value}) IS NOT NULL THEN {_drop_equal(rows, both) if distinct else both} END"
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
    """Replace earlier entries by later ones of the same key."""
    maps = f"list({rows.column} ORDER BY {rows.place}){rows.where(f'{rows.column} IS NOT NULL')}"
    merged, newer = rows.variables("merged", "newer")
    return f"list_reduce({maps}, lambda {merged}, {newer}: map_concat({merged}, {newer}))"


def retract_merge_map(rows: Rows) -> str:
    """Remove retracted keys, regardless of their values."""

    def take_back(state: str, value: str) -> str:
        (entry,) = rows.variables("entry")
        keeps = f"lambda {entry}: NOT list_contains(map_keys({value}), {entry}.key)"
        left = f"list_filter(map_entries({state}), {keeps})"
        return f"CASE WHEN {state} IS NULL OR {value} IS NULL THEN {state} ELSE map_from_entries({left}) END"

    return fold(rows, combine_non_null(lambda state, value: f"map_concat({state}, {value})"), take_back)


def _drop_equal(rows: Rows, array: str) -> str:
    """Keep the first occurrence of each element of an array, including null.

    A list of one array binds the array to a name.
    """
    a, x, i = rows.variables("a", "x", "i")
    first = f"list_filter({a}, lambda {x}, {i}: list_position({a}, {x}) = {i})"
    return f"list_transform([{array}], lambda {a}: {first})[1]"


def _is_equality_exact(rows: Rows) -> bool:
    """Return whether DuckDB's equality of the elements is the same as Java's.

    In Java, byte arrays equal only themselves. Rows, arrays and maps in the state are assumed to be distinct, but the
    elements of a first value need not be.
    """
    assert isinstance(rows.type, t.ArrayType)
    element = rows.type.element
    trusts = rows.call.distinct and isinstance(element, CONSTRUCTED) and not rows.only_appends
    return not isinstance(element, BYTES) and not trusts


@dataclass(frozen=True)
class Function:
    """The SQL of a function: `plain` for rows without retractions, `retracting` for others.

    `by_place`: in a sequence group the result depends on older versions coming before the others.
    """

    plain: Build
    retracting: Build | None = None
    by_place: bool = True


FUNCTIONS: Mapping[str, Function] = {
    "sum": Function(sum_of, sum_of, by_place=False),
    "product": Function(build_product, retract_product, by_place=False),
    "count": Function(count, count, by_place=False),
    "max": Function(make_aggregate("max"), by_place=False),
    "min": Function(make_aggregate("min"), by_place=False),
    "bool_and": Function(make_aggregate("bool_and"), by_place=False),
    "bool_or": Function(make_aggregate("bool_or"), by_place=False),
    "last_value": Function(build_last_value, retract_last_value),
    "last_non_null_value": Function(build_last_non_null_value, retract_last_non_null_value),
    "first_value": Function(build_first_value),
    "first_non_null_value": Function(build_first_non_null_value),
    "listagg": Function(build_listagg),
    "collect": Function(collect, retract_collect),
    "merge_map": Function(merge_map, retract_merge_map),
}
"""Functions that SQL supports; the others (sketches, bitmaps and nested tables) are left to Morrow."""


def build_aggregate(rows: Rows) -> str | None:
    """Return the aggregate of a column for `rows` and their retractions; None if SQL cannot express the function."""
    if rows.call.ignore_retract:
        rows = rows.without_retractions()
    function = FUNCTIONS.get(rows.call.function)
    if function is None:
        return _build_installed(rows)
    build = function.retracting if rows.may_retract else function.plain
    return build(rows) if build else None


def build_placeholder(rows: Rows) -> str:
    """Return a call of a function that DuckDB lacks: the statement is shown, but cannot be run."""
    function = re.sub(r"\W", "_", rows.call.function, flags=re.ASCII)
    return f"morrow_{function}({rows.column} ORDER BY {rows.version}){rows.where()}"


def is_retractable(call: AggregateCall) -> bool:
    """Return whether retractions of the column are accepted."""
    return call.ignore_retract or find_function_spec(call.function, where="SQL of a merge").retracts


def is_place_dependent(function: str) -> bool:
    """Return whether the function depends on the position of older versions in a sequence group."""
    return function not in FUNCTIONS or FUNCTIONS[function].by_place


def _build_installed(rows: Rows) -> str | None:
    """Return the aggregate by a function of another package; None if it lacks SQL, or if rows may retract.

    Such a function may define ``sql(column, order, condition) -> str``: an aggregate of the rows for which the
    condition holds, oldest first.
    """
    write = getattr(load_plugin(AGGREGATE_FUNCTION_PLUGINS, rows.call.function), "sql", None)
    return None if write is None or rows.may_retract else str(write(rows.column, rows.place, rows.counted or "TRUE"))


Next = Callable[[str, str], str]
"""Returns the next state, as SQL, from the state and a value."""


def reduce_values(rows: Rows, values: str, step: Next) -> str:
    """Fold the non-null values in the order in which they came; the first one is the initial state."""
    ordered = f"list({values} ORDER BY {rows.version}){rows.where(f'{rows.column} IS NOT NULL')}"
    state, value = rows.variables("state", "value")
    return f"list_reduce({ordered}, lambda {state}, {value}: {step(state, value)})"


def fold(rows: Rows, add: Next, take_back: Next | None = None, *, reverses: bool = True) -> str:
    """Return the state after all rows, one after another.

    Args:
        add: the state after a value.
        take_back: the state after a value is retracted; needed if rows may retract.
        reverses: whether an older value and the state are swapped in `add`; ``ignore-retract`` swaps them.
    """
    state, row = rows.variables("state", "row")
    value = f"{row}.value"
    cases = {START: value, APPEND: add(state, value)}
    cases[PREPEND] = add(value, state) if reverses or rows.call.ignore_retract else cases[APPEND]
    if take_back is not None:
        cases[RETRACT], cases[UNDO] = take_back(state, value), take_back(value, value)
    return _list_reduce(rows, cases, f"CAST(NULL AS {name_type(rows.type)})")


def take_first(rows: Rows, takes: Callable[[str], str]) -> str:
    """Return the first value for which `takes` is true, for rows that start the state or precede it.

    Paimon records whether a value was taken. After that, each older version that arrives replaces it, even by null.
    Before that, an older version marks the present value as taken.
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
    nothing = f"{{'value': CAST(NULL AS {name_type(rows.type)}), 'taken': FALSE}}"
    return f"struct_extract({_list_reduce(rows, cases, nothing)}, 'value')"


def combine_non_null(both: Next) -> Next:
    """Return `both` of a state and a value, or the non-null one of them."""
    return lambda state, value: (
        f"CASE WHEN {state} IS NULL OR {value} IS NULL THEN coalesce({state}, {value}) ELSE {both(state, value)} END"
    )


def _list_reduce(rows: Rows, cases: Mapping[str, str], initial: str) -> str:
    """Return a fold; each row's step selects the case that gives the next state."""
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


START, APPEND, PREPEND, RETRACT, UNDO = "start", "append", "prepend", "retract", "undo"
"""The effect of a version on a column: its value is the first value, is added as the newest or as the oldest value, is
retracted, or is a first value that is retracted at once."""


@dataclass(frozen=True)
class Rows:
    """One column of the aggregated rows, as SQL.

    `version` orders the rows by arrival; `place` puts the older rows of a sequence group before the others.
    `steps` has a condition for each step that a row may take. `counted` is the condition that a row takes any step
    (None: all do). `step` is the column that names the step, if any. `cut` says whether a removal of the row may have
    ended versions before these. `taken` has the names of all columns, casefolded.
    """

    column: str
    type: t.DataType
    call: AggregateCall
    version: str
    place: str
    steps: Mapping[str, str]
    counted: str | None = None
    step: str | None = None
    in_group: bool = False
    cut: bool = False
    taken: frozenset[str] = frozenset()

    @property
    def may_retract(self) -> bool:
        return not self.steps.keys().isdisjoint((RETRACT, UNDO))

    @property
    def retracts(self) -> str:
        """The condition that a row retracts its value."""
        return " OR ".join(self.steps[step] for step in (RETRACT, UNDO) if step in self.steps)

    @property
    def only_appends(self) -> bool:
        return set(self.steps) <= {APPEND}

    def variables(self, *wanted: str) -> tuple[str, ...]:
        """Return names for variables of a lambda that differ from column names: DuckDB would resolve to the column."""
        return tuple(self._variable(name) for name in wanted)

    def _variable(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        return name

    def where(self, *conditions: str) -> str:
        """Return a FILTER clause for the rows that count and meet the conditions; empty if those are all rows."""
        every = [condition for condition in (self.counted, *conditions) if condition]
        return f" FILTER (WHERE {' AND '.join(every)})" if every else ""

    def refusing(self) -> Rows:
        """Return the rows of a query that fails if any of them retracts."""
        return replace(self, steps={step: c for step, c in self.steps.items() if step not in (RETRACT, UNDO)})

    def without_retractions(self) -> Rows:
        """Return the rows that remain when retractions are ignored; a first value that is retracted at once stays."""
        if not self.may_retract:
            return self
        steps = dict(self.refusing().steps)
        if UNDO in self.steps:
            steps[START] = f"({self.steps[START]} OR {self.steps[UNDO]})"
        counted = [condition for condition in (self.counted, f"NOT {self.steps[RETRACT]}") if condition]
        return replace(self, steps=steps, counted=" AND ".join(counted), step=None)


Build = Callable[[Rows], str | None]
"""Returns an aggregate expression for rows, or None if SQL cannot express it."""
