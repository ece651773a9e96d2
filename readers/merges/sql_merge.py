"""Merge of a table as SQL for DuckDB: for reading, for running by hand, and for comparison with the fold in tests.

The input is a relation of versions, any number for each key: the table's columns, ``_SEQUENCE_NUMBER`` (BIGINT) and
``_VALUE_KIND`` (TINYINT: 0 +I, 1 -U, 2 +U, 3 -D). The result has the table's columns and one row for each key that
exists. Reads do not run this SQL: see `morrow.readers.merges`.

Engines select one version (deduplicate the newest, first-row the oldest) or fold the versions by one aggregate per
column (partial-update, aggregation). Sequence groups need helper columns, made in up to four common table expressions
before the aggregation:

==========  =====================================================================================
ordered     the versions of a key are numbered by age, and ranked by each sequence group
led         the ``-D`` that remove the row: not older than the versions their group has seen
current     the versions that a removal, or the option to ignore retractions, leaves
stepped     the effect of each version on the columns of a group
==========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import ColumnMerge, MergeSpec, OnDelete, Rule, SequenceGroup
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.expressions.sql import has_reals, quote_identifier, quote_text
from morrow.readers.merges import sql_aggregates
from morrow.readers.merges.sql_aggregates import APPEND, PREPEND, RETRACT, START, UNDO, Rows
from morrow.readers.merges.sql_statements import (
    DELETES,
    INSERTS,
    RETRACTIONS,
    UPDATE_BEFORE,
    Item,
    MergeQuery,
    Names,
    Select,
    Table,
    format_comment,
    format_statement,
)


def deduplicate(spec: MergeSpec, table: Table) -> MergeQuery:
    """Select the newest version, unless it is a retraction."""
    newest = _is_first(table, f"row_number() OVER (PARTITION BY {table.key} ORDER BY {table.age(newest_first=True)})")
    keep = [f"AND {INSERTS}"] if table.retractions and not spec.ignore_delete else []
    where = [f"WHERE {INSERTS}"] if table.retractions and spec.ignore_delete else []
    return _select_version(table, [*where, "\n  ".join([f"QUALIFY {newest}", *keep])])


def select_first_row(spec: MergeSpec, table: Table) -> MergeQuery:
    """Select the oldest version; the query fails if there are retractions and the table does not ignore them."""
    oldest = _is_first(table, f"row_number() OVER (PARTITION BY {table.key} ORDER BY {table.age()})")
    where = [f"WHERE {INSERTS}" if spec.ignore_delete else f"WHERE {_REFUSE}"] if table.retractions else []
    return _select_version(table, [*where, f"QUALIFY {oldest}"])


_REFUSE = f"CASE WHEN {INSERTS} THEN TRUE ELSE error('first-row takes no retractions') END"


def _is_first(table: Table, number: str) -> str:
    """Return the condition for the first version; it uses `abs` for reals, since DuckDB's arg_max loses -0.0."""
    return f"abs({number}) = 1" if any(has_reals(field.type) for field in table.fields) else f"{number} = 1"


def _select_version(table: Table, clauses: list[str]) -> MergeQuery:
    text = format_statement((), Select([Item(column) for column in table.columns], table.relation, clauses))
    return MergeQuery(f"{format_comment(table.heading)}\n{text}")


NO_SOLUTION = "this partial-update table says by no option what a retraction does"


@dataclass(frozen=True)
class Merged:
    """A column of the result. `refuses`: the condition that a version makes an unsupported retraction."""

    field: DataField
    expression: str
    rule: str = ""
    refuses: str | None = None
    left_out: bool = False


def merge_partial_update(spec: MergeSpec, table: Table) -> MergeQuery:
    """Merge by partial-update.

    Values that are not null overwrite; sequence groups take the values of their newest version, or aggregate.
    """
    reversing = frozenset(
        column.group
        for column in spec.columns
        if column.group is not None
        and column.call is not None
        and sql_aggregates.is_place_dependent(column.call.function)
    )
    layout = Layout(table, reversing)
    by_name = {column.name: column for column in spec.columns}
    merged = [_update_column(layout, field, by_name.get(field.name)) for field in table.fields]
    several = "which -D removes the row, as several sequence groups do"
    left_out = [several] if len(layout.removing) > 1 else []
    return _query(layout, merged, _build_exists_after_update(layout), left_out)


