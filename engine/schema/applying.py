"""Applies changes to a schema: the result is its next version, or an error."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.format.schema import NEWEST_SCHEMA_VERSION, TableSchema
from morrow.engine.format.types import BlobType, DataField, DataType
from morrow.engine.options import Options
from morrow.engine.options.declared.table import (
    ADD_COLUMN_BEFORE_PARTITION,
    ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED,
    BUCKET_KEY,
    DISABLE_EXPLICIT_TYPE_CASTING,
)
from morrow.engine.schema import changes as c
from morrow.engine.schema.casts import can_cast
from morrow.engine.schema.columns import numbered_type
from morrow.engine.schema.creating import with_keys_of_options
from morrow.engine.schema.defaults import checked_default
from morrow.engine.schema.nested import Fields, index_of, shown, type_at, with_field, with_fields, with_type
from morrow.engine.schema.option_changes import check_remove, check_set_option
from morrow.engine.schema.renames import renamed_options
from morrow.engine.schema.validation import validate_schema
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.engine.values import replace


def changed_schema(
    schema: TableSchema, changes: Sequence[c.SchemaChange], *, has_snapshots: bool, where: str
) -> TableSchema:
    """Returns the next version of the schema after all `changes`, checked; the same object when they change nothing.

    Args:
        has_snapshots: whether the table may have rows, which some changes would corrupt.

    Raises:
        ColumnNotFound, AlreadyExists, InvalidArgument: changes that are impossible, or that Paimon refuses.
        Unsupported: a type or option that Morrow does not handle.
    """
    draft = Draft(schema, has_snapshots, where)
    for change in changes:
        STEPS[type(change)](draft, change)
    options_set = {change.key for change in changes if isinstance(change, c.SetOption)}
    changed = with_keys_of_options(draft.built(), where)
    if changed == schema:
        return schema
    validate_schema(changed, where=where, options_set=options_set & set(changed.options), before=schema)
    return replace(
        changed, id=schema.id + 1, version=NEWEST_SCHEMA_VERSION, time_millis=int(time.time() * MILLIS_PER_SECOND)
    )


@dataclass
class Draft:
    """A schema in the middle of its changes. Rules that depend on options use those of `before`, as Paimon does."""

    before: TableSchema
    has_snapshots: bool
    where: str
    fields: Fields = field(init=False)
    highest_id: int = field(init=False)
    primary_keys: tuple[str, ...] = field(init=False)
    options: dict[str, str] = field(init=False)
    comment: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.fields, self.highest_id = self.before.fields, self.before.highest_field_id
        self.primary_keys, self.options = self.before.primary_keys, dict(self.before.options)
        self.comment = self.before.comment

    def built(self) -> TableSchema:
        return replace(
            self.before,
            fields=self.fields,
            highest_field_id=self.highest_id,
            primary_keys=self.primary_keys,
            options=self.options,
            comment=self.comment,
        )

    @property
    def rules(self) -> Options:
        """The options before the changes."""
        return Options(self.before.options, self.where)

    def refuse_keys(self, path: c.Path, keys: Sequence[str], what: str) -> None:
        """Raises `InvalidArgument` when `path` is one of these key columns."""
        if len(path) == 1 and path[0] in keys:
            raise InvalidArgument(f"{self.where}: {shown(path)} is a {what} column, which cannot be changed this way")

    def refuse_not_null(self, path: c.Path, before: DataType, nullable: bool) -> None:
        """Raises `InvalidArgument` when a type would forbid nulls that rows may have."""
        if before.nullable and not nullable and self.rules.get(ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED):
            raise InvalidArgument(
                f"{self.where}: {shown(path)} may hold nulls and cannot become NOT NULL; if it holds none, set the "
                f"option {ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED} = false first"
            )


def _add(draft: Draft, change: c.AddColumn) -> None:
    if not change.type.nullable:
        raise InvalidArgument(
            f"{draft.where}: the new column {shown(change.path)} cannot be NOT NULL: rows there are have no value of it"
        )
    ids = itertools.count(draft.highest_id + 1)
    added = DataField(next(ids), change.path[-1], numbered_type(change.type, ids), change.comment)
    draft.highest_id = next(ids) - 1
    position = change.position
    if position is None and len(change.path) == 1 and draft.rules.get(ADD_COLUMN_BEFORE_PARTITION):
        partition = [f.name for f in draft.fields if f.name in draft.before.partition_keys]
        position = c.Position(c.Place.BEFORE, partition[0]) if partition else None

    def insert(members: Fields) -> Fields:
        _require_free(members, change.path, draft)
        place = _place(members, position, change.path)
        return (*members[:place], added, *members[place:])

    draft.fields = with_fields(draft.fields, change.path[:-1], insert)


def _drop(draft: Draft, change: c.DropColumn) -> None:
    draft.refuse_keys(change.path, draft.before.partition_keys, "partition key")
    draft.refuse_keys(change.path, draft.before.primary_keys, "primary key")

    def drop(members: Fields) -> Fields:
        place = index_of(members, change.path)
        if len(members) == 1:
            raise InvalidArgument(f"{draft.where}: {shown(change.path)} is the last one and cannot be dropped")
        return (*members[:place], *members[place + 1 :])

    draft.fields = with_fields(draft.fields, change.path[:-1], drop)


def _rename(draft: Draft, change: c.RenameColumn) -> None:
    path, new = change.path, change.new_name
    draft.refuse_keys(path, draft.before.partition_keys, "partition key")

    def rename(members: Fields) -> Fields:
        place = index_of(members, path)
        if isinstance(members[place].type, BlobType) and len(path) == 1:
            raise InvalidArgument(f"{draft.where}: the BLOB column {shown(path)} cannot be renamed: its files name it")
        _require_free(members, (*path[:-1], new), draft)
        return (*members[:place], replace(members[place], name=new), *members[place + 1 :])

    draft.fields = with_fields(draft.fields, path[:-1], rename)
    if len(path) == 1:
        draft.primary_keys = tuple(new if key == path[0] else key for key in draft.primary_keys)
        draft.options = renamed_options(draft.options, path[0], new)


def _move(draft: Draft, change: c.MoveColumn) -> None:
    if len(change.path) > 1:
        raise Unsupported(
            f"moving the member {shown(change.path)}", where=draft.where, hint="columns move, members stay"
        )
    place = index_of(draft.fields, change.path)
    if change.position.neighbour == change.path[0]:
        raise InvalidArgument(f"{draft.where}: the column {shown(change.path)} cannot be moved next to itself")
    moved, others = draft.fields[place], (*draft.fields[:place], *draft.fields[place + 1 :])
    to = _place(others, change.position, change.path)
    draft.fields = (*others[:to], moved, *others[to:])


def _set_type(draft: Draft, change: c.SetType) -> None:
    before, path = draft.before, change.path
    draft.refuse_keys(path, before.partition_keys, "partition key")
    draft.refuse_keys(path, before.primary_keys, "primary key")
    if draft.has_snapshots:
        draft.refuse_keys(path, draft.rules.get(BUCKET_KEY), "bucket key")
    explicit = not draft.rules.get(DISABLE_EXPLICIT_TYPE_CASTING)

    def cast(source: DataType) -> DataType:
        target = change.type.with_nullable(source.nullable) if change.keep_nullability else change.type
        draft.refuse_not_null(path, source, target.nullable)
        if not can_cast(source, target, explicit=explicit):
            raise InvalidArgument(
                f"{draft.where}: {shown(path)} is {source} and cannot become {target}; {_way_out(source, explicit)}"
            )
        return source.with_nullable(target.nullable) if source.text() == target.text() else target

    draft.fields = with_type(draft.fields, path, cast)
    if len(path) == 1:
        column = draft.fields[index_of(draft.fields, path)]
        if column.default_value is not None:
            checked_default(column.type, column.default_value, column.name)


def _way_out(source: DataType, explicit: bool) -> str:
    if source.keyword in ("ROW", "ARRAY", "MAP"):
        return "change its members one by one, such as 'a.b', 'a.element' or 'a.value'"
    return "add a new column" if explicit else f"the option {DISABLE_EXPLICIT_TYPE_CASTING} allows widening only"


def _set_nullable(draft: Draft, change: c.SetNullable) -> None:
    if change.nullable:
        draft.refuse_keys(change.path, draft.before.primary_keys, "primary key")
    draft.refuse_not_null(change.path, type_at(draft.fields, change.path), change.nullable)
    draft.fields = with_type(draft.fields, change.path, lambda source: source.with_nullable(change.nullable))


def _set_comment(draft: Draft, change: c.SetComment) -> None:
    draft.fields = with_field(draft.fields, change.path, lambda f: replace(f, description=change.comment))


def _set_default(draft: Draft, change: c.SetDefault) -> None:
    if len(change.path) > 1:
        raise Unsupported(
            f"a default value of the member {shown(change.path)}", where=draft.where, hint="columns have defaults"
        )

    def set_default(column: DataField) -> DataField:
        return replace(column, default_value=checked_default(column.type, change.default, column.name))

    draft.fields = with_field(draft.fields, change.path, set_default)


def _set_option(draft: Draft, change: c.SetOption) -> None:
    if draft.has_snapshots:
        check_set_option(draft.before.options, change.key, change.value, draft.where)
    draft.options[change.key] = change.value


def _remove_option(draft: Draft, change: c.RemoveOption) -> None:
    if draft.has_snapshots:
        check_remove(draft.before.options, change.key, draft.where)
    draft.options.pop(change.key, None)


def _set_table_comment(draft: Draft, change: c.SetTableComment) -> None:
    draft.comment = change.comment


def _place(members: Fields, position: c.Position | None, path: c.Path) -> int:
    if position is None or position.place is c.Place.LAST:
        return len(members)
    if position.place is c.Place.FIRST:
        return 0
    neighbour = index_of(members, (*path[:-1], position.neighbour or ""))
    return neighbour + (position.place is c.Place.AFTER)


def _require_free(members: Fields, path: c.Path, draft: Draft) -> None:
    if path[-1] in (field.name for field in members):
        raise AlreadyExists(f"{draft.where}: there is a column {shown(path)} already")


STEPS: Mapping[type[c.SchemaChange], Callable[[Draft, Any], None]] = {
    c.AddColumn: _add,
    c.DropColumn: _drop,
    c.RenameColumn: _rename,
    c.MoveColumn: _move,
    c.SetType: _set_type,
    c.SetNullable: _set_nullable,
    c.SetComment: _set_comment,
    c.SetDefault: _set_default,
    c.SetOption: _set_option,
    c.RemoveOption: _remove_option,
    c.SetTableComment: _set_table_comment,
}
"""Change -> the function that applies it to a draft."""
