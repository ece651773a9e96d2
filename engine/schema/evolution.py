"""Schema evolution: changes are applied and checked, and the schema file of the next version is committed.

The first writer to create the file of a version wins.

Changes of options that would corrupt the rows of a table with snapshots are refused. Options that name a renamed column
are updated.

Deletion vectors are enabled or disabled only if the table's files give the same rows either way. With vectors, files
above level 0 are not merged, and level 0 is not read. Without them, files are merged and vectors are ignored. After a
full compaction both reads agree: each bucket is one sorted run without deleted rows. Snapshots from before the change
are read only if they were also fully compacted (`engine.plan.data_files`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from morrow.engine.errors import AlreadyExists, CommitConflict, InvalidArgument, UnclearOutcome, Unsupported
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.file_index.builder import COLUMNS as INDEX_COLUMNS
from morrow.engine.format.file_index.builder import PREFIX as INDEX_PREFIX
from morrow.engine.format.manifest_entries import DELETION_VECTORS_INDEX
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import NEWEST_SCHEMA_VERSION, TableSchema, format_schema
from morrow.engine.format.types import DataField, DataType
from morrow.engine.merge.spec import SEPARATOR
from morrow.engine.options import Declared, Options
from morrow.engine.options.declarations import FIELDS
from morrow.engine.options.declared import features, maintenance, merging, table
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.options.declared.scans import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from morrow.engine.options.declared.table import (
    ADD_COLUMN_BEFORE_PARTITION,
    ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED,
    BUCKET_KEY,
    DISABLE_EXPLICIT_TYPE_CASTING,
    PRIMARY_KEY,
)
from morrow.engine.options.table_options import IMMUTABLE, find_present_key, resolve_former_keys, split_column_option
from morrow.engine.plan.data_files import has_single_runs
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.sections import is_key_widening
from morrow.engine.schema import schema_changes as c
from morrow.engine.schema.columns import assign_type_ids
from morrow.engine.schema.creation import apply_key_options
from morrow.engine.schema.defaults import check_default
from morrow.engine.schema.directives import apply_directive, forget_column
from morrow.engine.schema.schema_changes import (
    Fields,
    SchemaChange,
    can_cast,
    find_index,
    find_type,
    format_path,
    replace_field,
    replace_fields,
    replace_type,
)
from morrow.engine.schema.sql_columns import Column
from morrow.engine.schema.validation import validate_schema
from morrow.engine.structs import replace
from morrow.engine.units import MILLIS_PER_SECOND

OTHER_BRANCHES = (SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH)
MAX_TRIES = 100
"""The limit of attempts. Each lost attempt is due to another writer's change; this many in a row are not chance."""


def commit_schema(metadata: TableMetadata, schema: TableSchema, changes: Sequence[SchemaChange] = ()) -> bool:
    """Create the schema file of this id durably; return False if another writer was first.

    If the catalog owns schemas, it creates the file, and receives the `changes` to the previous schema.
    """
    if Owned.SCHEMAS in metadata.owner.owns:
        return metadata.owner.commit_schema(metadata.branch, schema, changes)
    with metadata.owner.lock(metadata.branch):
        if not _create_file(metadata, metadata.paths.schema(schema.id), format_schema(schema)):
            return False
        if schema.id:
            metadata.owner.schema_changed(metadata.branch, schema)
        return True


def _create_file(metadata: TableMetadata, path: str, data: bytes) -> bool:
    try:
        return metadata.store.create(path, data)
    except UnclearOutcome:
        # Two writers produce equal bytes only for equal schemas in the same millisecond, which is harmless.
        if metadata.store.exists(path):
            return metadata.store.read(path) == data
        raise


def create_first_schema(metadata: TableMetadata, schema: TableSchema) -> None:
    """Create the table: `schema` becomes its first schema.

    Raises `AlreadyExists`: this location already holds a table.
    """
    _check_branches(metadata, schema)
    if metadata.schema_ids() or not commit_schema(metadata, schema):
        raise AlreadyExists(f"{metadata.where}: there is a table already")