def merge_aggregation(spec: MergeSpec, table: Table) -> MergeQuery:
    """Merge by aggregation: every column has a function."""
    layout = Layout(table, update_before=True)
    by_name = {column.name: column for column in spec.columns}
    merged = [_fold_column(layout, field, by_name.get(field.name)) for field in table.fields]
    return _query(layout, merged, _build_exists_after_aggregation(layout), [])


# --- columns ---


def _update_column(layout: Layout, field: DataField, merge: ColumnMerge | None) -> Merged:
    column, version = quote_identifier(field.name), layout.version
    if merge is None:
        return Merged(field, column)
    if merge.group is None:
        return Merged(
            field, f"arg_max({column}, {version}){_build_filter(layout)}", "the newest value that is not null"
        )
    group = layout.groups[merge.group]
    if field.name in group.group.sequence:
        return Merged(field, f"arg_max_null({column}, {group.rank})", "of the newest version by the group")
    if merge.call is None:
        return Merged(field, _overwrite_column(column, group), "its value, null or not")
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
    return _call_function(rows, field)


def _build_filter(layout: Layout) -> str:
    """Return the FILTER of columns outside of groups.

    Retractions leave these columns unchanged, except one that comes first or removes the row.
    """
    if layout.on_delete not in (OnDelete.RETRACT, OnDelete.REMOVE_RECORD):
        return ""
    h = layout.helpers
    fills = [f"NOT {h.retracts}", f"{h.version} = 1", *([layout.removal] if layout.removal else [])]
    return f" FILTER (WHERE {' OR '.join(fills)})"


def _overwrite_column(column: str, group: GroupColumns) -> str:
    value = column
    if group.on_delete is OnDelete.RETRACT:
        value = f"CASE WHEN {group.step} IN ('{START}', '{APPEND}') THEN {column} END"
    return f"arg_max_null({value}, {group.rank}) FILTER (WHERE {group.counted})"


def _fold_column(layout: Layout, field: DataField, merge: ColumnMerge | None) -> Merged:
    column = quote_identifier(field.name)
    if merge is None:
        return Merged(field, column)
    assert merge.call is not None
    retracts = layout.helpers.retracts
    steps = {APPEND: "TRUE"} if layout.on_delete is None else {APPEND: f"NOT {retracts}", RETRACT: retracts}
    version = layout.version
    return _call_function(
        Rows(column, field.type, merge.call, version, version, steps, cut=layout.cuts, taken=layout.table.taken), field
    )


def _call_function(rows: Rows, field: DataField) -> Merged:
    refuses = None
    if rows.may_retract and not sql_aggregates.is_retractable(rows.call):
        refuses, rows = rows.retracts, rows.refusing()
    expression = sql_aggregates.build_aggregate(rows)
    if expression is None:
        return Merged(field, sql_aggregates.build_placeholder(rows), str(rows.call), refuses, left_out=True)
    return Merged(field, expression, str(rows.call), refuses)


# --- which keys have a row ---


def _build_exists_after_update(layout: Layout) -> str | None:
    """Return the condition that a key has a row.

    A key without any insert does not get a row, nor does a key whose newest version removed the row.
    """
    h = layout.helpers
    if layout.on_delete is None:
        return None
    if layout.cuts:
        return f"any_value({h.inserted}) AND NOT arg_max({layout.removal}, {h.version})"
    return f"bool_or(NOT {h.retracts})"


def _build_exists_after_aggregation(layout: Layout) -> str | None:
    """Return the condition that a key has a row: a single retraction leaves none, several versions may leave one."""
    if layout.on_delete is None:
        return None
    exists = f"(count(*) > 1 OR NOT bool_or({layout.helpers.retracts}))"
    return f"NOT arg_max({DELETES}, {layout.version}) AND {exists}" if layout.cuts else exists


