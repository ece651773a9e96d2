"""Replacement of a table by another one in its place: REPLACE TABLE and CREATE OR REPLACE TABLE.

The new rows are written to a branch whose only schema is the replacing one. Publishing commits one OVERWRITE snapshot
with the files of the branch, which all branches share, then the schema. The snapshot is the moment of the replacement:
before it, readers see the old table. It holds the schema as a property, so that the next reader creates the
schema if the writer was killed in between (`find_newest_snapshot`). Snapshots, tags and files of the old table stay.

Columns get new ids, so that no file of the old table is read as one of the new table.
"""

from __future__ import annotations

import uuid

import msgspec

from morrow.engine.errors import CommitConflict, Unsupported
from morrow.engine.format.manifest_entries import ManifestEntry, index_entries_of, to_entries
from morrow.engine.format.schema import TableSchema, format_schema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import parse_write_options
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import REPLACING_SCHEMA, TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.schema.columns import assign_ids
from morrow.engine.schema.evolution import commit_schema
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace
from morrow.writers.commit.base_entries import read_live_entries
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.branches import delete_branch
from morrow.writers.history.rollback import rollback_table
from morrow.writers.target import WriteTarget

BRANCH = "replacing-"
"""The beginning of the names of branches with the rows of a replacement."""


def begin_replacement(metadata: TableMetadata, schema: TableSchema) -> TableMetadata:
    """Return a new branch for the rows of a table that replaces this one; `publish_replacement` makes it the table.

    Raises:
        Unsupported: other partition keys, by which files of older snapshots could not be found, or a catalog that
            creates schemas itself.
    """
    metadata.owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.BRANCHES, "REPLACE TABLE")
    before = metadata.latest_schema()
    if schema.partition_keys != before.partition_keys:
        raise Unsupported(
            f"REPLACE TABLE with the partition keys ({', '.join(schema.partition_keys)}) instead of "
            f"({', '.join(before.partition_keys)})",
            where=metadata.where,
            hint="drop the table, and create it",
        )
    columns = [Column(f.name, f.type, f.description, f.default_value) for f in schema.fields]
    fields, highest = assign_ids(columns, before.highest_field_id + 1)
    branch = metadata.at_branch(f"{BRANCH}{uuid.uuid4().hex[:12]}")
    commit_schema(branch, replace(schema, id=before.id + 1, fields=fields, highest_field_id=highest))
    return branch


def publish_replacement(metadata: TableMetadata, branch: TableMetadata) -> Snapshot | None:
    """Make the schema and rows of a branch from `begin_replacement` the table's, and remove the branch.

    Returns: the snapshot; None if neither table has had one.

    Raises:
        CommitConflict: the schema of the table was changed meanwhile; the table is unchanged.
    """
    schema, rows, before = branch.latest_schema(), branch.latest_snapshot(), metadata.latest_snapshot()
    conflict = CommitConflict(f"{metadata.where}: its schema was changed while it was replaced; replace it again")
    if metadata.latest_schema().id >= schema.id:
        raise conflict
    made = None
    if rows is not None or before is not None:
        target = _make_target(metadata, schema)
        messages = [] if rows is None else _collect_messages(branch, rows, schema)
        properties = {REPLACING_SCHEMA: format_schema(schema).decode()}
        made = TableCommit(target).overwrite(messages, partitions="all", properties=properties)
    if not commit_schema(metadata, schema) and metadata.schema(schema.id) != schema:
        if before is not None:
            rollback_table(metadata, before)
        raise conflict
    delete_branch(metadata, branch.branch)
    return made


def _make_target(metadata: TableMetadata, schema: TableSchema) -> WriteTarget:
    knowing = metadata.knowing(schema)
    write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
    return WriteTarget(knowing, schema, knowing.options(schema), write)


def _collect_messages(branch: TableMetadata, snapshot: Snapshot, schema: TableSchema) -> list[CommitMessage]:
    """Return the live files of a branch as new files, by bucket."""
    found: dict[tuple[bytes, int], CommitMessage] = {}

    def add(partition: bytes, bucket: int, total: int, **files: tuple[object, ...]) -> None:
        message = found.setdefault(
            (partition, bucket), CommitMessage(partition=partition, bucket=bucket, total_buckets=total)
        )
        more = {name: (*getattr(message, name), *added) for name, added in files.items()}
        found[partition, bucket] = msgspec.structs.replace(message, **more)

    entries: list[ManifestEntry] = to_entries(read_live_entries(branch, snapshot, schema, None))
    for entry in entries:
        add(entry.partition, entry.bucket, entry.total_buckets, new_files=(entry.file,))
    index = read_index_entries(branch, snapshot)
    for each in [] if index is None else index_entries_of(index):
        add(each.partition, each.bucket, 0, new_index_files=(each.file,))
    return list(found.values())