def commit_changes(
    metadata: TableMetadata,
    changes: Sequence[SchemaChange],
    check: Callable[[TableSchema, TableSchema], None] | None = None,
) -> TableSchema:
    """Change the newest schema: all changes in one new version, or none of them.

    Concurrent changes of the schema go first: `changes` are then applied again to the newer schema.

    `check`: raises unless the schema before may be replaced by the schema after.

    Returns: the newest schema; a new version only if the changes have an effect.

    Raises:
        TableNotFound. ColumnNotFound, AlreadyExists, InvalidArgument, Unsupported: as `apply_changes`.
        InvalidArgument: as `check_deletion_vector_switch`.
        CommitConflict: concurrent changes of the schema do not cease.
    """
    for _ in range(MAX_TRIES):
        before = metadata.latest_schema()
        has_snapshots = metadata.latest_snapshot() is not None
        after = apply_changes(before, changes, has_snapshots=has_snapshots, where=metadata.where)
        if after is before:
            return before
        _check_branches(metadata, after)
        check_deletion_vector_switch(metadata, before, after)
        if check is not None:
            check(before, after)
        if commit_schema(metadata, after, changes):
            return after
    raise CommitConflict(f"{metadata.where}: the schema was changed by others {MAX_TRIES} times; try again later")


def _check_branches(metadata: TableMetadata, schema: TableSchema) -> None:
    """Check that at most one option names another branch, and that the branch exists."""
    options = Options(schema.options, metadata.where)
    named = {each: name for each in OTHER_BRANCHES if (name := options.text(each) or "").strip()}
    if len(named) > 1:
        raise InvalidArgument(f"{metadata.where}: the options {' and '.join(map(str, named))} contradict each other")
    known = [MAIN_BRANCH, *metadata.branch_names()] if named else []
    for option, branch in named.items():
        if branch not in known:
            raise InvalidArgument(
                f"{metadata.where}: the option {option} names the branch {branch!r}; there are {', '.join(known)}"
            )


def apply_changes(
    schema: TableSchema, changes: Sequence[c.SchemaChange], *, has_snapshots: bool, where: str
) -> TableSchema:
    """Return the next version of the schema after all `changes`, checked; the same object if nothing changes.

    `has_snapshots`: whether the table may have rows, which some changes would corrupt.

    Raises:
        ColumnNotFound, AlreadyExists, InvalidArgument: changes that are impossible, or that Paimon refuses.
        Unsupported: a type or option that Morrow does not handle.
    """
    draft = Draft(schema, has_snapshots, where)
    for change in changes:
        STEPS[type(change)](draft, change)
    options_set = {change.key for change in changes if isinstance(change, c.SetOption)}
    changed = apply_key_options(draft.built(), where)
    if changed == schema:
        return schema
    validate_schema(changed, where=where, options_set=options_set & set(changed.options), before=schema)
    return replace(
        changed, id=schema.id + 1, version=NEWEST_SCHEMA_VERSION, time_millis=int(time.time() * MILLIS_PER_SECOND)
    )


@dataclass
class Draft:
    """A schema during its changes. Rules that depend on options use the options of `before`, as Paimon does."""

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
        """Raise `InvalidArgument` if `path` is one of these key columns. `what` names the change."""
        if len(path) == 1 and path[0] in keys:
            raise InvalidArgument(
                f"{self.where}: Cannot {what}: [{path[0]}]; create a table with other keys, and append "
                "`table.scan()` to it"
            )

    def refuse_not_null(self, path: c.Path, before: DataType, nullable: bool) -> None:
        """Raise `InvalidArgument` if a type would forbid nulls that rows may have."""
        if before.nullable and not nullable and self.rules.get(ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED):
            raise InvalidArgument(
                f"{self.where}: {format_path(path)} may hold nulls and cannot become NOT NULL; if it holds none, "
                "set the "
                f"option {ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED} = false first"
            )


