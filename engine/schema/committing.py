"""Schema files taken: a version of the schema is whoever creates its file first."""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.errors import AlreadyExists, CommitConflict, InvalidArgument, UnclearOutcome
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema, schema_json
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.applying import changed_schema
from morrow.engine.schema.changes import SchemaChange
from morrow.engine.schema.conversions import check_conversion

OTHER_BRANCHES = ("scan.fallback-branch", "scan.primary-branch")
MOST_TRIES = 100
"""Each time we lose, another writer has changed the schema: so many in a row is no accident."""


def take_schema(metadata: TableMetadata, schema: TableSchema) -> bool:
    """Create the schema file of this id, durably; False when another writer was first."""
    path, data = metadata.paths.schema(schema.id), schema_json(schema)
    try:
        return metadata.store.create(path, data)
    except UnclearOutcome:
        # No two writers make equal bytes but by the millisecond of equal schemas, which is no harm.
        if metadata.store.exists(path):
            return metadata.store.read(path) == data
        raise


def create_first_schema(metadata: TableMetadata, schema: TableSchema) -> None:
    """Make the table: `schema` becomes its first schema.

    Raises:
        AlreadyExists: there is a table at this place.
    """
    _check_branches(metadata, schema)
    if metadata.schema_ids() or not take_schema(metadata, schema):
        raise AlreadyExists(f"{metadata.where}: there is a table already")


def commit_changes(metadata: TableMetadata, changes: Sequence[SchemaChange]) -> TableSchema:
    """Change the newest schema: all changes in one new version, or none of them.

    Whoever changed the schema meanwhile goes first: the changes are applied anew to what they left.

    Returns: the newest schema; no new version when the changes change nothing.

    Raises:
        TableNotFound. ColumnNotFound, AlreadyExists, InvalidArgument, Unsupported: as `changed_schema`.
        InvalidArgument: as `check_conversion`.
        CommitConflict: others change the schema all the time.
    """
    for _ in range(MOST_TRIES):
        before = metadata.latest_schema()
        has_snapshots = metadata.latest_snapshot() is not None
        after = changed_schema(before, changes, has_snapshots=has_snapshots, where=metadata.where)
        if after is before:
            return before
        _check_branches(metadata, after)
        check_conversion(metadata, before, after)
        if take_schema(metadata, after):
            return after
    raise CommitConflict(f"{metadata.where}: the schema was changed by others {MOST_TRIES} times; try again later")


def _check_branches(metadata: TableMetadata, schema: TableSchema) -> None:
    """Options that name another branch name one that is there, and one of them at most is set."""
    named = {key: schema.options[key] for key in OTHER_BRANCHES if schema.options.get(key, "").strip()}
    if len(named) > 1:
        raise InvalidArgument(f"{metadata.where}: the options {' and '.join(map(repr, named))} contradict each other")
    known = [MAIN_BRANCH, *metadata.branch_names()] if named else []
    for key, branch in named.items():
        if branch not in known:
            raise InvalidArgument(
                f"{metadata.where}: the option {key!r} names the branch {branch!r}; there are {', '.join(known)}"
            )
