"""Commits of schema files: the first to create the file of a version wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from morrow.engine.errors import AlreadyExists, CommitConflict, InvalidArgument, UnclearOutcome
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema, schema_json
from morrow.engine.options import Options
from morrow.engine.options.declared.scans import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.schema.applying import changed_schema
from morrow.engine.schema.changes import SchemaChange
from morrow.engine.schema.conversions import check_conversion

OTHER_BRANCHES = (SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH)
MOST_TRIES = 100
"""The most attempts: each loss means that another writer changed the schema, so that many in a row is no accident."""


def take_schema(metadata: TableMetadata, schema: TableSchema, changes: Sequence[SchemaChange] = ()) -> bool:
    """Creates the schema file of this id, durably; returns False when another writer was first.

    Where the catalog owns schemas, it does so, and is told the `changes` to the schema before.
    """
    if Owned.SCHEMAS in metadata.owner.owns:
        return metadata.owner.commit_schema(metadata.branch, schema, changes)
    with metadata.owner.lock(metadata.branch):
        if not _created(metadata, metadata.paths.schema(schema.id), schema_json(schema)):
            return False
        if schema.id:
            metadata.owner.schema_changed(metadata.branch, schema)
        return True


def _created(metadata: TableMetadata, path: str, data: bytes) -> bool:
    try:
        return metadata.store.create(path, data)
    except UnclearOutcome:
        # Two writers make equal bytes only for equal schemas in the same millisecond, which is harmless.
        if metadata.store.exists(path):
            return metadata.store.read(path) == data
        raise


def create_first_schema(metadata: TableMetadata, schema: TableSchema) -> None:
    """Creates the table: `schema` becomes its first schema.

    Raises:
        AlreadyExists: this location holds a table.
    """
    _check_branches(metadata, schema)
    if metadata.schema_ids() or not take_schema(metadata, schema):
        raise AlreadyExists(f"{metadata.where}: there is a table already")


def commit_changes(
    metadata: TableMetadata,
    changes: Sequence[SchemaChange],
    check: Callable[[TableSchema, TableSchema], None] | None = None,
) -> TableSchema:
    """Changes the newest schema: all changes in one new version, or none of them.

    Concurrent changes of the schema go first: `changes` are then applied anew to the newer schema.

    Args:
        check: raises unless the schema before may become the one after.

    Returns: the newest schema; no new version when the changes change nothing.

    Raises:
        TableNotFound. ColumnNotFound, AlreadyExists, InvalidArgument, Unsupported: as `changed_schema`.
        InvalidArgument: as `check_conversion`.
        CommitConflict: concurrent changes of the schema do not cease.
    """
    for _ in range(MOST_TRIES):
        before = metadata.latest_schema()
        has_snapshots = metadata.latest_snapshot() is not None
        after = changed_schema(before, changes, has_snapshots=has_snapshots, where=metadata.where)
        if after is before:
            return before
        _check_branches(metadata, after)
        check_conversion(metadata, before, after)
        if check is not None:
            check(before, after)
        if take_schema(metadata, after, changes):
            return after
    raise CommitConflict(f"{metadata.where}: the schema was changed by others {MOST_TRIES} times; try again later")


def _check_branches(metadata: TableMetadata, schema: TableSchema) -> None:
    """Checks that at most one option names another branch, and that the branch exists."""
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