def _add(draft: Draft, change: c.AddColumn) -> None:
    if not change.type.nullable:
        raise InvalidArgument(
            f"{draft.where}: the new column {format_path(change.path)} cannot be NOT NULL: rows there are have no "
            "value of it"
        )
    ids = itertools.count(draft.highest_id + 1)
    column = Column(change.path[-1], change.type, change.comment)
    if len(change.path) == 1:
        column, draft.options = apply_directive(column, draft.options, draft.where)
    added = DataField(next(ids), column.name, assign_type_ids(column.type, ids), column.comment)
    draft.highest_id = next(ids) - 1
    position = change.position
    if position is None and len(change.path) == 1 and draft.rules.get(ADD_COLUMN_BEFORE_PARTITION):
        partition = [f.name for f in draft.fields if f.name in draft.before.partition_keys]
        position = c.Position(c.Place.BEFORE, partition[0]) if partition else None

    def insert(members: Fields) -> Fields:
        _require_free(members, change.path, draft)
        place = _find_place(members, position, change.path)
        return (*members[:place], added, *members[place:])

    draft.fields = replace_fields(draft.fields, change.path[:-1], insert)


def _drop(draft: Draft, change: c.DropColumn) -> None:
    draft.refuse_keys(
        change.path, (*draft.before.partition_keys, *draft.before.primary_keys), "drop partition key or primary key"
    )

    def drop(members: Fields) -> Fields:
        place = find_index(members, change.path)
        if len(members) == 1:
            raise InvalidArgument(f"{draft.where}: {format_path(change.path)} is the last one and cannot be dropped")
        return (*members[:place], *members[place + 1 :])

    draft.fields = replace_fields(draft.fields, change.path[:-1], drop)
    if len(change.path) == 1:
        draft.options = forget_column(draft.options, change.path[0])


def _rename(draft: Draft, change: c.RenameColumn) -> None:
    path, new = change.path, change.new_name
    draft.refuse_keys(path, draft.before.partition_keys, "rename partition column")

    def rename(members: Fields) -> Fields:
        place = find_index(members, path)
        if is_blob_type(members[place].type) and len(path) == 1:
            raise InvalidArgument(
                f"{draft.where}: the BLOB column {format_path(path)} cannot be renamed: its files name it"
            )
        _require_free(members, (*path[:-1], new), draft)
        return (*members[:place], replace(members[place], name=new), *members[place + 1 :])

    draft.fields = replace_fields(draft.fields, path[:-1], rename)
    if len(path) == 1:
        draft.primary_keys = tuple(new if key == path[0] else key for key in draft.primary_keys)
        draft.options = rename_in_options(draft.options, path[0], new)


def _move(draft: Draft, change: c.MoveColumn) -> None:
    if len(change.path) > 1:
        raise Unsupported(
            f"moving the member {format_path(change.path)}", where=draft.where, hint="columns move, members stay"
        )
    place = find_index(draft.fields, change.path)
    if change.position.neighbour == change.path[0]:
        raise InvalidArgument(f"{draft.where}: Cannot move itself for column {change.path[0]}; name another column")
    moved, others = draft.fields[place], (*draft.fields[:place], *draft.fields[place + 1 :])
    to = _find_place(others, change.position, change.path)
    draft.fields = (*others[:to], moved, *others[to:])


