"""Schema changes: ``t.alter.add_column("x", "INT")``, or several in one schema version by ``with``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from morrow.engine.arguments import check_mapping, check_text
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.schema import schema_changes as sc
from morrow.engine.schema.columns import TypeLike, read_type
from morrow.engine.schema.creation import format_options
from morrow.engine.schema.defaults import format_default
from morrow.engine.schema.evolution import commit_changes
from morrow.engine.units import format_count
from morrow.tables.history import describe_changes

INSIST = "correct such values and compact(full=True), or insist: set_type(..., lossy=True)"
ColumnPath: TypeAlias = "str | Sequence[str]"
"""A column (``"a"``) or a nested field (``"a.b"``, ``("a", "b")``). The elements of an array are its field
``element``, the values of a map its field ``value``. Text with dots names one column if the table has such a column."""


class Alteration:
    """Changes to a table's schema. Each method commits a new schema version at once:

        t.alter.add_column("city", "STRING", after="name", comment="where they live")
        t.alter.set_options({"snapshot.num-retained.max": 20})

    A batch commits its changes as one version, or none of them if one is refused:

        with t.alter() as a:
            a.rename_column("city", "town")
            a.set_type("amount", "BIGINT")

    Columns keep their ids through renames and moves, and existing values are cast when they are read. Changes that
    Paimon refuses are refused. A concurrent schema change comes before or after a batch, never in between.

    Raises, by every method (in a batch: at its end):
        ColumnNotFound, AlreadyExists, InvalidArgument: an impossible change; nothing was changed.
        Unsupported: a type or an option that Morrow does not handle.
    """

    def __init__(self, metadata: TableMetadata, *, batch: bool = False) -> None:
        self._metadata = metadata
        self._pending: list[sc.SchemaChange] | None = [] if batch else None
        self._made: tuple[TableSchema, TableSchema] | None = None

    def __call__(self, *changes: sc.SchemaChange) -> Alteration:
        """Commit the given changes (`morrow.engine.schema.schema_changes`) as one version. Without changes, return a
        batch for ``with``.
        """
        if not changes:
            return Alteration(self._metadata, batch=True)
        return self._do(*changes)

    # Columns

    def add_column(
        self,
        name: ColumnPath,
        type: TypeLike,
        *,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
        comment: str | None = None,
        default: object = None,
    ) -> Self:
        """Add a column, last unless a position is given; it is null in existing rows.

        Args:
            type: a SQL or pyarrow type; it cannot be NOT NULL.
            default: the value for rows written from now on that do not give one.
        """
        path, data_type = self._path(name), read_type(type, _format_path(name))
        changes: list[sc.SchemaChange] = [
            sc.AddColumn(path, data_type, _check_comment(comment), _make_position(first, False, after, before))
        ]
        if default is not None:
            changes.append(sc.SetDefault(path, format_default(default, _format_path(name))))
        return self._do(*changes)

    def drop_column(self, name: ColumnPath) -> Self:
        """Drop a column. A column added later under the same name is a different one."""
        return self._do(sc.DropColumn(self._path(name)))

    def rename_column(self, name: ColumnPath, new_name: str) -> Self:
        """Rename a column, also in the keys and options that name it."""
        return self._do(sc.RenameColumn(self._path(name), check_text(new_name, "new_name")))

    def move_column(
        self,
        name: str,
        *,
        first: bool = False,
        last: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Self:
        """Move a column to another position."""
        position = _make_position(first, last, after, before)
        if position is None:
            raise InvalidArgument(f"where to does {name!r} move? Give first=True, last=True, after= or before=")
        return self._do(sc.MoveColumn(self._path(name), position))

    def set_type(self, name: ColumnPath, type: TypeLike, *, lossy: bool = False) -> Self:
        """Change the type of a column; nullability stays, unless the SQL text says NOT NULL.

        Refuses a type that would lose or break stored values: numbers beyond its range, digits that it would round,
        text that is too long or does not parse. Statistics are checked first, and files if statistics are not
        sufficient. The rows of this branch's newest snapshot count, with older versions that a merge combines; rows of
        tags and older snapshots do not.

        Args:
            lossy: change the type without checking values. Reads of text that is not valid then fail, and the error
                says how to set the type back.

        Raises:
            InvalidArgument: the new type would lose or break a value; the message names it.
        """
        data_type = read_type(type, _format_path(name))
        return self._do(sc.SetType(self._path(name), data_type, keep_nullability=data_type.nullable, lossy=lossy))

    widen = set_type

    def set_nullable(self, name: ColumnPath, nullable: bool) -> Self:
        """Allow or forbid nulls. NOT NULL needs the option ``alter-column-null-to-not-null.disabled`` = false."""
        return self._do(sc.SetNullable(self._path(name), nullable))

    def set_comment(self, name: ColumnPath, comment: str | None) -> Self:
        """Set the comment of a column; None removes it."""
        return self._do(sc.SetComment(self._path(name), _check_comment(comment)))

    def set_default(self, name: str, value: object) -> Self:
        """Set the default value of a column, used by later writes that do not give a value. None removes it."""
        return self._do(sc.SetDefault(self._path(name), None if value is None else format_default(value, name)))

    # The table

    def set_options(self, options: Mapping[str, object]) -> Self:
        """Set table options; values may be numbers and booleans."""
        given = format_options(check_mapping(options, "options"), self._metadata.where)
        return self._do(*(sc.SetOption(key, value) for key, value in given.items()))

    def unset_options(self, *keys: str) -> Self:
        """Reset options to their defaults."""
        return self._do(*(sc.RemoveOption(check_text(key, "the name of an option")) for key in keys))

    def set_table_comment(self, comment: str | None) -> Self:
        """Set the table's comment; None removes it."""
        return self._do(sc.SetTableComment(_check_comment(comment)))

    # Batches

    def __enter__(self) -> Self:
        if self._pending is None:
            raise InvalidArgument("a batch of changes is t.alter(), with its brackets: with t.alter() as a: ...")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pending, self._pending = self._pending or [], []
        if kind is None and pending:
            self._commit(pending)

    def __repr__(self) -> str:
        """Return the last committed schema version with its changes, or the number of pending changes."""
        where = clean_text(self._metadata.where)
        if self._pending is not None:
            return f"{where}: {format_count(len(self._pending), 'schema change')} pending"
        if self._made is None:
            return f"{where}: no schema change; call a method such as add_column('x', 'INT')"
        before, after = self._made
        return f"{where}: schema {after.id}: {escape_to_line(describe_changes(before, after))}"

    def _do(self, *changes: sc.SchemaChange) -> Self:
        if self._pending is not None:
            self._pending += changes
        elif changes:
            self._commit(changes)
        return self

    def _commit(self, changes: Sequence[sc.SchemaChange]) -> None:
        """Commit the changes after checking that new types lose no values, unless a change is lossy."""
        typed = [change for change in changes if isinstance(change, sc.SetType)]
        insisted = {change.path[0] for change in typed if change.lossy}

        def check(before: TableSchema, after: TableSchema) -> None:
            kinds = {field.id: field.type for field in before.fields if field.name not in insisted}
            changed = {f.id for f in after.fields if f.name not in insisted and f.type != kinds.get(f.id, f.type)}
            if typed:
                _check_kept(self._metadata, after, changed)
            self._made = before, after

        commit_changes(self._metadata, changes, check)

    def _path(self, name: ColumnPath) -> sc.Path:
        """Parse a column path. Text with dots is the path of a nested field, unless a column has that very name."""
        if not isinstance(name, str):
            path = tuple(name) if isinstance(name, Iterable) else ()
            if not path or not all(isinstance(part, str) for part in path):
                raise InvalidArgument(f"{name!r} is not the path of a column; write 'a', 'a.b' or ('a', 'b')")
            return path
        check_text(name, "the name of a column")
        schema: TableSchema = self._metadata.latest_schema()
        return (name,) if name in schema.by_name else tuple(name.split("."))


