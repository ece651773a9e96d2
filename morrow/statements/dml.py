"""UPDATE, DELETE, TRUNCATE and MERGE INTO, by the methods of `Table`.

An UPDATE or DELETE that depends on other tables for each row (correlated subqueries, FROM, USING) runs as a query that
finds the rows, and a merge that changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField, RowType
from morrow.engine.names import SOURCE, TARGET
from morrow.engine.plan.filter.sql_parsing import run_with_stack
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.redaction import suggest_name
from morrow.queries.dialect import Node
from morrow.readers.expressions.sql import quote_identifier
from morrow.statements.context import (
    Context,
    DependsOnRows,
    bind_expression,
    build_path,
    check_zone,
    has_instants,
    is_inside,
    make_counts,
    parse_expression,
    render_expression,
    replace_subqueries,
)
from morrow.statements.dml_parser import UNMATCHED, UNMATCHED_BY_SOURCE
from morrow.statements.insert import add_missing_columns, find_column, find_default
from morrow.statements.statement import Delete, MergeInto, Name, Truncate, Update, When, format_name
from morrow.writers.commit.messages import Operation, count_rows_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot
    from morrow.tables.table import Table
    from morrow.writers.operations.merge import Merge

DEFAULT = "DEFAULT"


# UPDATE and DELETE


def delete(context: Context, statement: Delete) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    with count_rows_of(Operation.DELETE) as tally:
        try:
            where = build_condition(context, statement, table._newest)
        except DependsOnRows:
            snapshot = delete_joined(context, statement, table)
        else:
            snapshot = table.truncate() if where is None else table.delete(where)
    return make_counts(context, snapshot, 0, 0, 0 if snapshot is None else tally.deleted)


def update(context: Context, statement: Update) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    names, schema = _list_qualifiers(statement.table, statement.alias), table._newest
    with count_rows_of(Operation.UPDATE) as tally:
        try:
            where = build_condition(context, statement, schema)
            values = _build_assignments(
                statement.set, schema, names, partial(_build_value, context, names=names, schema=schema)
            )
        except DependsOnRows:
            value = partial(bind_expression, context)
            snapshot = update_joined(context, statement, table, _build_assignments(statement.set, schema, names, value))
        else:
            snapshot = table.update(values, where)
    return make_counts(context, snapshot, 0, 0 if snapshot is None else tally.updated, 0)


def truncate(context: Context, statement: Truncate) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    if statement.partition is None:
        snapshot = table.truncate()
    else:
        snapshot = table.drop_partition(context.partition(statement.partition, "PARTITION"))
    return make_counts(context, snapshot, 0, 0, None)


def _list_qualifiers(table: Name, alias: str | None) -> set[str]:
    """Return the valid qualifiers of a column of the table, in lower case."""
    return {(alias or table[-1]).lower()}


def _build_assignments(
    given: Sequence[tuple[Name, str]], schema: TableSchema, names: set[str], value_of: Callable[[str, str], str]
) -> dict[str, str]:
    """Return the assigned columns of an UPDATE with their SQL, converted by `value_of(expression, description)`."""
    found: dict[str, str] = {}
    members: dict[str, dict[tuple[str, ...], str]] = {}
    for path, text in given:
        path = path[1:] if len(path) > 1 and path[0].lower() in names and path[0] not in schema.by_name else path
        field = find_column(path[0], schema)
        value = find_default(field) if text.upper() == DEFAULT else value_of(text, f"set {field.name}")
        if len(path) == 1:
            if field.name in found or field.name in members:
                raise InvalidArgument(f"UPDATE: the column {field.name!r} is set twice")
            found[field.name] = value
            continue
        below = members.setdefault(field.name, {})
        if field.name in found or path[1:] in below:
            raise InvalidArgument(f"UPDATE: {format_name(path)} is set twice")
        below[path[1:]] = value
    for name, below in members.items():
        kind = schema.by_name[name].type
        if not isinstance(kind, RowType):
            raise InvalidArgument(f"UPDATE: {name!r} is not a ROW, and has no members to set")
        found[name] = _replace_members(quote_identifier(name), kind, below)
    return found


def _replace_members(row: str, kind: RowType, given: Mapping[tuple[str, ...], str]) -> str:
    """Return SQL of a struct with new values of some fields."""
    known = {field.name for field in kind.fields}
    for path in given:
        if path[0] not in known:
            hint = suggest_name(path[0], known)
            raise ColumnNotFound(f"UPDATE: {row} has no member {path[0]!r}; {hint}it has {', '.join(sorted(known))}")
    parts = []
    for field in kind.fields:
        mine = {path[1:]: value for path, value in given.items() if path[0] == field.name}
        name = quote_identifier(field.name)
        member = f"{row}.{name}"
        if () in mine:
            value = mine[()]
        elif mine and isinstance(field.type, RowType):
            value = _replace_members(member, field.type, mine)
        elif mine:
            raise InvalidArgument(f"UPDATE: {member} is not a ROW, and has no members to set")
        else:
            value = member
        parts.append(f"{name} := {value}")
    return f"struct_pack({', '.join(parts)})"


def build_condition(context: Context, statement: Delete | Update, schema: TableSchema) -> str | None:
    """Return the condition of a statement as a filter; None without one. Raises `DependsOnRows`."""
    names = _list_qualifiers(statement.table, statement.alias)
    if statement.source is not None:
        raise DependsOnRows(Unsupported(f"{statement.kind} that joins {statement.source}"))
    return None if statement.where is None else _build_value(context, statement.where, "WHERE", names, schema)


def _build_value(context: Context, text: str, what: str, names: set[str], schema: TableSchema) -> str:
    """Return an expression over the columns of one table, with subqueries replaced by values."""
    tree = parse_expression(context, text, what)
    for column in list(tree.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        if len(parts) > 1 and parts[-2].lower() in names and not is_inside(column, exp.Query):
            column.set("db", None)
            column.set("table", None)
        elif len(parts) > 2 and parts[0].lower() in names and not is_inside(column, exp.Query):
            column.replace(build_path(column.parts[1:]))
    replace_subqueries(context, tree, what)
    check_zone(context, tree, what, [field.name for field in schema.fields if has_instants(field.type)])
    return render_expression(tree)


def merge(context: Context, statement: MergeInto) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    source = _read_source(context, statement)
    if statement.evolves:
        add_missing_columns(table, source.schema, _list_source_columns(statement, source.column_names))
    schema = table._newest
    tracked = list_tracked_fields(schema, table._metadata.options(schema))
    sides = _Sides(context, statement, schema, source.schema, tracked)
    on = sides.text(statement.on, "ON", (TARGET, SOURCE))
    equal = _match_columns(on, (*schema.fields, *tracked), source)
    built = table.merge(source, sorted(equal) if equal is not None else on)
    keys = frozenset(equal or _find_join_columns(on))
    for clause in statement.clauses:
        built = _add_clause(built, clause, sides, keys)
    with count_rows_of() as tally:
        snapshot: Snapshot | None = built.execute()
    return make_counts(context, snapshot, tally.inserted, tally.updated, tally.deleted)


def _list_source_columns(statement: MergeInto, columns: Sequence[str]) -> list[str]:
    """Return the source columns that clauses assign: all with ``*``, else the columns set by name."""
    if any(clause.set is None and clause.action != "delete" for clause in statement.clauses):
        return list(columns)
    names = {path[-1].lower() for clause in statement.clauses for path, _ in clause.set or () if path}
    return [name for name in columns if name.lower() in names]


def _read_source(context: Context, statement: MergeInto) -> pa.Table:
    alias = quote_identifier(statement.source_alias or "source")
    columns = ""
    if statement.source_columns:
        columns = f"({', '.join(map(quote_identifier, statement.source_columns))})"
    found = context.rows(f"SELECT * FROM {statement.source} AS {alias}{columns}")
    twice = sorted({name for name in found.column_names if found.column_names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"MERGE: the source has several columns {twice[0]!r}")
    return found


class _Sides:
    """The columns of both sides, for resolving names in expressions."""

    def __init__(
        self,
        context: Context,
        statement: MergeInto,
        schema: TableSchema,
        source: pa.Schema,
        tracked: Sequence[DataField],
    ) -> None:
        self._context = context
        self.schema = schema
        self.columns = {TARGET: tuple(schema.by_name), SOURCE: tuple(source.names)}
        # Columns of row tracking are read, but not set.
        self._readable = {**self.columns, TARGET: (*schema.by_name, *(field.name for field in tracked))}
        fields = (*schema.fields, *source)
        self._zoned = [field.name for field in fields if has_instants(field.type)]
        self._others = [field.name for field in fields if not has_instants(field.type)]
        target_name = (statement.alias or statement.table[-1]).lower()
        source_name = (statement.source_alias or _find_source_name(statement.source)).lower()
        if target_name == source_name:
            raise InvalidArgument(f"MERGE: both sides are called {target_name!r}; give them aliases")
        self._sides = {target_name: TARGET, source_name: SOURCE}

    def text(self, text: str, what: str, visible: Sequence[str]) -> str:
        """Return an expression with its columns qualified as ``target.x`` and ``source.x``."""
        tree = parse_expression(self._context, text, what)
        bound = {name.name for node in tree.find_all(exp.Lambda) for name in node.expressions}
        for column in list(tree.find_all(exp.Column)):
            if is_inside(column, exp.Query) or column.parts[0].name in bound:
                continue
            column.replace(self._column(column, what, visible))
        try:
            replace_subqueries(self._context, tree, what)
        except DependsOnRows as found:
            if isinstance(found.error, Unsupported):
                raise found.error from None
            raise InvalidArgument(
                f"MERGE, {what}: {found.error}; a subquery here is read once and sees no column of either side: "
                "what it needs belongs into USING"
            ) from None
        check_zone(self._context, tree, f"MERGE, {what}", self._zoned, self._others)
        return render_expression(tree)

    def _column(self, column: Node, what: str, visible: Sequence[str]) -> Node:
        parts = list(column.parts)
        names = [part.name for part in parts]
        at = next((i for i, name in enumerate(names[:-1]) if name.lower() in self._sides), None)
        if at is not None and at <= 1:
            side, rest = self._sides[names[at].lower()], parts[at + 1 :]
        else:
            side, rest = self._side_of(names[0], what, visible), parts
        if side not in visible:
            raise ColumnNotFound(f"MERGE, {what}: the {side} does not have the columns: {'.'.join(names)}")
        name = _find_name(rest[0].name, self._readable[side], f"MERGE, {what}, {side}")
        first = exp.to_identifier(name, quoted=True)
        return build_path([exp.to_identifier(side), first, *rest[1:]])

    def _side_of(self, name: str, what: str, visible: Sequence[str]) -> str:
        folded = name.lower()
        sides = [side for side in visible if folded in {each.lower() for each in self._readable[side]}]
        if len(sides) > 1:
            raise InvalidArgument(f"MERGE, {what}: {name!r} is a column of both sides; write the alias in front of it")
        if not sides:
            known = [each for side in visible for each in self.columns[side]]
            hint = suggest_name(name, known)
            raise ColumnNotFound(f"MERGE, {what}: there is no column {name!r}; {hint}there are {', '.join(known)}")
        return sides[0]

    def assignments(self, clause: When, keys: frozenset[str]) -> dict[str, object]:
        """Return the assigned values of a clause by table column."""
        what = f"WHEN {clause.when.upper()}"
        visible = _VISIBLE.get(clause.when, (TARGET, SOURCE))
        if clause.set is None:
            return self._all(clause, keys)
        columns = list(self.columns[TARGET])
        if clause.action == "insert" and clause.set and not clause.set[0][0] and len(clause.set) != len(columns):
            raise InvalidArgument(f"MERGE: {len(clause.set)} values for {len(columns)} columns: {', '.join(columns)}")
        found: dict[str, object] = {}
        for number, (path, text) in enumerate(clause.set):
            name = self._target_name(path or (columns[number],), what)
            if name in found:
                raise InvalidArgument(f"MERGE, {what}: the column {name!r} is set twice")
            is_default = text.upper() == DEFAULT
            found[name] = (
                find_default(self.schema.by_name[name]) if is_default else self.text(text, f"{what}, {name}", visible)
            )
        return found

    def _target_name(self, path: Name, what: str) -> str:
        is_qualified = len(path) > 1 and self._sides.get(path[-2].lower()) == TARGET
        if len(path) > 1 and not is_qualified:
            raise Unsupported(
                f"MERGE that sets {format_name(path)}, a member of a column,", hint="set the whole column"
            )
        return _find_name(path[-1], self.columns[TARGET], f"MERGE, {what}")

    def _all(self, clause: When, keys: frozenset[str]) -> dict[str, object]:
        """Assign every column of the table from the source. An update skips columns that ON makes equal."""
        wanted = [n for n in self.columns[TARGET] if clause.action == "insert" or n not in keys]
        return {
            name: f"source.{quote_identifier(_find_name(name, self.columns[SOURCE], 'MERGE with *, source'))}"
            for name in wanted
        }


_VISIBLE = {UNMATCHED: (SOURCE,), UNMATCHED_BY_SOURCE: (TARGET,)}


def _find_name(name: str, known: Sequence[str], where: str) -> str:
    if name in known:
        return name
    alike = [each for each in known if each.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    hint = suggest_name(name, known)
    raise ColumnNotFound(f"{where}: there is no column {name!r}; {hint}there are {', '.join(known)}")


def _find_source_name(source: str) -> str:
    """Return the name of a source without an alias: the last part of a table's name, or empty text for a query."""
    from morrow.statements.tokens import read_words

    words = read_words(source)
    if words.comes("("):
        return "source"
    return words.path()[-1]