def _set_type(draft: Draft, change: c.SetType) -> None:
    before, path = draft.before, change.path
    draft.refuse_keys(path, before.partition_keys, "update partition column")
    if not (change.widens_keys and is_key_widening(find_type(before.fields, path), change.type)):
        draft.refuse_keys(path, before.primary_keys, "update primary key")
        if draft.has_snapshots:
            draft.refuse_keys(path, draft.rules.get(BUCKET_KEY), "update bucket key")
    explicit = not draft.rules.get(DISABLE_EXPLICIT_TYPE_CASTING)

    def cast(source: DataType) -> DataType:
        target = change.type.with_nullable(source.nullable) if change.keep_nullability else change.type
        draft.refuse_not_null(path, source, target.nullable)
        if not can_cast(source, target, explicit=explicit):
            raise InvalidArgument(
                f"{draft.where}: {format_path(path)} is {source} and cannot become {target}; "
                f"{_suggest_alternative(source, explicit)}"
            )
        return source.with_nullable(target.nullable) if source.text() == target.text() else target

    draft.fields = replace_type(draft.fields, path, cast)
    if len(path) == 1:
        column = draft.fields[find_index(draft.fields, path)]
        if column.default_value is not None:
            check_default(column.type, column.default_value, column.name)


def _suggest_alternative(source: DataType, explicit: bool) -> str:
    if source.keyword in ("ROW", "ARRAY", "MAP"):
        return "change its members one by one, such as 'a.b', 'a.element' or 'a.value'"
    return "add a new column" if explicit else f"the option {DISABLE_EXPLICIT_TYPE_CASTING} allows widening only"


def _set_nullable(draft: Draft, change: c.SetNullable) -> None:
    if change.nullable:
        draft.refuse_keys(change.path, draft.before.primary_keys, "change nullability of primary key")
    draft.refuse_not_null(change.path, find_type(draft.fields, change.path), change.nullable)
    draft.fields = replace_type(draft.fields, change.path, lambda source: source.with_nullable(change.nullable))


def _set_comment(draft: Draft, change: c.SetComment) -> None:
    draft.fields = replace_field(draft.fields, change.path, lambda f: replace(f, description=change.comment))


def _set_default(draft: Draft, change: c.SetDefault) -> None:
    if len(change.path) > 1:
        raise Unsupported(
            f"a default value of the member {format_path(change.path)}", where=draft.where, hint="columns have defaults"
        )

    def set_default(column: DataField) -> DataField:
        return replace(column, default_value=check_default(column.type, change.default, column.name))

    draft.fields = replace_field(draft.fields, change.path, set_default)


def _set_option(draft: Draft, change: c.SetOption) -> None:
    if draft.has_snapshots:
        check_set_option(draft.before.options, change.key, change.value, draft.where)
    draft.options[change.key] = change.value


def _remove_option(draft: Draft, change: c.RemoveOption) -> None:
    if draft.has_snapshots:
        check_remove_option(draft.before.options, change.key, draft.where)
    draft.options.pop(change.key, None)


def _set_table_comment(draft: Draft, change: c.SetTableComment) -> None:
    draft.comment = change.comment


def _find_place(members: Fields, position: c.Position | None, path: c.Path) -> int:
    if position is None or position.place is c.Place.LAST:
        return len(members)
    if position.place is c.Place.FIRST:
        return 0
    neighbour = find_index(members, (*path[:-1], position.neighbour or ""))
    return neighbour + (position.place is c.Place.AFTER)


def _require_free(members: Fields, path: c.Path, draft: Draft) -> None:
    if path[-1] in (field.name for field in members):
        raise AlreadyExists(f"{draft.where}: there is a column {format_path(path)} already")


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

Check = Callable[[Options, Options], None]
UNAWARE_OR_DYNAMIC = table.BUCKET.default


def check_set_option(options: Mapping[str, str], key: str, value: str, where: str) -> None:
    """Check the new value of one option; `options` belong to the current schema.

    Raises `InvalidArgument`: the change is refused.
    """
    before = resolve_former_keys(options)
    key = find_present_key(key)
    if before.get(key) == value:
        return
    if key not in CHECKS:
        _check_mutable(key, where)
    else:
        CHECKS[key](Options(before, where), Options({**before, key: value}, where))


