"""Removal of files that only removed roots (snapshots, changelogs, tags) needed.

It removes the files of the roots that go, except those still needed according to `engine.plan.reachability`. The order
is data files, changelog files, index files, statistics, manifests, manifest lists; the caller removes the roots
themselves last. So a killed run leaves roots that name the remaining files. Some of their manifests may be gone: the
files named there were removed before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import FileMissing, SnapshotExpired
from morrow.engine.format.manifest_columns import DELETE
from morrow.engine.options import Options
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER
from morrow.engine.options.expiring import parse_expire_options
from morrow.engine.options.words import ChangelogProducer
from morrow.engine.plan.live_names import live_names, names_of_gone
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.metadata_files import METADATA_CACHE
from morrow.engine.plan.reachability import Span, by_branch, holding_roots, needs_deltas, roots_around
from morrow.engine.plan.references import (
    KEY,
    WRITTEN,
    MetadataFiles,
    changelog_names,
    delta_list,
    metadata_files,
    no_names,
    read_entries,
    read_lists,
)
from morrow.engine.plan.roots import Line, Root, RootKind, lines
from morrow.engine.progress import advance
from morrow.engine.telling import logger
from morrow.engine.values import replace
from morrow.writers.history.removable import data_paths, index_paths, remove_empty_folders

MOST_TRIES = 5
"""How often the roots that stay are read when one of them expires meanwhile."""

log = logger(__name__)


@dataclass(frozen=True)
class Removed:
    """Counts of the removed files by kind, including those already gone. Metadata are manifests and their lists."""

    data_files: int = 0
    changelog_files: int = 0
    index_files: int = 0
    statistics: int = 0
    metadata_files: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.data_files + other.data_files,
            self.changelog_files + other.changelog_files,
            self.index_files + other.index_files,
            self.statistics + other.statistics,
            self.metadata_files + other.metadata_files,
        )


def remove_unreferenced(metadata: TableMetadata, gone: Sequence[Root]) -> Removed:
    """Removes the files that only removed roots need: those of a rollback, of deleted tags and branches.

    Raises:
        CorruptFile, FileMissing: metadata of roots that stay cannot be read; nothing was removed.
        StorageError: a file could not be removed; all others of its kind were. Call again.
    """
    removed = Removed()
    for roots in by_branch(gone):
        for tries in range(1, MOST_TRIES + 1):
            try:
                removed += _remove_abandoned(metadata, roots)
                break
            except (SnapshotExpired, FileMissing):
                # Another expiry ran meanwhile: read the current state anew.
                if tries == MOST_TRIES:
                    raise
    return removed


def _remove_abandoned(metadata: TableMetadata, gone: Sequence[Root]) -> Removed:
    there = lines(metadata)
    own = [line for line in there if line.metadata.branch == gone[0].metadata.branch]
    kept = [*holding_roots(gone, there), *_same_changelogs(gone, there)]
    kept += [root for line in there for root in _older_changelogs(line, gone)]
    names = _unshared_names(gone, kept, own)
    return _remove(metadata, names, gone, files_of=kept, data_of=kept)


def remove_expired(
    metadata: TableMetadata, gone: Sequence[Root], following: Root | None, there: Sequence[Line]
) -> Removed:
    """Removes the files that only the oldest snapshots of a branch need: consecutive ones, given from old to new.

    A file that one of them needs and no later snapshot does was deleted by one of those after it, so that only the
    changes are read.

    Args:
        following: the first snapshot that stays, when these are the last to go.
        there: all lines of the table; that of this branch begins after them.

    Raises: as `remove_unreferenced`; SnapshotExpired: a root is gone, read the lines anew.
    """
    own, others = _split(metadata, there)
    # An interrupted expiry may have removed snapshots in between: tags of those need what the following one deleted.
    last = gone[-1].id if following is None else following.id - 1
    # Files that the first one deleted were needed by the state before it, and may be by a tag of an older one.
    around = roots_around(own, [Span(gone[0].id - 1, last)])
    elsewhere = [*holding_roots(gone, others), *_same_changelogs(gone, others)]
    needs_data = _has_no_changelog_files(metadata)
    changelogs = [replace(root, with_data=needs_data) for root in _same_changelogs(gone, [own])]
    names = _deleted_names([*gone, *([following] if following else [])], strict=following)
    older: list[Root] = []
    if any(root.keeps_data for root in changelogs):
        # These are removed with the changelogs of the snapshots that deleted them.
        names = names.filter(pl.col("_FILE_SOURCE").fill_null(WRITTEN) != WRITTEN)
    else:
        older = _older_changelogs(own, gone)
    data_of = [*(root for root in around if root.id <= last), *elsewhere, *older]
    return _remove(metadata, names, gone, files_of=[*around, *elsewhere, *changelogs, *older], data_of=data_of)


def remove_expired_changelogs(metadata: TableMetadata, gone: Sequence[Root], there: Sequence[Line]) -> Removed:
    """Removes the files that only the oldest changelogs of a branch need: consecutive ones, given from old to new.

    Raises: as `remove_expired`.
    """
    own, others = _split(metadata, there)
    last = gone[-1].id
    around = roots_around(own, [Span(gone[0].id - 1, last)])  # as in `remove_expired`
    following = own.changelogs([i for i in own.changelog_ids if i > last][:1])
    elsewhere = [*holding_roots(gone, others), *_same_changelogs(gone, others)]
    kept = [*around, *elsewhere, *following, *own.snapshots([i for i in own.snapshot_ids if i <= last])]
    names = _deleted_names([root for root in gone if root.keeps_data])
    data_of = [*(root for root in around if root.id <= last), *elsewhere]
    return _remove(metadata, names, gone, files_of=kept, data_of=data_of)


def _has_no_changelog_files(metadata: TableMetadata) -> bool:
    producer = Options(metadata.latest_schema().options, metadata.where).get(CHANGELOG_PRODUCER)
    return producer is ChangelogProducer.NONE


def _split(metadata: TableMetadata, there: Sequence[Line]) -> tuple[Line, list[Line]]:
    own = next(line for line in there if line.metadata.branch == metadata.branch)
    return own, [line for line in there if line is not own]


def _deleted_names(roots: Sequence[Root], *, strict: Root | None = None) -> pl.DataFrame:
    """Returns the data files that these roots, from old to new, deleted last; those of `strict` must be readable."""
    gone = [root for root in roots if root is not strict]
    parts = [*_delta_names(gone, deleting=True, gone=True)]
    parts += _delta_names([strict], deleting=True, gone=False) if strict else []
    if not parts:
        return no_names()
    return pl.concat(parts).unique(KEY, keep="last", maintain_order=True).filter(pl.col("_KIND") == DELETE)


def _delta_names(roots: Sequence[Root], *, deleting: bool, gone: bool) -> Iterable[pl.DataFrame]:
    """Returns the changes of each root; with `deleting`, roots that deleted nothing are left out."""
    if not roots:
        return []
    frames = read_lists(roots, map(delta_list, roots), gone=gone)
    found = [frames[delta_list(root)] for root in roots if delta_list(root) in frames]
    changed = [frame for frame in found if not deleting or frame["_NUM_DELETED_FILES"].sum()]
    return [part for part in read_entries(roots, changed, gone=gone) if part is not None]


def _unshared_names(gone: Sequence[Root], kept: Sequence[Root], own: Iterable[Line]) -> pl.DataFrame:
    """Returns the data files that the gone roots of a branch need and those that stay do not certainly need."""
    whole = [root.snapshot for root in kept if root.kind != RootKind.CHANGELOG]
    roots = [root for root in gone if root.keeps_data and not any(map(root.is_same_state, whole))]
    ids = {root.id for root in gone if root.kind == RootKind.SNAPSHOT}.union(*(line.snapshot_ids for line in own))
    changed = [r for r in roots if r.kind == RootKind.CHANGELOG or (r.kind == RootKind.SNAPSHOT and r.id - 1 in ids)]
    # Files that they deleted count for changelogs alone; those of the others would be read in vain.
    parts = [*_delta_names(changed, deleting=False, gone=True)]
    parts += [names_of_gone(root) for root in roots if root not in changed]
    return pl.concat([no_names(), *parts]).unique(KEY, maintain_order=True)


def _same_changelogs(gone: Sequence[Root], there: Iterable[Line]) -> list[Root]:
    """Returns snapshots and changelogs that stay, of the same states as gone ones: they may need the same changelog
    files."""
    states = {root.id: root for root in gone if root.kind != RootKind.TAG}
    found: list[Root] = []
    for line in there:
        found += line.snapshots(i for i in line.snapshot_ids if i in states)
        found += line.changelogs(i for i in line.changelog_ids if i in states)
    return [root for root in found if states[root.id].is_same_state(root.snapshot)]


def _older_changelogs(line: Line, gone: Sequence[Root]) -> list[Root]:
    """Returns the changelogs that need data files and manifests, if the oldest one does."""
    mine = {r.id for r in gone if r.kind != RootKind.TAG and r.metadata.branch == line.metadata.branch}
    oldest = [*line.changelogs([i for i in line.changelog_ids if i not in mine][:1])]
    return needs_deltas(line) if any(root.keeps_data for root in oldest) else []


def _remove(
    metadata: TableMetadata,
    names: pl.DataFrame,
    gone: Sequence[Root],
    *,
    files_of: Sequence[Root],
    data_of: Sequence[Root],
) -> Removed:
    """Removes data files of `names` that no root of `data_of` needs, and other files that none of `files_of` needs."""
    kept = metadata_files(files_of)
    needed = metadata_files(gone, gone=True)
    changelogs = _unshared_changelogs(gone, files_of)
    if names.height and data_of:
        names = names.join(live_names(data_of, names), on=KEY, how="anti")
    schema = metadata.latest_schema()
    options = metadata.options(schema)
    indexes = needed.indexes.join(kept.indexes, on="_FILE_NAME", how="anti")
    data, added = (data_paths(metadata, schema, options, frame) for frame in (names, changelogs))
    removed = Removed(len(data), len(added), indexes.height)
    store = metadata.store
    store.delete_many([*data, *added])
    advance(files=len(data) + len(added))
    store.delete_many(index_paths(metadata, schema, options, indexes))
    if parse_expire_options(schema.options, where=metadata.where).clean_empty_directories:
        remove_empty_folders(store, metadata.root, [*data, *added])
    return removed + _remove_metadata(metadata, needed, kept)


def _remove_metadata(metadata: TableMetadata, needed: MetadataFiles, kept: MetadataFiles) -> Removed:
    store, paths = metadata.store, metadata.paths
    statistics = sorted(needed.statistics - kept.statistics)
    manifests = sorted((needed.manifests | needed.index_manifests) - kept.names)
    lists = sorted(needed.lists - kept.names)
    store.delete_many([paths.statistics(name) for name in statistics])
    store.delete_many([paths.manifest(name) for name in manifests])
    store.delete_many([paths.manifest(name) for name in lists])
    METADATA_CACHE.discard((*manifests, *lists))
    return Removed(statistics=len(statistics), metadata_files=len(manifests) + len(lists))


def _unshared_changelogs(gone: Sequence[Root], kept: Sequence[Root]) -> pl.DataFrame:
    """Returns the changelog files of the gone roots whose changelog list no other root has."""
    shared = {root.snapshot.changelog_manifest_list for root in kept if root.kind != RootKind.TAG}
    adding = [r for r in gone if r.kind != RootKind.TAG and r.snapshot.changelog_manifest_list not in {None, *shared}]
    return changelog_names(adding, gone=True) if adding else no_names()