def _find_join_columns(on: str) -> list[str]:
    """Return the columns that a condition equates with source columns of the same name."""
    tree = exp.Paren(this=_parse(on)).this.unnest()
    parts = [part.unnest() for part in tree.flatten()] if isinstance(tree, exp.And) else [tree]
    pairs = [_match_equality(part) for part in parts if isinstance(part, exp.EQ)]
    return [pair[0] for pair in pairs if pair is not None and pair[0] == pair[1]]


def _match_columns(on: str, fields: Sequence[DataField], source: pa.Table) -> list[str] | None:
    """Return the columns of a condition ``target.x = source.x AND ...``; None for other conditions."""
    tree = _parse(on).unnest()
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equated = _find_join_columns(on)
    if len(equated) != len(parts) or len(set(equated)) != len(equated):
        return None
    types = {field.name: field.type.arrow() for field in fields}
    alike = all(types[name] == source.schema.field(name).type for name in equated)
    return equated if alike else None


def _parse(on: str) -> Node:
    import sqlglot

    return run_with_stack(lambda: sqlglot.parse_one(on, into=exp.Condition, dialect=DuckDB), on, "ON")


def _match_equality(node: Node) -> tuple[str, str] | None:
    """Return the names of ``target.x = source.y``, in this order."""
    names: dict[str, str] = {}
    for side in (node.this, node.expression):
        parts = [part.name for part in side.parts] if isinstance(side, exp.Column) else []
        if len(parts) == 2:
            names[parts[0]] = parts[1]
    return (names[TARGET], names[SOURCE]) if names.keys() == {TARGET, SOURCE} else None