def check_remove_option(options: Mapping[str, str], key: str, where: str) -> None:
    """Check the removal of one option. Raises `InvalidArgument`."""
    before = resolve_former_keys(options)
    key = find_present_key(key)
    if key == table.BUCKET.key:
        raise InvalidArgument(f"{where}: the option {table.BUCKET} cannot be removed from a table that has snapshots")
    if key not in CHECKS:
        _check_mutable(key, where)
    else:
        after = {name: value for name, value in before.items() if find_present_key(name) != key}
        CHECKS[key](Options(before, where), Options(after, where))


def _check_mutable(key: str, where: str) -> None:
    if key in IMMUTABLE:
        what = (
            "Alter primary key is not supported" if key == PRIMARY_KEY.key else f"the option {key!r} cannot be changed"
        )
        raise InvalidArgument(f"{where}: {what} in a table that has snapshots")


def _check_bucket(before: Options, after: Options) -> None:
    old, new = before.get(table.BUCKET), after.get(table.BUCKET)
    if old != new and UNAWARE_OR_DYNAMIC in (old, new):
        raise InvalidArgument(
            f"{before.where}: the option {table.BUCKET} cannot change from {old} to {new} in a table that has "
            "snapshots: -1 puts rows into buckets by other means than a number does"
        )


def _check_deletion_vectors(before: Options, after: Options) -> None:
    enabled, modifiable = merging.DELETION_VECTORS_ENABLED, merging.DELETION_VECTORS_MODIFIABLE
    if before.get(modifiable):
        return
    if before.get(enabled) != after.get(enabled):
        raise InvalidArgument(
            f"{before.where}: the option {enabled} cannot be changed in a table that has snapshots: rows that wait for "
            f"a compaction would be lost or doubled; compact the table fully, then set {modifiable} = true before this"
        )


def _make_true_check(option: Declared[bool]) -> Check:
    def check(before: Options, after: Options) -> None:
        if before.get(option) and not after.get(option):
            raise InvalidArgument(f"{before.where}: the option {option} cannot change from true to false")

    return check


def _make_kept_check(option: Declared[Any]) -> Check:
    def check(before: Options, after: Options) -> None:
        if before.get(option) != after.get(option):
            _check_mutable(option.key, before.where)

    return check


def _check_clustering(before: Options, _: Options) -> None:
    if before.has(maintenance.PK_CLUSTERING_OVERRIDE):
        raise InvalidArgument(
            f"{before.where}: {maintenance.CLUSTERING_COLUMNS} cannot be changed where "
            f"{maintenance.PK_CLUSTERING_OVERRIDE} is set"
        )


def _check_remove_record(before: Options, after: Options) -> None:
    """Let deletions be accepted from now on if they were refused before, so that the table holds none."""
    option = merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
    groups = any(key.endswith(f".{merging.SEQUENCE_GROUP.suffix}") for key in before.raw)
    if not after.get(option) or before.get(merging.IGNORE_DELETE) or groups:
        _check_mutable(option.key, before.where)


CHECKS: Mapping[str, Check] = {
    merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key: _check_remove_record,
    table.BUCKET.key: _check_bucket,
    merging.DELETION_VECTORS_ENABLED.key: _check_deletion_vectors,
    merging.IGNORE_DELETE.key: _make_true_check(merging.IGNORE_DELETE),
    merging.IGNORE_UPDATE_BEFORE.key: _make_true_check(merging.IGNORE_UPDATE_BEFORE),
    maintenance.CLUSTERING_COLUMNS.key: _check_clustering,
    # Readers do not find or read the files that there are if these change.
    **{
        option.key: _make_kept_check(option)
        for option in (maintenance.MANIFEST_FORMAT, table.PARTITION_DEFAULT_NAME, table.PARTITION_LEGACY_NAME)
    },
}
"""Option -> the check of its change, given the options before and after."""

NAMING = frozenset(
    key
    for option in (
        table.BUCKET_KEY,
        merging.SEQUENCE_FIELD,
        merging.ROWKIND_FIELD,
        merging.RECORD_LEVEL_TIME_FIELD,
        merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
        merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
        maintenance.CLUSTERING_COLUMNS,
        features.VECTOR_FIELD,
        *(features.BLOB_FIELD, features.BLOB_DESCRIPTOR_FIELD, features.BLOB_VIEW_FIELD),
    )
    for key in option.keys
)
"""Options whose values are column names separated by commas."""

