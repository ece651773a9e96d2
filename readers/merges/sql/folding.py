"""Engines that fold the versions of a key: partial-update and aggregation, one aggregate per column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import ColumnMerge, MergeSpec, OnDelete
from morrow.readers.expressions.sql import quote_identifier, quote_text
from morrow.readers.merges.sql import functions
from morrow.readers.merges.sql.groups import GroupColumns
from morrow.readers.merges.sql.layout import Layout
from morrow.readers.merges.sql.rows import APPEND, RETRACT, START, Rows
from morrow.readers.merges.sql.statement import Item, Select, comment, statement
from morrow.readers.merges.sql.table import DELETES, MergeQuery, Table

NO_SOLUTION = "this partial-update table says by no option what a retraction does"


@dataclass(frozen=True)
class Merged:
    """A column of the result. `refuses`: the condition that a version makes an unsupported retraction."""

    field: DataField
    expression: str
    rule: str = ""
    refuses: str | None = None
    left_out: bool = False


def partial_update(spec: MergeSpec, table: Table) -> MergeQuery:
    """Merges by partial-update.

    Values that are not null overwrite; sequence groups take the values of their newest version, or aggregate.
    """
    reversing = frozenset(
        column.group
        for column in spec.columns
        if column.group is not None and column.call is not None and functions.by_place(column.call.function)
    )
    layout = Layout(table, reversing)
    by_name = {column.name: column for column in spec.columns}
    merged = [_updated(layout, field, by_name.get(field.name)) for field in table.fields]
    several = "which -D removes the row, as several sequence groups do"
    left_out = [several] if len(layout.removing) > 1 else []
    return _query(layout, merged, _exists_after_update(layout), left_out)


def aggregation(spec: MergeSpec, table: Table) -> MergeQuery:
    """Merges by aggregation: every column has a function."""
    layout = Layout(table, update_before=True)
    by_name = {column.name: column for column in spec.columns}
    merged = [_aggregated(layout, field, by_name.get(field.name)) for field in table.fields]
    return _query(layout, merged, _exists_after_aggregation(layout), [])


# --- columns ---


def _updated(layout: Layout, field: DataField, merge: ColumnMerge | None) -> Merged:
    column, version = quote_identifier(field.name), layout.version
    if merge is None:
        return Merged(field, column)
    if merge.group is None:
        return Merged(field, f"arg_max({column}, {version}){_filling(layout)}", "the newest value that is not null")
    group = layout.groups[merge.group]
    if field.name in group.group.sequence:
        return Merged(field, f"arg_max_null({column}, {group.rank})", "of the newest version by the group")
    if merge.call is None:
        return Merged(field, _overwritten(column, group), "its value, null or not")
    rows = Rows(
        column,
        field.type,
        merge.call,
        version,
        group.place if group.reverses else version,
        group.steps,
        group.counted,
        group.step if group.stepped else None,
        in_group=True,
        cut=layout.cuts,
        taken=layout.table.taken,
    )
    return _called(rows, field)


def _filling(layout: Layout) -> str:
    """Returns the FILTER of columns outside of groups.

    Retractions leave these columns unchanged, except one that comes first or removes the row.
    """
    if layout.on_delete not in (OnDelete.RETRACT, OnDelete.REMOVE_RECORD):
        return ""
    h = layout.helpers
    fills = [f"NOT {h.retracts}", f"{h.version} = 1", *([layout.removal] if layout.removal else [])]
    return f" FILTER (WHERE {' OR '.join(fills)})"


def _overwritten(column: str, group: GroupColumns) -> str:
    value = column
    if group.on_delete is OnDelete.RETRACT:
        value = f"CASE WHEN {group.step} IN ('{START}', '{APPEND}') THEN {column} END"
    return f"arg_max_null({value}, {group.rank}) FILTER (WHERE {group.counted})"


def _aggregated(layout: Layout, field: DataField, merge: ColumnMerge | None) -> Merged:
    column = quote_identifier(field.name)
    if merge is None:
        return Merged(field, column)
    assert merge.call is not None
    retracts = layout.helpers.retracts
    steps = {APPEND: "TRUE"} if layout.on_delete is None else {APPEND: f"NOT {retracts}", RETRACT: retracts}
    version = layout.version
    return _called(
        Rows(column, field.type, merge.call, version, version, steps, cut=layout.cuts, taken=layout.table.taken), field
    )


def _called(rows: Rows, field: DataField) -> Merged:
    refuses = None
    if rows.may_retract and not functions.takes_retractions(rows.call):
        refuses, rows = rows.retracts, rows.refusing()
    expression = functions.aggregate(rows)
    if expression is None:
        return Merged(field, functions.placeholder(rows), str(rows.call), refuses, left_out=True)
    return Merged(field, expression, str(rows.call), refuses)


# --- which keys have a row ---


def _exists_after_update(layout: Layout) -> str | None:
    """Returns the condition that a key has a row.

    A key that never saw an insert has no row, and none whose newest version removed it.
    """
    h = layout.helpers
    if layout.on_delete is None:
        return None
    if layout.cuts:
        return f"any_value({h.inserted}) AND NOT arg_max({layout.removal}, {h.version})"
    return f"bool_or(NOT {h.retracts})"


def _exists_after_aggregation(layout: Layout) -> str | None:
    """Returns the condition that a key has a row: a single retraction has none, several versions may leave one."""
    if layout.on_delete is None:
        return None
    exists = f"(count(*) > 1 OR NOT bool_or({layout.helpers.retracts}))"
    return f"NOT arg_max({DELETES}, {layout.version}) AND {exists}" if layout.cuts else exists


def _having(layout: Layout, merged: Iterable[Merged], exists: str | None) -> list[str]:
    """Returns the HAVING clause that selects keys with a row.

    Retractions that are refused fail the query, except those that a removal hides.
    """
    refusals: dict[str, list[str]] = {}
    for column in merged:
        if column.refuses:
            refusals.setdefault(column.refuses, []).append(column.field.name)
    cases = [
        (condition, f"a retraction reaches {', '.join(names)}, whose functions take none back")
        for condition, names in refusals.items()
    ]
    if layout.on_delete is OnDelete.REFUSE:
        cases.append((layout.helpers.retracts, NO_SOLUTION))
    if not cases:
        return [f"HAVING {exists}"] if exists else []
    lines = [f"  WHEN count(*) > 1 AND bool_or({when}) THEN error({quote_text(reason)})" for when, reason in cases]
    return ["\n".join(["HAVING CASE", *lines, f"  ELSE {exists or 'TRUE'}", "END"])]


# --- the statement ---


def _query(layout: Layout, merged: list[Merged], exists: str | None, left_out: list[str]) -> MergeQuery:
    table, noted = layout.table, set[str]()
    items = []
    for column in merged:
        name = quote_identifier(column.field.name)
        note = "" if column.rule in noted else column.rule
        noted.add(column.rule)
        items.append(Item(column.expression, None if column.expression == name else name, note))
    left_out = [*left_out, *(f"{column.field.name}: {column.rule}" for column in merged if column.left_out)]
    heading = [table.heading]
    if left_out:
        heading.append("Not runnable as it stands: this is left to Morrow, in calls of morrow_...():")
        heading.extend(f"  {part}" for part in left_out)
    clauses = [f"GROUP BY {table.key}", *_having(layout, merged, exists)]
    text = statement(layout.steps, Select(items, layout.steps[-1][0], clauses))
    return MergeQuery("\n".join([*map(comment, heading), text]), tuple(left_out))