def _add_clause(built: Merge, clause: When, sides: _Sides, keys: frozenset[str]) -> Merge:
    visible = _VISIBLE.get(clause.when, (TARGET, SOURCE))
    condition = None
    if clause.condition is not None:
        condition = sides.text(clause.condition, f"WHEN {clause.when.upper()} AND", visible)
    if clause.action == "delete":
        is_alone = clause.when == UNMATCHED_BY_SOURCE
        add = built.when_not_matched_by_source_delete if is_alone else built.when_matched_delete
        return add(condition)
    values = sides.assignments(clause, keys)
    if clause.when == UNMATCHED:
        return built.when_not_matched_insert(values, condition)
    if clause.when == UNMATCHED_BY_SOURCE:
        return built.when_not_matched_by_source_update(values, condition)
    return built.when_matched_update(values, condition)


def delete_joined(context: Context, statement: Delete, table: Table) -> Snapshot | None:
    """Delete the rows for which a condition with correlated subqueries is true."""
    found = _build_merge(context, statement, table, {})
    return None if found is None else found.when_matched_delete().execute()


def update_joined(context: Context, statement: Update, table: Table, values: Mapping[str, str]) -> Snapshot | None:
    """Update rows by values or a condition with correlated subqueries. `values` maps assigned columns to SQL."""
    found = _build_merge(context, statement, table, values)
    sets: dict[str, object] = {name: f"{SOURCE}.{_name_value(i)}" for i, name in enumerate(values)}
    return None if found is None else found.when_matched_update(sets).execute()