KEY_OF_MAP = "["
GROUP_SUFFIX = f".{merging.SEQUENCE_GROUP.suffix}"


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options after column `old` became `new`."""
    return {_rename_in_key(key, old, new): _rename_in_value(key, value, old, new) for key, value in options.items()}


def _rename_in_key(key: str, old: str, new: str) -> str:
    if key.startswith(FIELDS):
        found = split_column_option(key)
        return key if found is None else f"{FIELDS}{_rename_in_names(found[0], old, new)}.{found[1]}"
    if key.startswith(INDEX_PREFIX):
        kind, _, rest = key[len(INDEX_PREFIX) :].partition(".")
        column, dot, option = rest.partition(".")
        if dot and column.partition(KEY_OF_MAP)[0] == old:
            return f"{INDEX_PREFIX}{kind}.{new}{column[len(old) :]}.{option}"
    return key


def _rename_in_value(key: str, value: str, old: str, new: str) -> str:
    is_group = key.startswith(FIELDS) and key.endswith(GROUP_SUFFIX)
    is_index = key.startswith(INDEX_PREFIX) and key.endswith(INDEX_COLUMNS)
    if is_index:
        return SEPARATOR.join(_rename_indexed(part, old, new) for part in value.split(SEPARATOR))
    return _rename_in_names(value, old, new) if is_group or key in NAMING else value


def _rename_indexed(part: str, old: str, new: str) -> str:
    """Rename an indexed column, listed as a whole or as ``map[key]``, the values of a key."""
    column, bracket, key = part.partition(KEY_OF_MAP)
    return f"{_rename_in_names(column, old, new)}{bracket}{key}"


def _rename_in_names(text: str, old: str, new: str) -> str:
    return SEPARATOR.join(part.replace(old, new) if part.strip() == old else part for part in text.split(SEPARATOR))


def check_deletion_vector_switch(metadata: TableMetadata, before: TableSchema, after: TableSchema) -> None:
    """Check a change of the option ``deletion-vectors.enabled`` against the newest snapshot.

    Raises `InvalidArgument`: rows would be lost, duplicated, or reappear.
    """
    had, has = (Options(schema.options, metadata.where).get(DELETION_VECTORS_ENABLED) for schema in (before, after))
    if had == has or (snapshot := metadata.latest_snapshot()) is None:
        return
    compact = "compact the table fully first: compact(full=True)"
    if had:
        dead = _count_dead_rows(read_index_entries(metadata, snapshot))
        if dead:
            raise InvalidArgument(
                f"{metadata.where}: the option {DELETION_VECTORS_ENABLED} cannot be unset while deletion vectors mark "
                f"{dead} rows as dead, which would come back; {compact}"
            )
    elif after.primary_keys:
        entries = read_live_entries(metadata, snapshot, after).frame
        if not has_single_runs(entries.filter(entries["_BUCKET"] >= 0)):  # other files await a bucket
            raise InvalidArgument(
                f"{metadata.where}: the option {DELETION_VECTORS_ENABLED} cannot be set while buckets hold several "
                f"sorted runs, which would be read unmerged or not at all; {compact}"
            )


def _count_dead_rows(indexes: pl.DataFrame | None) -> int:
    if indexes is None:
        return 0
    vectors = indexes.filter(indexes["_INDEX_TYPE"] == DELETION_VECTORS_INDEX)
    ranges = vectors.select(pl.col("_DELETIONS_VECTORS_RANGES").explode(empty_as_null=False)).drop_nulls().to_series()
    # A vector of unknown size marks at least one row.
    return int(ranges.struct.field("_CARDINALITY").fill_null(1).sum()) if len(ranges) else 0
