"""Snapshots, tags, changelogs and schemas that are gone, while what only they need is still being removed.

    snapshot/snapshot-9                       is there
    snapshot/retired-snapshot-<32 hex>        gone: no reader lists this name; its bytes are kept
    (no file)                                 gone, and so are the files that only it needed

To give up a root of metadata is one rename, so it is gone at once. Which files it needed stands in it alone; it is
therefore kept, under a name that Java does not list either, until they have been removed. Whoever is killed in between
leaves a retired file, and `finish_retired`, with which every maintenance begins, does the rest. In an object store a
rename is a copy and a deletion: what was killed between the two is there *and* retired. Its files are needed then, and
nothing but the copy is removed.

A branch is retired with all that is in it: ``branch/branch-b`` becomes ``branch/retired-branch-<32 hex>``. What is left
of one that was never finished, ``branch/creating-<32 hex>``, goes after a day: it keeps nothing alive.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from morrow.engine.errors import FileMissing
from morrow.engine.format.paths import TablePaths
from morrow.engine.format.snapshot import parse_snapshot
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import Root
from morrow.writers.expiry.unneeded import remove_unneeded

RETIRED = re.compile(r"retired-(?P<kind>snapshot|tag|changelog|schema|branch)-[0-9a-f]{32}")
BRANCH = "branch"
CREATING = "creating-"
"""Begins the name of the folder in which a branch is built before it gets its own."""
ABANDONED_MILLIS = 24 * 60 * 60 * 1000
"""After this nobody is building a branch any more."""
NANOS_PER_MILLI = 1_000_000
ROOTS = ("snapshot", "tag", "changelog")
"""Kinds of files that say which other files are needed; each lies in the folder of its name."""
FILES = (*ROOTS, "schema")


def retire(metadata: TableMetadata, path: str) -> bool:
    """Give up the snapshot, tag, changelog, schema or branch at `path`: it is gone when this returns.

    Its bytes are kept until `finish_retired` has removed what only it needs.

    Returns: False when it was gone already.

    Raises:
        StorageError: it may be there still. Unsupported: a branch in an object store, where folders cannot be moved.
    """
    target = retired_path(path)
    if _retired_kind(target.rpartition("/")[2]) == BRANCH:
        metadata.store.move_folder(path, target)
        return True
    try:
        metadata.store.move(path, target)
    except FileMissing:
        return False
    return True


def retired_path(path: str) -> str:
    """A name under which the file or folder at `path` is retired, another one each time."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/retired-{name.partition('-')[0]}-{uuid.uuid4().hex}"


def finish_retired(metadata: TableMetadata, *, abandoned_before_millis: int | None = None) -> None:
    """Remove what only retired snapshots, tags and changelogs of this branch, and retired branches, need; then these.

    Whoever has retired something calls it, and all maintenance begins with it: a run that was killed is completed.

    Args:
        abandoned_before_millis: nobody goes on building a branch begun before this moment; None: a day ago.

    Raises:
        CorruptFile, FileMissing: metadata that cannot be read; what is retired stays so.
        StorageError: a file could not be removed; the next maintenance tries again.
    """
    files, beside = list(_retired_files(metadata)), metadata.store.list(metadata.paths.branches_dir)
    branches = list(_retired_branches(metadata, beside))
    gone = list(_roots(metadata, files))
    for branch in branches:
        gone += _roots(branch, [*root_files(branch), *_retired_files(branch)])
    if gone:
        remove_unneeded(metadata, gone)
    if files:
        metadata.store.delete_many([path for path, _ in files])
    if abandoned_before_millis is None:
        abandoned_before_millis = time.time_ns() // NANOS_PER_MILLI - ABANDONED_MILLIS
    abandoned = _abandoned(metadata, beside, abandoned_before_millis)
    for folder in [*(branch.paths.branch_root for branch in branches), *abandoned]:
        metadata.store.delete_folder(folder)


def _retired_files(metadata: TableMetadata) -> Iterator[tuple[str, str]]:
    """Paths and kinds of the retired files of this branch."""
    for kind in FILES:
        folder = f"{metadata.paths.branch_root}/{kind}"
        for status in metadata.store.list(folder):
            if _retired_kind(status.name) == kind and not status.is_dir:
                yield f"{folder}/{status.name}", kind


def root_files(metadata: TableMetadata) -> list[tuple[str, str]]:
    """Paths and kinds of all snapshots, tags and changelogs of a branch, the newest snapshots first."""
    found: list[tuple[str, str]] = []
    for kind in ROOTS:
        folder = f"{metadata.paths.branch_root}/{kind}"
        names = [s.name for s in metadata.store.list(folder) if s.name.startswith(f"{kind}-") and not s.is_dir]
        found += [
            (f"{folder}/{name}", kind) for name in sorted(names, key=lambda name: (len(name), name), reverse=True)
        ]
    return found


def _retired_branches(metadata: TableMetadata, listed: Iterable[FileStatus]) -> Iterator[_RetiredBranch]:
    for status in listed:
        if _retired_kind(status.name) == BRANCH and status.is_dir:
            yield _RetiredBranch(metadata.store, metadata.root, status.name, metadata.allowed_roots)


def _abandoned(metadata: TableMetadata, listed: Iterable[FileStatus], before_millis: int) -> Iterator[str]:
    """Folders of branches that nobody goes on building."""
    for status in listed:
        if status.name.startswith(CREATING) and status.is_dir and status.modified_millis < before_millis:
            yield f"{metadata.paths.branches_dir}/{status.name}"


def _retired_kind(name: str) -> str | None:
    found = RETIRED.fullmatch(name)
    return None if found is None else found["kind"]


def _roots(metadata: TableMetadata, files: Iterable[tuple[str, str]]) -> Iterator[Root]:
    """The roots in these files; those that another process has finished meanwhile are left out."""
    for path, kind in files:
        if kind in ROOTS:
            try:
                yield Root(metadata, kind, parse_snapshot(metadata.store.read(path), path))
            except FileMissing:
                continue


@dataclass(frozen=True)
class _RetiredBranch(TableMetadata):
    """The metadata of a retired branch; `branch` is the name of its folder."""

    @cached_property
    def paths(self) -> TablePaths:
        return _RetiredPaths(self.root, self.branch)


class _RetiredPaths(TablePaths):
    @property
    def branch_root(self) -> str:
        return f"{self.branches_dir}/{self.branch}"