def _build_merge(context: Context, statement: Delete | Update, table: Table, values: Mapping[str, str]) -> Merge | None:
    """Build a merge that matches the rows of a statement; None if no rows match.

    Rows are identified by the columns that the statement reads, and by their key. Rows with equal values in these
    columns are changed alike, even if another commit has moved them meanwhile. Rows that another commit has changed in
    one of these columns are not matched.
    """
    texts = [*values.values(), *([] if statement.where is None else [statement.where])]
    known = [*table.primary_keys, *_read_columns(context, texts, table)]
    columns = list(dict.fromkeys(known)) or [table._newest.fields[0].name]
    alias = quote_identifier(statement.alias or statement.table[-1])
    selected = [f"{alias}.{quote_identifier(name)} AS {_name_key(i)}" for i, name in enumerate(columns)]
    selected += [f"{text} AS {_name_value(i)}" for i, text in enumerate(values.values())]
    others = "" if statement.source is None else f", {statement.source}"
    place = ".".join(map(quote_identifier, (*context.prefix, *statement.table)))
    where = "" if statement.where is None else f" WHERE {statement.where}"
    rows = context.rows(f"SELECT DISTINCT {', '.join(selected)} FROM {place} AS {alias}{others}{where}")
    if not rows.num_rows:
        return None
    equal = (
        f"{TARGET}.{quote_identifier(name)} IS NOT DISTINCT FROM {SOURCE}.{_name_key(i)}"
        for i, name in enumerate(columns)
    )
    return table.merge(rows, " AND ".join(equal))


def _read_columns(context: Context, texts: Iterable[str], table: Table) -> list[str]:
    """Return the table columns that expressions may read: all columns whose names occur in them."""
    by_folded = {field.name.lower(): field.name for field in table._newest.fields}
    names = (
        part.name.lower()
        for text in texts
        for column in exp.Paren(this=context.expression(text, "the statement")).find_all(exp.Column)
        for part in column.parts
    )
    return [by_folded[name] for name in dict.fromkeys(names) if name in by_folded]


def _name_key(number: int) -> str:
    return f"key_{number}"


def _name_value(number: int) -> str:
    return f"value_{number}"
