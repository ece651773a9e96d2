"""MERGE INTO, by the methods of `Table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.telling import did_you_mean
from morrow.queries.parameters import Node
from morrow.readers.expressions.sql import quote_identifier
from morrow.statements.changing import DEFAULT
from morrow.statements.context import Context
from morrow.statements.expressions import (
    LooksAtRows,
    check_zone,
    has_instants,
    holder_of,
    is_inside,
    path_of,
    replace_subqueries,
    text_of,
)
from morrow.statements.row_statements import MergeInto, When
from morrow.statements.rows import counted, default_of, evolve
from morrow.statements.statement import Name, shown_name
from morrow.writers.commit.tally import tallied
from morrow.writers.operations.merge_clauses import SOURCE, TARGET, UNMATCHED, UNMATCHED_BY_SOURCE

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot
    from morrow.writers.operations.merge import Merge


def merge(context: Context, statement: MergeInto) -> duckdb.DuckDBPyRelation:
    table = context.table(statement.table)
    source = _source(context, statement)
    if statement.evolves:
        evolve(table, source.schema, _wanted(statement, source.column_names))
    schema = table._newest
    sides = _Sides(context, statement, schema, source.schema)
    on = sides.text(statement.on, "ON", (TARGET, SOURCE))
    equal = _equal_columns(on, schema, source)
    built = table.merge(source, sorted(equal) if equal is not None else on)
    keys = frozenset(equal or _equated(on))
    for clause in statement.clauses:
        built = _with_clause(built, clause, sides, keys)
    with tallied() as tally:
        snapshot: Snapshot | None = built.execute()
    return counted(context, snapshot, tally.inserted, tally.updated, tally.deleted)


def _wanted(statement: MergeInto, columns: Sequence[str]) -> list[str]:
    """Returns the columns of the source that its clauses assign: all by ``*``, and those that they set by name."""
    if any(clause.set is None and clause.action != "delete" for clause in statement.clauses):
        return list(columns)
    names = {path[-1].lower() for clause in statement.clauses for path, _ in clause.set or () if path}
    return [name for name in columns if name.lower() in names]


def _source(context: Context, statement: MergeInto) -> pa.Table:
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
    """The columns of both sides, by which names in expressions are found."""

    def __init__(self, context: Context, statement: MergeInto, schema: TableSchema, source: pa.Schema) -> None:
        self._context = context
        self.schema = schema
        self.columns = {TARGET: tuple(schema.by_name), SOURCE: tuple(source.names)}
        fields = (*schema.fields, *source)
        self._zoned = [field.name for field in fields if has_instants(field.type)]
        self._others = [field.name for field in fields if not has_instants(field.type)]
        target_name = (statement.alias or statement.table[-1]).lower()
        source_name = (statement.source_alias or _last_name(statement.source)).lower()
        if target_name == source_name:
            raise InvalidArgument(f"MERGE: both sides are called {target_name!r}; give them aliases")
        self._sides = {target_name: TARGET, source_name: SOURCE}

    def text(self, text: str, what: str, visible: Sequence[str]) -> str:
        """Returns an expression with its columns as ``target.x`` and ``source.x``."""
        tree = holder_of(self._context, text, what)
        bound = {name.name for node in tree.find_all(exp.Lambda) for name in node.expressions}
        for column in list(tree.find_all(exp.Column)):
            if is_inside(column, exp.Query) or column.parts[0].name in bound:
                continue
            column.replace(self._column(column, what, visible))
        try:
            replace_subqueries(self._context, tree, what)
        except LooksAtRows as found:
            if isinstance(found.error, Unsupported):
                raise found.error from None
            raise InvalidArgument(
                f"MERGE, {what}: {found.error}; a subquery here is read once and sees no column of either side: "
                "what it needs belongs into USING"
            ) from None
        check_zone(self._context, tree, f"MERGE, {what}", self._zoned, self._others)
        return text_of(tree)

    def _column(self, column: Node, what: str, visible: Sequence[str]) -> Node:
        parts = list(column.parts)
        names = [part.name for part in parts]
        at = next((i for i, name in enumerate(names[:-1]) if name.lower() in self._sides), None)
        if at is not None and at <= 1:
            side, rest = self._sides[names[at].lower()], parts[at + 1 :]
        else:
            side, rest = self._side_of(names[0], what, visible), parts
        if side not in visible:
            raise ColumnNotFound(f"MERGE, {what}: the columns of the {side} are not there: {'.'.join(names)}")
        name = _found(rest[0].name, self.columns[side], f"MERGE, {what}, {side}")
        first = exp.to_identifier(name, quoted=True)
        return path_of([exp.to_identifier(side), first, *rest[1:]])

    def _side_of(self, name: str, what: str, visible: Sequence[str]) -> str:
        folded = name.lower()
        sides = [side for side in visible if folded in {each.lower() for each in self.columns[side]}]
        if len(sides) > 1:
            raise InvalidArgument(f"MERGE, {what}: {name!r} is a column of both sides; write the alias in front of it")
        if not sides:
            known = [each for side in visible for each in self.columns[side]]
            hint = did_you_mean(name, known)
            raise ColumnNotFound(f"MERGE, {what}: there is no column {name!r}; {hint}there are {', '.join(known)}")
        return sides[0]

    def assignments(self, clause: When, keys: frozenset[str]) -> dict[str, object]:
        """Returns the values of a clause by the columns of the table."""
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
                default_of(self.schema.by_name[name]) if is_default else self.text(text, f"{what}, {name}", visible)
            )
        return found

    def _target_name(self, path: Name, what: str) -> str:
        is_qualified = len(path) > 1 and self._sides.get(path[-2].lower()) == TARGET
        if len(path) > 1 and not is_qualified:
            raise Unsupported(f"MERGE that sets {shown_name(path)}, a member of a column,", hint="set the whole column")
        return _found(path[-1], self.columns[TARGET], f"MERGE, {what}")

    def _all(self, clause: When, keys: frozenset[str]) -> dict[str, object]:
        """Returns every column of the table from the source; an update leaves out those that ON has made equal."""
        wanted = [n for n in self.columns[TARGET] if clause.action == "insert" or n not in keys]
        return {
            name: f"source.{quote_identifier(_found(name, self.columns[SOURCE], 'MERGE with *, source'))}"
            for name in wanted
        }


_VISIBLE = {UNMATCHED: (SOURCE,), UNMATCHED_BY_SOURCE: (TARGET,)}


def _found(name: str, known: Sequence[str], where: str) -> str:
    if name in known:
        return name
    alike = [each for each in known if each.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    hint = did_you_mean(name, known)
    raise ColumnNotFound(f"{where}: there is no column {name!r}; {hint}there are {', '.join(known)}")


def _last_name(source: str) -> str:
    """Returns the name of a source without an alias: the last part of a table's name, nothing for a query."""
    from morrow.statements.words import split

    words = split(source)[0]
    if words.comes("("):
        return "source"
    return words.path()[-1]


