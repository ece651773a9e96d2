"""Aggregate functions as DuckDB aggregates, by the names of Paimon's options.

Most have a closed form, others are folds. Functions with neither are written as a call of ``morrow_<function>``, which
DuckDB does not have: Morrow merges such columns itself. Sums and products that exceed their type raise in DuckDB, where
Java wraps integers and returns null for decimals. DuckDB treats -0.0 and 0.0 as equal, where max, min and sets of Java
do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from morrow.engine.merge.functions import function_spec
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options.kinds import AGGREGATE_FUNCTION_PLUGINS
from morrow.engine.plugins import plugin
from morrow.readers.merges.sql import containers, scalars
from morrow.readers.merges.sql.rows import Build, Rows


@dataclass(frozen=True)
class Function:
    """The SQL of a function: `plain` for rows without retractions, `retracting` for others.

    `by_place`: in a sequence group the result depends on the place of older versions before the others.
    """

    plain: Build
    retracting: Build | None = None
    by_place: bool = True


FUNCTIONS: Mapping[str, Function] = {
    "sum": Function(scalars.sum_of, scalars.sum_of, by_place=False),
    "product": Function(scalars.product, scalars.retracted_product, by_place=False),
    "count": Function(scalars.count, scalars.count, by_place=False),
    "max": Function(scalars.aggregate_of("max"), by_place=False),
    "min": Function(scalars.aggregate_of("min"), by_place=False),
    "bool_and": Function(scalars.aggregate_of("bool_and"), by_place=False),
    "bool_or": Function(scalars.aggregate_of("bool_or"), by_place=False),
    "last_value": Function(scalars.last_value, scalars.retracted_last_value),
    "last_non_null_value": Function(scalars.last_non_null_value, scalars.retracted_last_non_null_value),
    "first_value": Function(scalars.first_value),
    "first_non_null_value": Function(scalars.first_non_null_value),
    "listagg": Function(scalars.listagg),
    "collect": Function(containers.collect, containers.retracted_collect),
    "merge_map": Function(containers.merge_map, containers.retracted_merge_map),
}
"""Functions that SQL supports; the others (sketches, bitmaps and nested tables) are left to Morrow."""


def aggregate(rows: Rows) -> str | None:
    """Returns the aggregate of a column for the retractions that `rows` has; None if SQL has none for its function."""
    if rows.call.ignore_retract:
        rows = rows.without_retractions()
    function = FUNCTIONS.get(rows.call.function)
    if function is None:
        return _installed(rows)
    build = function.retracting if rows.may_retract else function.plain
    return build(rows) if build else None


def placeholder(rows: Rows) -> str:
    """Returns a call of a function that DuckDB does not have."""
    function = re.sub(r"\W", "_", rows.call.function, flags=re.ASCII)
    return f"morrow_{function}({rows.column} ORDER BY {rows.version}){rows.where()}"


def takes_retractions(call: AggregateCall) -> bool:
    """Returns whether retractions of the column are accepted."""
    return call.ignore_retract or function_spec(call.function, where="SQL of a merge").retracts


def by_place(function: str) -> bool:
    """Returns whether the function depends on the place of older versions in a sequence group."""
    return function not in FUNCTIONS or FUNCTIONS[function].by_place


def _installed(rows: Rows) -> str | None:
    """Returns the aggregate by a function of another package, None if it has no SQL or rows may retract.

    Such a function may define ``sql(column, order, condition) -> str``: an aggregate of the rows for which the
    condition holds, oldest first.
    """
    write = getattr(plugin(AGGREGATE_FUNCTION_PLUGINS, rows.call.function), "sql", None)
    return None if write is None or rows.may_retract else str(write(rows.column, rows.place, rows.counted or "TRUE"))