def _build_having(layout: Layout, merged: Iterable[Merged], exists: str | None) -> list[str]:
    """Return the HAVING clause that selects keys with a row.

    Refused retractions fail the query, unless a removal hides them.
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
    clauses = [f"GROUP BY {table.key}", *_build_having(layout, merged, exists)]
    text = format_statement(layout.steps, Select(items, layout.steps[-1][0], clauses))
    return MergeQuery("\n".join([*map(format_comment, heading), text]), tuple(left_out))


HEADING = """Merge of the keys that have several versions, as SQL for DuckDB over a table `versions` of their rows.
Morrow runs the same merge as Polars expressions, one round for each version of a key."""

RULES: Mapping[Rule, Callable[[MergeSpec, Table], MergeQuery]] = {
    Rule.NEWEST: deduplicate,
    Rule.FIRST: select_first_row,
    Rule.UPDATE: merge_partial_update,
    Rule.AGGREGATE: merge_aggregation,
}


def merge_query(
    spec: MergeSpec,
    fields: Sequence[DataField],
    *,
    relation: str = "versions",
    primary_key: Sequence[str] = (),
    retractions: bool = True,
) -> MergeQuery:
    """Return the merge as SQL, and the parts of it that DuckDB cannot run.

    Args:
        fields: the key and value columns of the table, in schema order.
        relation: the name of the relation to read, one identifier; it is quoted.
        primary_key: columns that identify rows, if `spec` has fewer: deduplicate and first-row leave out partition
            columns, which are the same within a bucket.
        retractions: whether versions may retract; if none may, the SQL is much shorter.

    Raises:
        Unsupported: names that SQL cannot distinguish.
        ColumnNotFound: the merge needs a column that is not among `fields`.
        InvalidArgument: a name that cannot be spelled in SQL.
    """
    return RULES[spec.rule](spec, Table.of(spec, fields, relation, primary_key, retractions))


def merge_sql(
    spec: MergeSpec,
    fields: Sequence[DataField],
    *,
    relation: str = "versions",
    primary_key: Sequence[str] = (),
    retractions: bool = True,
) -> str:
    """Return the text of `merge_query`. A leading comment says so if DuckDB cannot run it."""
    query = merge_query(spec, fields, relation=relation, primary_key=primary_key, retractions=retractions)
    return query.text


def merge_text(plan: ScanPlan) -> str:
    """Return the SQL under a heading; empty if versions are not combined."""
    merged = [section for section in plan.sections if plan.folds(section)]
    if not merged:
        return ""
    assert plan.merge is not None
    retractions = any(file.may_hold_retractions for section in merged for file in section.files)
    try:
        sql = merge_sql(plan.merge, plan.schema.fields, retractions=retractions)
    except Unsupported as error:  # an engine of another package, or names that SQL cannot distinguish
        sql = f"-- {error}"
    return f"{HEADING}\n\n{sql}"


EVERYTHING = Item("*")
LAMBDA_NAMES = ("state", "row", "value", "total", "merged", "newer", "a", "x", "y", "i", "part", "entry")
BY_VERSION = "by_version"


class Layout:
    """The common table expressions of a merge that folds, and the names of their helper columns.

    Args:
        reversing: numbers of the sequence groups with a function that depends on the position of older versions.
        update_before: ``-U`` retracts even if ``-D`` removes the row, as in aggregation.
    """

    def __init__(self, table: Table, reversing: frozenset[int] = frozenset(), *, update_before: bool = False) -> None:
        self.table = table
        self.on_delete = table.spec.on_delete if table.retractions else None
        self._update_before = update_before
        names = Names([*(field.name for field in table.fields), *table.reserved, *LAMBDA_NAMES])
        self.helpers = Helpers.named(names)
        self.groups = tuple(
            GroupColumns.named(names, group, self.helpers, reverses=number in reversing, on_delete=self.on_delete)
            for number, group in enumerate(table.spec.groups)
        )
        self._names = {name: names.fresh(name) for name in ("ordered", "led", "current", "stepped")}

    @property
    def version(self) -> str:
        return self.helpers.version

    @cached_property
    def removing(self) -> tuple[GroupColumns, ...]:
        """The groups whose ``-D`` removes the row."""
        return tuple(g for g in self.groups if g.group.removes_record and self.on_delete is OnDelete.RETRACT)

    @property
    def cuts(self) -> bool:
        """Whether a removal hides the versions before it."""
        return bool(self.removing) or self.on_delete is OnDelete.REMOVE_RECORD

    @property
    def removal(self) -> str | None:
        """The condition that a version has removed the row."""
        if self.removing:
            return self.helpers.removes
        return DELETES if self.cuts else None

    @cached_property
    def steps(self) -> tuple[tuple[str, Select], ...]:
        """The common table expressions by name; the last one is aggregated."""
        selects = (
            ("ordered", self._order),
            ("led", self._lead),
            ("current", self._current),
            ("stepped", self._step),
        )
        made: list[tuple[str, Select]] = []
        for name, make in selects:
            select = make(made[-1][0] if made else self.table.relation)
            if select is not None:
                made.append((self._names[name], select))
        return tuple(made)

    def _over_key(self, order: str = "") -> str:
        return f"(PARTITION BY {self.table.key}{order and f' ORDER BY {order}'})"

    def _order(self, source: str) -> Select:
        age = self.table.age()
        items = [EVERYTHING, Item("row_number() OVER by_age", self.version)]
        if self.groups:
            items.append(Item(f"count(*) OVER {self._over_key()}", self.helpers.version_count))
        if self.on_delete is not None:
            retracts = UPDATE_BEFORE if self._update_before and self.cuts else RETRACTIONS
            items.append(Item(retracts, self.helpers.retracts))
        items.extend(group.ranked(self.table.key, age) for group in self.groups)
        return Select(items, source, [f"WINDOW by_age AS {self._over_key(age)}"])

    def _lead(self, source: str) -> Select | None:
        if not self.removing:
            return None
        if len(self.removing) > 1:  # each removal changes the values that the other groups compare with
            removes = f"morrow_removes_record({self.version})"
            return Select([EVERYTHING, Item(removes, self.helpers.removes)], source)
        (group,) = self.removing
        leads = group.leads(self._over_key(self.version))
        return Select([EVERYTHING, Item(f"{DELETES} AND {group.touched} AND {leads}", self.helpers.removes)], source)

    def _current(self, source: str) -> Select | None:
        h = self.helpers
        if self.on_delete is OnDelete.IGNORE:
            return Select([EVERYTHING], source, [f"WHERE NOT {h.retracts} OR {h.version} = 1"])
        if not self.cuts:
            return None
        items = [EVERYTHING, Item(f"bool_or({INSERTS}) OVER {self._over_key()}", h.inserted)]
        last_removal = f"max({h.version}) FILTER (WHERE {self.removal}) OVER {self._over_key()}"
        return Select(items, source, [f"QUALIFY {h.version} >= coalesce({last_removal}, 1)"])

    def _step(self, source: str) -> Select | None:
        stepped = [group for group in self.groups if group.stepped]
        items = [item for group in stepped for item in group.step_items(self.removal, BY_VERSION)]
        if not items:
            return None
        window = [f"WINDOW {BY_VERSION} AS {self._over_key(self.version)}"] if any(g.reverses for g in stepped) else []
        return Select([EVERYTHING, *items], source, window)


@dataclass(frozen=True)
class Helpers:
    """The names of the helper columns that all groups share."""

    version: str
    version_count: str
    retracts: str
    removes: str
    inserted: str

    @classmethod
    def named(cls, names: Names) -> Helpers:
        return cls(*(names.fresh(name) for name in ("version", "version_count", "retracts", "removes", "inserted")))


@dataclass(frozen=True)
class GroupColumns:
    """The helper columns of one group.

    `rank` orders the versions by the group's own fields, `step` names the effect of a version on the group, `place`
    puts older versions before the others. `reverses`: some function of the group depends on that order. `on_delete`:
    the effect of retractions, None without retractions.
    """

    group: SequenceGroup
    helpers: Helpers
    rank: str
    step: str
    place: str
    reverses: bool
    on_delete: OnDelete | None

    @classmethod
    def named(
        cls, names: Names, group: SequenceGroup, helpers: Helpers, *, reverses: bool, on_delete: OnDelete | None
    ) -> GroupColumns:
        stem = "_".join(group.sequence)
        rank, step, place = (names.fresh(f"{stem}_{role}") for role in ("rank", "step", "place"))
        return cls(group, helpers, rank, step, place, reverses, on_delete)

    @property
    def stepped(self) -> bool:
        """Whether the group needs `step`; else all versions that count are added."""
        return self.reverses or self.on_delete is not None

    @property
    def touched(self) -> str:
        """The condition that a version affects the group: some of its sequence fields is not null."""
        return self._sequence("IS NOT NULL", "OR")

    @property
    def untouched(self) -> str:
        return self._sequence("IS NULL", "AND")

    def _sequence(self, test: str, joined: str) -> str:
        tests = [f"{quote_identifier(name)} {test}" for name in self.group.sequence]
        return tests[0] if len(tests) == 1 else f"({f' {joined} '.join(tests)})"

    @property
    def counted(self) -> str:
        """The condition that a version counts: it affects the group, or is the only version of its key."""
        return f"{self.step} IS NOT NULL" if self.stepped else f"({self.touched} OR {self.helpers.version_count} = 1)"

    @property
    def steps(self) -> dict[str, str]:
        """The conditions of the steps that a version may take."""
        if not self.stepped:
            return {APPEND: "TRUE"}
        kinds = [APPEND, *([PREPEND] if self.reverses else []), *([START] if self.on_delete else [])]
        kinds += [RETRACT, UNDO] if self.on_delete is OnDelete.RETRACT else []
        return {kind: f"{self.step} = '{kind}'" for kind in kinds}

    def ranked(self, key: str, age: str) -> Item:
        fields = ", ".join(f"{quote_identifier(name)} NULLS FIRST" for name in self.group.sequence)
        return Item(f"row_number() OVER (PARTITION BY {key} ORDER BY {fields}, {age})", self.rank)

    def leads(self, window: str) -> str:
        """Return the condition that a version is at least as new as all before it, by the group's own fields."""
        return f"{self.rank} = max({self.rank}) OVER {window}"

    def step_items(self, removal: str | None, window: str) -> list[Item]:
        """Return `step`, and `place` if it is needed. `removal`: the condition that a version has removed the row."""
        cases: list[tuple[str, str | None]] = [(removal, START)] if removal else []
        cases += [*self._first_cases(), (self.untouched, None), *self._retraction_cases()]
        last = PREPEND if self.reverses else APPEND
        if self.reverses:
            cases.append((self.leads(window), APPEND))
        lines = [f"  WHEN {condition} THEN {_format_literal(step)}" for condition, step in cases]
        items = [Item("\n".join(["CASE", *lines, f"  ELSE {_format_literal(last)}", "END"]), self.step)]
        if self.reverses:
            version = self.helpers.version
            items.append(Item(f"CASE WHEN {self.step} = '{PREPEND}' THEN -{version} ELSE {version} END", self.place))
        return items

    def _first_cases(self) -> list[tuple[str, str | None]]:
        """Return the cases of a single version (stored as it is) and of a first retraction (which starts the row)."""
        h = self.helpers
        first_retracts = f"{h.version} = 1 AND {h.retracts}"
        if self.on_delete is None:
            return [(f"{h.version_count} = 1", APPEND)]
        ignored = self.on_delete is OnDelete.IGNORE
        starts = first_retracts if ignored else f"{first_retracts} AND {self.untouched}"
        return [(f"{h.version_count} = 1", START), (starts, START)]

    def _retraction_cases(self) -> list[tuple[str, str | None]]:
        h = self.helpers
        if self.on_delete is not OnDelete.RETRACT:
            return []
        return [(f"{h.retracts} AND {h.version} = 1", UNDO), (h.retracts, RETRACT)]


def _format_literal(step: str | None) -> str:
    return "NULL" if step is None else f"'{step}'"