def _equated(on: str) -> list[str]:
    """Returns the columns that a condition makes equal to those of the same name in the source."""
    tree = exp.Paren(this=_parse(on)).this.unnest()
    parts = [part.unnest() for part in tree.flatten()] if isinstance(tree, exp.And) else [tree]
    pairs = [_pair(part) for part in parts if isinstance(part, exp.EQ)]
    return [pair[0] for pair in pairs if pair is not None and pair[0] == pair[1]]


def _equal_columns(on: str, schema: TableSchema, source: pa.Table) -> list[str] | None:
    """Returns the columns of a condition that is nothing but ``target.x = source.x AND ...``; None for others."""
    tree = _parse(on).unnest()
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equated = _equated(on)
    if len(equated) != len(parts) or len(set(equated)) != len(equated):
        return None
    alike = all(schema.by_name[name].type.arrow() == source.schema.field(name).type for name in equated)
    return equated if alike else None


def _parse(on: str) -> Node:
    import sqlglot

    return with_room(lambda: sqlglot.parse_one(on, into=exp.Condition, dialect=DuckDB), on, "ON")


def _pair(node: Node) -> tuple[str, str] | None:
    """Returns the names of ``target.x = source.y``, in this order."""
    names: dict[str, str] = {}
    for side in (node.this, node.expression):
        parts = [part.name for part in side.parts] if isinstance(side, exp.Column) else []
        if len(parts) == 2:
            names[parts[0]] = parts[1]
    return (names[TARGET], names[SOURCE]) if names.keys() == {TARGET, SOURCE} else None


def _with_clause(built: Merge, clause: When, sides: _Sides, keys: frozenset[str]) -> Merge:
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
