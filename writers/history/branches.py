"""Branches of a table: creation, removal, renames, fast-forward, merging, and the replacement of the table by a branch.

Creation copies schemas, a tag and a snapshot; data, manifests and indexes are shared. On a local disk the branch is
built under another name (``branch/creating-<32 hex>``) and then renamed, so its creation is atomic. An object store
cannot move folders. There the oldest schema is created first, and only if it does not exist, so that only one of
several callers creates the branch. The other schemas, the tag, and the snapshot follow. A run killed before the
snapshot leaves a branch without rows, to be deleted and created again. Finally the creator checks the source again.
Expiry, rollback and tag deletion first hide the snapshots that they remove and then read which files the branches need.
So either they find the branch, or its creator finds that they were faster, and removes it.

Removal renames the folder of the branch so that no reader lists it (`retire_file`), and the branch is gone at once.
Then the files that only the branch needs are removed (Java leaves them to the orphan files cleaning), then the folder.
In an object store, its snapshots are retired one by one, the newest first, then its tags and changelogs. Then the files
are removed, and the folder last. Removing the branch again completes a killed removal.

Renaming moves the folder. In an object store it is copied, schemas first, and the old one is deleted. A killed rename
leaves both branches. They share all files, and either can be removed.

Fast-forward: main (or the current branch) takes over the state of a branch. From the first snapshot of the branch on,
its snapshots, tags and schemas replace main's, as in Java. Earlier snapshots of main stay if that first snapshot was
committed on top of them, as usual: it is the snapshot of main from which the branch was created. Otherwise, as when
older snapshots of the branch have expired, they are removed. (Java keeps them, but expiry assumes that each snapshot
follows the previous one.) Then unneeded files are removed. At every moment readers see a snapshot of main, then one of
the branch, or an error:

    1. rewind main to the first snapshot of the branch (`rewind_table`)
    2. retire the schemas of main that differ, the newest first, and copy the branch's, the oldest first
    3. copy the later snapshots of the branch, the oldest first, then its tags; set the hint LATEST

If older snapshots of the branch have expired, its first one may use a schema that differs. Main's differing schemas are
then retired before step 1: snapshots that use them cannot be read until step 2 is done, and are never read with wrong
columns. The branch itself does not change, so another call completes a killed run. Snapshots that expire in the branch
while it is copied are retired in main too.

Merging adds the data files of another branch to a branch that lacks them, in one APPEND snapshot. As in Java, the table
must not have a primary key, rows must only have been appended to both branches, and no snapshot may have expired. Then
the union of their files has the rows of both. Data files are shared by all branches, so none is copied.

Replacement is REPLACE TABLE and CREATE OR REPLACE TABLE.

The new rows are written to a branch whose only schema is the replacing one. Publishing commits one OVERWRITE snapshot
with the files of the branch, which all branches share, then the schema. The snapshot is the moment of the replacement:
before it, readers see the old table. It holds the schema as a property, so that the next reader creates the
schema if the writer was killed in between (`find_newest_snapshot`). Snapshots, tags and files of the old table stay.

Columns get new ids, so that no file of the old table is read as one of the new table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from morrow.engine.arguments import is_name
from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    CommitConflict,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    StorageError,
    Unsupported,
)
from morrow.engine.format.manifest_entries import DataFileMeta, ManifestEntry, index_entries_of, to_entries
from morrow.engine.format.paths import EARLIEST, LATEST, MAIN_BRANCH, TablePaths
from morrow.engine.format.schema import TableSchema, format_schema
from morrow.engine.format.snapshot import ANALYZE, APPEND, FIRST_SNAPSHOT_ID, Snapshot, format_snapshot
from morrow.engine.options import Options, parse_write_options
from morrow.engine.options.declared.table import SCAN_FALLBACK_DELTA_BRANCH, SCAN_FALLBACK_SNAPSHOT_BRANCH
from morrow.engine.plan.entries import resolve_entries
from morrow.engine.plan.manifests import is_living, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import REPLACING_SCHEMA, TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.references import KEY, find_live_names, list_file_names, read_lists
from morrow.engine.plan.roots import Root, RootKind
from morrow.engine.redaction import suggest_name
from morrow.engine.schema.columns import assign_ids
from morrow.engine.schema.evolution import OTHER_BRANCHES, commit_schema
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace
from morrow.writers.commit.commit_lock import hold_commit_lock
from morrow.writers.commit.manifests import IDENTITY, read_live_entries
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.history.iceberg_metadata import publish_quietly
from morrow.writers.history.rollback import retire_changelogs, rewind_table, rollback_table, write_hint
from morrow.writers.history.tags import drop_lost_changelog, find_taggable_snapshot, is_kept
from morrow.writers.history.tombstones import CREATING, finish_removals, list_root_files, retire_file
from morrow.writers.target import WriteTarget


def create_branch(
    metadata: TableMetadata,
    name: str,
    *,
    tag: str | None = None,
    snapshot: int | Snapshot | None = None,
    ignore_if_exists: bool = False,
) -> None:
    """Create a branch of the branch that `metadata` is on.

    Args:
        tag: the branch begins with the snapshot of this tag, and has the tag too.
        snapshot: the branch begins with this snapshot (or its id), which is alive or kept by a tag. Without tag and
            snapshot the branch begins empty.
        ignore_if_exists: do nothing if a branch of this name exists.

    Raises:
        InvalidArgument: an invalid name for a branch (``main``, blank, only digits), or both a tag and a snapshot.
        AlreadyExists: a branch of this name exists.
        TagNotFound, SnapshotNotFound, SnapshotExpired: the tag or snapshot does not exist; no branch was created.
    """
    folder = build_branch_folder(metadata, name)
    if ignore_if_exists and metadata.store.is_dir(folder):
        return
    check_new_branch(name)
    if tag is not None and snapshot is not None:
        raise InvalidArgument("a branch begins with a tag or with a snapshot; give one of them")
    if metadata.store.is_dir(folder):
        raise AlreadyExists(f"{metadata.where}: there is a branch {name!r} already")
    owner = metadata.owner
    if Owned.BRANCHES not in owner.owns:
        owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "the creation of a branch")
        finish_removals(metadata)
    begin = None if tag is None and snapshot is None else _find_source(metadata, tag, snapshot)
    if Owned.BRANCHES in owner.owns:
        made = owner.create_branch(metadata.branch, name, tag=tag, snapshot=begin)
    else:
        made = _write_branch(metadata, name, _build_contents(metadata, tag, begin))
    if not made and not ignore_if_exists:
        raise AlreadyExists(f"{metadata.where}: there is a branch {name!r} already")
    if Owned.BRANCHES in owner.owns:
        return
    if begin is not None and not is_kept(metadata, begin):
        metadata.store.delete_folder(folder)
        raise SnapshotExpired(f"{metadata.where}: snapshot {begin.id} was removed while a branch was made of it")
    if begin is not None and (without := drop_lost_changelog(metadata, begin)) != begin:
        # Checked again: the snapshot may have expired before expiry could find the branch.
        path = TablePaths(metadata.root, name).snapshot(begin.id)
        metadata.store.write(path, format_snapshot(without))


def _find_source(metadata: TableMetadata, tag: str | None, snapshot: int | Snapshot | None) -> Snapshot:
    return find_taggable_snapshot(metadata, snapshot) if tag is None else metadata.tag(tag).snapshot


def _build_contents(metadata: TableMetadata, tag: str | None, begin: Snapshot | None) -> Mapping[str, bytes]:
    """Return the files of the branch by their relative path, in the order in which to write them."""
    last = metadata.latest_schema().id if begin is None else begin.schema_id
    files = {
        f"schema/schema-{i}": metadata.store.read(metadata.paths.schema(i)) for i in metadata.schema_ids() if i <= last
    }
    if begin is not None:
        if tag is not None:
            files[f"tag/tag-{tag}"] = metadata.store.read(metadata.paths.tag(tag))
        files[f"snapshot/snapshot-{begin.id}"] = format_snapshot(drop_lost_changelog(metadata, begin))
    return files


def _write_branch(metadata: TableMetadata, name: str, files: Mapping[str, bytes]) -> bool:
    """Write the branch; return False if another process created a branch of this name meanwhile."""
    store, folder = metadata.store, TablePaths(metadata.root, name).branch_root
    if not store.is_local:
        first, *others = files
        if not store.create(f"{folder}/{first}", files[first]):
            return False
        for path in others:
            store.write(f"{folder}/{path}", files[path])
        return True
    aside = f"{metadata.paths.branches_dir}/{CREATING}{uuid.uuid4().hex}"
    try:
        for path, data in files.items():
            store.write(f"{aside}/{path}", data)
        store.move_folder(aside, folder)
    except StorageError:
        if not store.is_dir(folder):
            raise
        return False
    finally:
        store.delete_folder(aside)
    return True


def delete_branch(metadata: TableMetadata, name: str) -> None:
    """Remove a branch with the files that only it needs.

    Raises:
        BranchNotFound: there is none of this name.
        InvalidArgument: the main branch, or one that an option of the table names.
        StorageError: the branch, or some files, still exist; any maintenance or another call continues.
    """
    folder = find_branch_folder(metadata, name)
    check_unused(metadata, name, "removed")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.delete_branch(name)
        return
    metadata.owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "the removal of a branch")
    finish_removals(metadata)
    try:
        retire_file(metadata, folder)
    except Unsupported:
        _empty_branch(metadata.at_branch(name))
        metadata.store.delete_folder(folder)
    finish_removals(metadata)


def _empty_branch(branch: TableMetadata) -> None:
    """Remove all snapshots, tags and changelogs of a branch, and the files that only they need."""
    for path, _ in list_root_files(branch):
        retire_file(branch, path)
    finish_removals(branch)


def rename_branch(metadata: TableMetadata, name: str, new_name: str) -> None:
    """Rename a branch.

    Raises:
        BranchNotFound: there is none of this name. AlreadyExists: there is one of the new name.
        InvalidArgument: the main branch, one that an option of the table names, or an invalid name for a branch.
        StorageError: the branch has its old name, in an object store perhaps both.
    """
    folder = find_branch_folder(metadata, name)
    check_new_branch(new_name)
    check_unused(metadata, name, "renamed")
    target = build_branch_folder(metadata, new_name)
    if metadata.store.is_dir(target):
        raise AlreadyExists(f"{metadata.where}: there is a branch {new_name!r} already")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.rename_branch(name, new_name)
        return
    metadata.owner.refuse(Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS, "a rename of a branch")
    finish_removals(metadata)
    try:
        metadata.store.move_folder(folder, target)
    except Unsupported:
        _copy_folder(metadata, folder, target)
        metadata.store.delete_folder(folder)


def _copy_folder(metadata: TableMetadata, source: str, target: str) -> None:
    """Copy the folder of a branch, schemas first."""
    found = [pair for piece in metadata.store.walk(source) for pair in piece]
    inner = [path.removeprefix(source) for path, status in found if not status.is_dir]
    for path in sorted(inner, key=lambda path: (not path.startswith("/schema/"), path)):
        metadata.store.write(target + path, metadata.store.read(source + path))


BRANCH_OWNED = Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS


def fast_forward_branch(metadata: TableMetadata, name: str) -> None:
    """Give the branch that `metadata` is on the snapshots, tags and schemas of the branch `name`, which stays.

    Raises:
        BranchNotFound: the branch does not exist.
        InvalidArgument: the branch is without snapshots or a common schema, or is the main or the current branch.
        CommitConflict: another process committed meanwhile. StorageError: it was done in part. Call again.
    """
    find_branch_folder(metadata, name)
    if name == metadata.branch:
        raise InvalidArgument(f"{metadata.where}: the branch {name!r} cannot be fast-forwarded to itself")
    if Owned.BRANCHES in metadata.owner.owns:
        metadata.owner.fast_forward(metadata.branch, name)
        publish_quietly(metadata)
        return
    metadata.owner.refuse(BRANCH_OWNED | Owned.BRANCHES, "a fast-forward")
    branch = metadata.on_branch(name)
    snapshots = list(branch.snapshots())
    if not snapshots:
        raise InvalidArgument(f"{branch.where}: the branch has no snapshot, so there is nothing to go forward to")
    finish_removals(metadata)
    with hold_commit_lock(metadata):
        _rewind_to_first(metadata, branch, snapshots[0])
        finish_removals(metadata)  # before ids are used again: retired snapshots still follow the existing ones
        _copy_schemas(metadata, branch)
        for snapshot in snapshots[1:]:
            _put(metadata, metadata.paths.snapshot(snapshot.id), format_snapshot(snapshot))
        _copy_tags(metadata, branch)
        write_hint(metadata, LATEST, snapshots[-1].id)
        _give_up_expired(metadata, branch, snapshots[0])
    publish_quietly(metadata)
    finish_removals(metadata)


def _rewind_to_first(metadata: TableMetadata, branch: TableMetadata, first: Snapshot) -> None:
    """Make the first snapshot of the branch the newest one, and retire schemas that differ."""
    common = min(_find_differing_schemas(metadata, branch), default=None)
    if common is not None and common <= min(branch.schema_ids()):
        raise InvalidArgument(f"{branch.where}: the branch has no schema in common with {metadata.where}")
    before = common is not None and first.schema_id >= common
    if before:
        _retire_schemas(metadata, branch)

    earlier = [i for i in metadata.living_snapshot_ids() if i < first.id]
    stay = earlier if is_living(metadata, first) or _is_base_of(metadata, earlier, first) else []
    of_branch = {tag.name: tag for tag in branch.tags()}
    gone = [
        tag.name
        for tag in metadata.tags()
        if tag != of_branch.get(tag.name)
        and (tag.snapshot.id >= first.id or (common is not None and tag.snapshot.schema_id >= common))
    ]
    rewind_table(metadata, first, stay=stay, tags=gone)
    retire_changelogs(metadata, first.id)
    if not before:
        _retire_schemas(metadata, branch)


def _is_base_of(metadata: TableMetadata, earlier: Sequence[int], snapshot: Snapshot) -> bool:
    """Return whether `snapshot` was committed on top of the live files of the last `earlier` snapshot."""
    before = metadata.snapshot_or_none(earlier[-1]) if earlier and earlier[-1] == snapshot.id - 1 else None
    if before is None:
        return False
    root = Root(metadata, RootKind.SNAPSHOT, snapshot)
    base = (snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    found = read_manifest_entries(metadata, read_lists([root], [base])[base])
    names = list_file_names(resolve_entries(pl.concat(found))).select(KEY).rows() if found else []
    return set(names) == set(find_live_names([Root(metadata, RootKind.SNAPSHOT, before)]).iter_rows())


def _find_differing_schemas(metadata: TableMetadata, branch: TableMetadata) -> list[int]:
    """Return, ascending, the ids of schemas that differ between the two branches or that one of them lacks."""
    ours, theirs = set(metadata.schema_ids()), set(branch.schema_ids())
    return sorted((ours ^ theirs) | {i for i in ours & theirs if metadata.schema(i) != branch.schema(i)})


def _retire_schemas(metadata: TableMetadata, branch: TableMetadata) -> None:
    for schema_id in reversed(_find_differing_schemas(metadata, branch)):
        retire_file(metadata, metadata.paths.schema(schema_id))


def _copy_schemas(metadata: TableMetadata, branch: TableMetadata) -> None:
    for schema_id in _find_differing_schemas(metadata, branch):
        _put(metadata, metadata.paths.schema(schema_id), metadata.store.read(branch.paths.schema(schema_id)))


def _copy_tags(metadata: TableMetadata, branch: TableMetadata) -> None:
    """Copy the tags of the branch, replacing tags of the same names."""
    ours = {tag.name: tag for tag in metadata.tags()}
    for tag in branch.tags():
        path = metadata.paths.tag(tag.name)
        if ours.get(tag.name) == tag:
            continue
        retire_file(metadata, path)
        _put(metadata, path, metadata.store.read(branch.paths.tag(tag.name)))
        if not metadata.store.exists(branch.paths.tag(tag.name)):  # deleted meanwhile, perhaps with its files
            retire_file(metadata, path)


def _put(metadata: TableMetadata, path: str, data: bytes) -> None:
    if not metadata.store.create(path, data) and metadata.store.read(path) != data:
        raise CommitConflict(f"{path}: another created it meanwhile; fast-forward again")


def _give_up_expired(metadata: TableMetadata, branch: TableMetadata, first: Snapshot) -> None:
    """Retire copies of snapshots that have expired in the branch meanwhile: their files may be gone."""
    earliest = branch.earliest_snapshot_id()
    if earliest is None:
        raise CommitConflict(f"{branch.where}: the branch was removed while it was copied")
    if earliest > first.id:
        write_hint(metadata, EARLIEST, earliest)
        for snapshot_id in metadata.snapshot_ids():
            if snapshot_id < earliest:
                retire_file(metadata, metadata.paths.snapshot(snapshot_id))


def merge_branch(metadata: TableMetadata, name: str) -> Snapshot | None:
    """Merge the branch `name` into the branch that `metadata` is on; see `Branches.merge`."""
    if name != MAIN_BRANCH:
        find_branch_folder(metadata, name)
    if name == metadata.branch:
        raise InvalidArgument(f"{metadata.where}: the branch {name!r} cannot be merged into itself")
    into, source = WriteTarget.of(metadata), WriteTarget.of(metadata.on_branch(name))
    newest = [_check_source(target) for target in (source, into)]
    if into.options.row_tracking != source.options.row_tracking:
        raise InvalidArgument(f"{into.where}: only one of the branches tracks rows ('row-tracking.enabled')")
    if into.schema.fields != source.schema.fields:
        raise InvalidArgument(f"{into.where}: the branches have other columns: {name!r} cannot be merged")
    files = _find_missing_files(source, into, *newest)
    _check_schemas(source, into, {entry.file.schema_id for entry in files})
    messages = [_make_message(entry, into.options.row_tracking) for entry in files]
    # Not by a function that removes the files of a failed commit: these files belong to the other branch.
    return commit_with_maintenance(into).commit(messages, check_append_files=True) if messages else None


def _check_source(target: WriteTarget) -> Snapshot:
    """Return the newest snapshot of a branch; check that rows were only appended since its first snapshot."""
    if target.keyed:
        raise Unsupported("merging branches of a table with a primary key", where=target.where, hint="fast-forward")
    if target.options.data_evolution:
        raise Unsupported("merging branches with data evolution", where=target.where)
    ids = target.metadata.living_snapshot_ids()
    if not ids:
        raise SnapshotNotFound(f"{target.where}: the branch has no snapshot")
    if ids != list(range(FIRST_SNAPSHOT_ID, ids[-1] + 1)):
        raise InvalidArgument(
            f"{target.where}: the branch does not begin with snapshot {FIRST_SNAPSHOT_ID}, or one is missing: whether "
            "rows were only appended is not known"
        )
    newest: Snapshot | None = None
    for newest in target.metadata.each_snapshot(ids):
        if newest is None or newest.commit_kind not in (APPEND, ANALYZE):
            what = "has expired" if newest is None else f"{newest.id} is {newest.commit_kind}"
            raise InvalidArgument(f"{target.where}: a snapshot {what}; branches with appended rows alone are merged")
    assert newest is not None
    return newest


def _find_missing_files(
    source: WriteTarget, into: WriteTarget, of_source: Snapshot, of_into: Snapshot
) -> list[ManifestEntry]:
    there = read_live_entries(into.metadata, of_into, into.schema, None).select(IDENTITY)
    files = read_live_entries(source.metadata, of_source, source.schema, None)
    return to_entries(files.join(there, on=IDENTITY, how="anti", nulls_equal=True, maintain_order="left"))


def _check_schemas(source: WriteTarget, into: WriteTarget, ids: set[int]) -> None:
    known = set(into.metadata.schema_ids())
    for schema_id in sorted(ids):
        if schema_id not in known or source.metadata.schema(schema_id) != into.metadata.schema(schema_id):
            raise InvalidArgument(
                f"{into.where}: it has not the schema {schema_id} of the branch {source.metadata.branch!r}, with which "
                "files were written"
            )


def _make_message(entry: ManifestEntry, tracked: bool) -> CommitMessage:
    file: DataFileMeta = msgspec.structs.replace(entry.file, first_row_id=None) if tracked else entry.file
    return CommitMessage(
        partition=entry.partition, bucket=entry.bucket, total_buckets=entry.total_buckets, new_files=(file,)
    )


def check_new_branch(name: str) -> None:
    """Check the name of a new branch.

    Raises `InvalidArgument`: Java refuses the name, or it is not the name of a single folder.
    """
    _check_segment(name)
    if name == MAIN_BRANCH:
        raise InvalidArgument(f"{MAIN_BRANCH!r} is the name of the default branch; take another one")
    if name.isdecimal():
        raise InvalidArgument(f"{name!r} is not a branch name: one of digits only would be taken for a snapshot id")


def build_branch_folder(metadata: TableMetadata, name: str) -> str:
    """Return the folder of the branch `name`, whether it exists or not.

    Raises `InvalidArgument`: the main branch, or an invalid name of a branch.
    """
    _check_segment(name)
    if name == MAIN_BRANCH:
        raise InvalidArgument(
            f"the branch {MAIN_BRANCH!r} is the table itself: it cannot be made, removed, renamed or merged"
        )
    return TablePaths(metadata.root, name).branch_root


def find_branch_folder(metadata: TableMetadata, name: str) -> str:
    """Return the folder of an existing branch. Raises `BranchNotFound`, `InvalidArgument`."""
    folder = build_branch_folder(metadata, name)
    if not metadata.store.is_dir(folder):
        names = metadata.branch_names()
        known, hint = ", ".join([MAIN_BRANCH, *names]), suggest_name(name, names)
        raise BranchNotFound(f"{metadata.where}: there is no branch {name!r}; {hint}the branches are {known}")
    return folder


def check_unused(metadata: TableMetadata, name: str, verb: str) -> None:
    """Raise `InvalidArgument` for a branch that options of this table refer to."""
    main = metadata.on_branch(MAIN_BRANCH)
    for options in (main.latest_schema().options, metadata.latest_schema().options):
        for key in (*OTHER_BRANCHES, SCAN_FALLBACK_SNAPSHOT_BRANCH, SCAN_FALLBACK_DELTA_BRANCH):
            if Options(options).text(key) == name:
                raise InvalidArgument(
                    f"{metadata.where}: the branch {name!r} cannot be {verb}, since the option {key} names it; "
                    "remove the option first"
                )


def _check_segment(name: str) -> None:
    if not is_name(name) or not name.strip() or name in (".", "..") or any(c in name for c in "/\\"):
        raise InvalidArgument(f"{name!r} is not a branch name: give a text without / and \\ that is not blank")


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

    Raises `CommitConflict`: the schema of the table was changed meanwhile; the table is unchanged.
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
    publish_quietly(metadata)
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
