"""Removal of files that only removed roots (snapshots, changelogs, tags) need.

The files of the removed roots are removed, except files still needed according to `engine.plan.roots`. The order
is data files, changelog files, index files, statistics, manifests, manifest lists; the caller removes the roots
themselves last. So a killed run leaves roots that name the remaining files. If one of their manifests is gone, so are
the files that it named. Files in folders that do not belong to the table stay. Folders that become empty are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import FileMissing, SnapshotExpired
from morrow.engine.format.manifest_entries import DELETE
from morrow.engine.format.paths import check_segments, to_store_path
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.cache import forget_files
from morrow.engine.io.store import FileStore
from morrow.engine.options import Options, TableOptions
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER
from morrow.engine.options.retention import parse_expire_options
from morrow.engine.plan.data_files import build_file_paths, resolve_external_path
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import (
    KEY,
    WRITTEN,
    ReferencedMetadata,
    find_live_names,
    find_metadata_files,
    get_delta_list,
    list_changelog_files,
    list_names_of_removed,
    make_empty_names,
    read_file_names,
    read_lists,
)
from morrow.engine.plan.roots import (
    Line,
    Root,
    RootKind,
    Span,
    find_delta_changelogs,
    find_holding_roots,
    find_roots_around,
    group_by_branch,
    list_lines,
)
from morrow.engine.progress import advance
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace

MAX_TRIES = 5
"""Maximum attempts to read the remaining roots, if some of them expire meanwhile."""

log = get_logger(__name__)


@dataclass(frozen=True)
class RemovedFiles:
    """Counts of removed files by kind, including files already gone. Metadata are manifests and manifest lists."""

    data_files: int = 0
    changelog_files: int = 0
    index_files: int = 0
    statistics: int = 0
    metadata_files: int = 0

    def __add__(self, other: RemovedFiles) -> RemovedFiles:
        return RemovedFiles(
            self.data_files + other.data_files,
            self.changelog_files + other.changelog_files,
            self.index_files + other.index_files,
            self.statistics + other.statistics,
            self.metadata_files + other.metadata_files,
        )


def remove_unreferenced(metadata: TableMetadata, gone: Sequence[Root]) -> RemovedFiles:
    """Remove the files that only removed roots need, after a rollback or the deletion of tags or branches.

    Raises:
        CorruptFile, FileMissing: metadata of remaining roots cannot be read; nothing was removed.
        StorageError: a file could not be removed; all others of its kind were. Call again.
    """
    removed = RemovedFiles()
    for roots in group_by_branch(gone):
        for tries in range(1, MAX_TRIES + 1):
            try:
                removed += _remove_abandoned(metadata, roots)
                break
            except (SnapshotExpired, FileMissing):
                # Another expiry ran meanwhile: read the current roots again.
                if tries == MAX_TRIES:
                    raise
    return removed


def _remove_abandoned(metadata: TableMetadata, gone: Sequence[Root]) -> RemovedFiles:
    there = list_lines(metadata)
    own = [line for line in there if line.metadata.branch == gone[0].metadata.branch]
    kept = [*find_holding_roots(gone, there), *_find_same_changelogs(gone, there)]
    kept += [root for line in there for root in _find_older_changelogs(line, gone)]
    names = _find_unshared_names(gone, kept, own)
    return _remove(metadata, names, gone, files_of=kept, data_of=kept)


def remove_expired(
    metadata: TableMetadata, gone: Sequence[Root], following: Root | None, there: Sequence[Line]
) -> RemovedFiles:
    """Remove the files that only the oldest snapshots of a branch need.

    If a snapshot needs a file that later ones do not, one of the later ones deleted it. So only the changes are read.

    Args:
        gone: consecutive snapshots, from old to new.
        following: the first snapshot that stays, if these are the last to go.
        there: all lines of the table; the line of this branch begins after the gone snapshots.

    Raises: as `remove_unreferenced`; SnapshotExpired: a root is gone, read the lines again.
    """
    own, others = _split(metadata, there)
    # An interrupted expiry may have removed snapshots in between. Their tags need the files that the next one deleted.
    last = gone[-1].id if following is None else following.id - 1
    # The previous snapshot, or a tag of an older one, may need the files that the first one deleted.
    around = find_roots_around(own, [Span(gone[0].id - 1, last)])
    elsewhere = [*find_holding_roots(gone, others), *_find_same_changelogs(gone, others)]
    needs_data = _has_no_changelog_files(metadata)
    changelogs = [replace(root, with_data=needs_data) for root in _find_same_changelogs(gone, [own])]
    names = _read_deleted_names([*gone, *([following] if following else [])], strict=following)
    older: list[Root] = []
    if any(root.keeps_data for root in changelogs):
        # These are removed with the changelogs of the snapshots that deleted them.
        names = names.filter(pl.col("_FILE_SOURCE").fill_null(WRITTEN) != WRITTEN)
    else:
        older = _find_older_changelogs(own, gone)
    data_of = [*(root for root in around if root.id <= last), *elsewhere, *older]
    return _remove(metadata, names, gone, files_of=[*around, *elsewhere, *changelogs, *older], data_of=data_of)


def remove_expired_changelogs(metadata: TableMetadata, gone: Sequence[Root], there: Sequence[Line]) -> RemovedFiles:
    """Remove the files that only the oldest changelogs of a branch need.

    Raises: as `remove_expired`.
    """
    own, others = _split(metadata, there)
    last = gone[-1].id
    around = find_roots_around(own, [Span(gone[0].id - 1, last)])  # as in `remove_expired`
    following = own.changelogs([i for i in own.changelog_ids if i > last][:1])
    elsewhere = [*find_holding_roots(gone, others), *_find_same_changelogs(gone, others)]
    kept = [*around, *elsewhere, *following, *own.snapshots([i for i in own.snapshot_ids if i <= last])]
    names = _read_deleted_names([root for root in gone if root.keeps_data])
    data_of = [*(root for root in around if root.id <= last), *elsewhere]
    return _remove(metadata, names, gone, files_of=kept, data_of=data_of)


def _has_no_changelog_files(metadata: TableMetadata) -> bool:
    producer = Options(metadata.newest_options(), metadata.where).get(CHANGELOG_PRODUCER)
    return producer is ChangelogProducer.NONE


def _split(metadata: TableMetadata, there: Sequence[Line]) -> tuple[Line, list[Line]]:
    own = next(line for line in there if line.metadata.branch == metadata.branch)
    return own, [line for line in there if line is not own]


def _read_deleted_names(roots: Sequence[Root], *, strict: Root | None = None) -> pl.DataFrame:
    """Return the data files that these roots (from old to new) deleted last. Manifests of `strict` must be readable."""
    gone = [root for root in roots if root is not strict]
    parts = [*_read_delta_names(gone, deleting=True, gone=True)]
    parts += _read_delta_names([strict], deleting=True, gone=False) if strict else []
    if not parts:
        return make_empty_names()
    return pl.concat(parts).unique(KEY, keep="last", maintain_order=True).filter(pl.col("_KIND") == DELETE)


def _read_delta_names(roots: Sequence[Root], *, deleting: bool, gone: bool) -> Iterable[pl.DataFrame]:
    """Return the changes of each root; with `deleting`, roots that deleted nothing are left out."""
    if not roots:
        return []
    frames = read_lists(roots, map(get_delta_list, roots), gone=gone)
    found = [frames[get_delta_list(root)] for root in roots if get_delta_list(root) in frames]
    changed = [frame for frame in found if not deleting or frame["_NUM_DELETED_FILES"].sum()]
    return [part for part in read_file_names(roots, changed, gone=gone) if part is not None]


def _find_unshared_names(gone: Sequence[Root], kept: Sequence[Root], own: Iterable[Line]) -> pl.DataFrame:
    """Return the data files that the gone roots of a branch need and the remaining roots may not need."""
    whole = [root.snapshot for root in kept if root.kind != RootKind.CHANGELOG]
    roots = [root for root in gone if root.keeps_data and not any(map(root.is_same_state, whole))]
    ids = {root.id for root in gone if root.kind == RootKind.SNAPSHOT}.union(*(line.snapshot_ids for line in own))
    changed = [r for r in roots if r.kind == RootKind.CHANGELOG or (r.kind == RootKind.SNAPSHOT and r.id - 1 in ids)]
    # Deleted files matter for changelogs only, so the changes of the others need not be read.
    parts = [*_read_delta_names(changed, deleting=False, gone=True)]
    parts += [list_names_of_removed(root) for root in roots if root not in changed]
    return pl.concat([make_empty_names(), *parts]).unique(KEY, maintain_order=True)


def _find_same_changelogs(gone: Sequence[Root], there: Iterable[Line]) -> list[Root]:
    """Return remaining snapshots and changelogs of the same commits as gone ones, which may share changelog files."""
    states = {root.id: root for root in gone if root.kind != RootKind.TAG}
    found: list[Root] = []
    for line in there:
        found += line.snapshots(i for i in line.snapshot_ids if i in states)
        found += line.changelogs(i for i in line.changelog_ids if i in states)
    return [root for root in found if states[root.id].is_same_state(root.snapshot)]


def _find_older_changelogs(line: Line, gone: Sequence[Root]) -> list[Root]:
    """Return the changelogs that need data files and manifests, if the oldest one does."""
    mine = {r.id for r in gone if r.kind != RootKind.TAG and r.metadata.branch == line.metadata.branch}
    oldest = [*line.changelogs([i for i in line.changelog_ids if i not in mine][:1])]
    return find_delta_changelogs(line) if any(root.keeps_data for root in oldest) else []


def _remove(
    metadata: TableMetadata,
    names: pl.DataFrame,
    gone: Sequence[Root],
    *,
    files_of: Sequence[Root],
    data_of: Sequence[Root],
) -> RemovedFiles:
    """Remove data files of `names` that no root of `data_of` needs, and other files that none of `files_of` needs."""
    kept = find_metadata_files(files_of)
    needed = find_metadata_files(gone, gone=True)
    changelogs = _find_unshared_changelogs(gone, files_of)
    if names.height and data_of:
        names = names.join(find_live_names(data_of, names), on=KEY, how="anti")
    schema = metadata.latest_schema()
    options = metadata.options(schema)
    indexes = needed.indexes.join(kept.indexes, on="_FILE_NAME", how="anti")
    data, added = (find_data_paths(metadata, schema, options, frame) for frame in (names, changelogs))
    removed = RemovedFiles(len(data), len(added), indexes.height)
    store = metadata.store
    store.delete_many([*data, *added])
    forget_files(path.rpartition("/")[2] for path in data)
    advance(files=len(data) + len(added))
    store.delete_many(find_index_paths(metadata, schema, options, indexes))
    if parse_expire_options(schema.options, where=metadata.where).clean_empty_directories:
        remove_empty_folders(store, metadata.root, [*data, *added])
    return removed + _remove_metadata(metadata, needed, kept)


def _remove_metadata(metadata: TableMetadata, needed: ReferencedMetadata, kept: ReferencedMetadata) -> RemovedFiles:
    store, paths = metadata.store, metadata.paths
    statistics = sorted(needed.statistics - kept.statistics)
    manifests = sorted((needed.manifests | needed.index_manifests) - kept.names)
    lists = sorted(needed.lists - kept.names)
    store.delete_many([paths.statistics(name) for name in statistics])
    store.delete_many([paths.manifest(name) for name in manifests])
    store.delete_many([paths.manifest(name) for name in lists])
    forget_files((*manifests, *lists))
    return RemovedFiles(statistics=len(statistics), metadata_files=len(manifests) + len(lists))


def _find_unshared_changelogs(gone: Sequence[Root], kept: Sequence[Root]) -> pl.DataFrame:
    """Return the changelog files of the gone roots whose changelog list no other root has."""
    shared = {root.snapshot.changelog_manifest_list for root in kept if root.kind != RootKind.TAG}
    adding = [r for r in gone if r.kind != RootKind.TAG and r.snapshot.changelog_manifest_list not in {None, *shared}]
    return list_changelog_files(adding, gone=True) if adding else make_empty_names()


def find_data_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, names: pl.DataFrame
) -> list[str]:
    """Return the paths of the data files that may be removed."""
    if not names.height:
        return []
    check_segments(names["_FILE_NAME"], metadata.where)
    return build_file_paths(metadata, schema, options, _filter_reachable(metadata, names)).to_list()


def _filter_reachable(metadata: TableMetadata, names: pl.DataFrame) -> pl.DataFrame:
    """Drop names of files that must not be removed: outside of the table's folder and of the roots that the caller
    named.

    External paths in the table's options may hold files of other tables, and are only used for reading.
    """
    outside = names["_EXTERNAL_PATH"]
    if outside.null_count() == names.height:
        return names
    roots = [metadata.root, *metadata.removable_roots]
    allowed = [path is None or _is_below(to_store_path(metadata.store, path), roots) for path in outside]
    if left := [path for path, inside in zip(outside, allowed) if not inside]:
        log.warning(
            "%s: %d files that are not needed any more were left where they are, outside of the table's folder: "
            "%s%s; if they are this table's, name their folder in allowed_roots and remove them by hand",
            *(metadata.where, len(left), left[0], " and others" if len(left) > 1 else ""),
        )
    return names.filter(pl.Series(allowed, dtype=pl.Boolean))


def _is_below(path: str | None, roots: Sequence[str]) -> bool:
    return path is not None and any(not root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def find_index_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, indexes: pl.DataFrame
) -> list[str]:
    """Return the paths of the index files that may be removed."""
    if not indexes.height:
        return []
    check_segments(indexes["_FILE_NAME"], metadata.where)
    reachable = _filter_reachable(metadata, indexes)
    if options.index_in_data_dir:
        return build_file_paths(metadata, schema, options, reachable).to_list()
    return [
        metadata.paths.index(name) if path is None else resolve_external_path(metadata, options, path)
        for name, path in reachable.select("_FILE_NAME", "_EXTERNAL_PATH").iter_rows()
    ]


def remove_empty_folders(store: FileStore, root: str, removed: Iterable[str]) -> None:
    """Remove the folders of removed files, and their parents, if they are empty; the table's own folder stays.

    A writer that has just created such a folder creates it again when it writes a file there.

    `removed`: paths of the removed files.
    """
    folders = {path.rpartition("/")[0] for path in removed}
    while folders:
        empty = {folder for folder in folders if folder.startswith(f"{root}/") and store.remove_empty_folder(folder)}
        folders = {folder.rpartition("/")[0] for folder in empty}