def _check_kept(metadata: TableMetadata, after: TableSchema, ids: Collection[int]) -> None:
    """Check that the schema `after` keeps all values of the columns `ids`. Raises `InvalidArgument`."""
    snapshot = metadata.latest_snapshot()
    if not ids or snapshot is None:
        return
    from morrow.readers.execution.type_changes import find_losses
    from morrow.scans.table_scan import make_scan

    plan = make_scan(metadata, travel=Travel(snapshot=snapshot.id)).plan
    try:
        found = next(find_losses(metadata, plan, after, ids), None)
    except Unsupported as error:
        raise InvalidArgument(f"{error}; {INSIST}") from error
    if found is not None:
        facts, loss = found
        raise InvalidArgument(f"{metadata.where}: {loss} (in {facts.file.path}); {INSIST}")


def _format_path(name: ColumnPath) -> str:
    return name if isinstance(name, str) else ".".join(map(str, name)) if isinstance(name, Iterable) else repr(name)


def _check_comment(comment: str | None) -> str | None:
    return None if comment is None else check_text(comment, "comment")


def _make_position(first: bool, last: bool, after: str | None, before: str | None) -> sc.Position | None:
    for name in (after, before):
        if name is not None:
            check_text(name, "the column that another one stands beside")
    given = [
        *([sc.Position(sc.Place.FIRST)] if first else []),
        *([sc.Position(sc.Place.LAST)] if last else []),
        *([sc.Position(sc.Place.AFTER, after)] if after is not None else []),
        *([sc.Position(sc.Place.BEFORE, before)] if before is not None else []),
    ]
    if len(given) > 1:
        raise InvalidArgument("a column has one place: give one of first, last, after and before")
    return given[0] if given else None
