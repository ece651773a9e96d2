"""Retired snapshots, tags, changelogs and schemas, kept until the files that only they need are removed.

    snapshot/snapshot-9                       exists
    snapshot/retired-snapshot-<32 hex>        gone: no reader lists this name; its bytes are kept
    (no file)                                 gone, and so are the files that only it needed

A root of metadata is retired by one rename, so it is gone at once. Only the root names the files that it needed, so it
is kept until they have been removed, under a name that Java does not list either. A killed run leaves a retired file,
and `finish_removals`, with which every maintenance begins, completes it. In an object store a rename is a copy and a
deletion: a root killed between the two exists *and* is retired. Its files are needed then, and only the copy is
removed.

A branch is retired with its whole folder: ``branch/branch-b`` becomes ``branch/retired-branch-<32 hex>``. The folder of
an unfinished branch, ``branch/creating-<32 hex>``, is removed after a day: it keeps no files alive.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.errors import FileMissing
from morrow.engine.format.paths import TablePaths, parse_numbered
from morrow.engine.format.snapshot import parse_snapshot
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.units import NANOS_PER_MILLI

if TYPE_CHECKING:
    from morrow.engine.plan.roots import Root

RETIRED = re.compile(r"retired-(?P<kind>snapshot|tag|changelog|schema|branch)-[0-9a-f]{32}")
BRANCH = "branch"
CREATING = "creating-"
"""Prefix of the folder in which a branch is built before it gets its name."""
MIN_ABANDONED_MILLIS = 24 * 60 * 60 * 1000
"""Age after which an unfinished branch counts as abandoned."""
ROOTS = ("snapshot", "tag", "changelog")
"""Kinds of files that name the other files needed; each lies in the folder of its name."""
FILES = (*ROOTS, "schema")


def retire_file(metadata: TableMetadata, path: str) -> bool:
    """Retire the snapshot, tag, changelog, schema or branch at `path`: it is gone when this returns.

    Its bytes are kept until `finish_removals` has removed the files that only it needs.

    Returns: False if it was gone already.

    Raises `StorageError`: it may still exist. Unsupported: a branch in an object store, where folders cannot be moved.
    """
    target = make_tombstone_path(path)
    if _parse_retired_kind(target.rpartition("/")[2]) == BRANCH:
        metadata.store.move_folder(path, target)
        return True
    try:
        metadata.store.move(path, target)
    except FileMissing:
        return False
    return True


def make_tombstone_path(path: str) -> str:
    """Return a new unique path under which to retire the file or folder at `path`."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/retired-{name.partition('-')[0]}-{uuid.uuid4().hex}"


def finish_removals(metadata: TableMetadata, *, abandoned_before_millis: int | None = None) -> None:
    """Remove files that only retired snapshots, tags, changelogs and branches need; then remove these themselves.

    Call it after retiring something, and at the start of any maintenance, to complete killed runs.

    `abandoned_before_millis`: unfinished branches begun before this moment are abandoned; None: a day ago.

    Raises:
        CorruptFile, FileMissing: metadata that cannot be read; retired files stay retired.
        StorageError: a file could not be removed; the next maintenance tries again.
    """
    files, beside = list(_find_retired_files(metadata)), metadata.store.list(metadata.paths.branches_dir)
    branches = list(_find_retired_branches(metadata, beside))
    gone = list(_read_roots(metadata, files))
    for branch in branches:
        gone += _read_roots(branch, [*list_root_files(branch), *_find_retired_files(branch)])
    if gone:
        from morrow.writers.history.unreferenced_files import remove_unreferenced

        remove_unreferenced(metadata, gone)
    if files:
        metadata.store.delete_many([path for path, _ in files])
    if abandoned_before_millis is None:
        abandoned_before_millis = time.time_ns() // NANOS_PER_MILLI - MIN_ABANDONED_MILLIS
    abandoned = _find_abandoned(metadata, beside, abandoned_before_millis)
    for folder in [*(branch.paths.branch_root for branch in branches), *abandoned]:
        metadata.store.delete_folder(folder)


def _find_retired_files(metadata: TableMetadata) -> Iterator[tuple[str, str]]:
    """Yield paths and kinds of the retired files of this branch."""
    for kind in FILES:
        folder = f"{metadata.paths.branch_root}/{kind}"
        for status in metadata.store.list(folder):
            if _parse_retired_kind(status.name) == kind and not status.is_dir:
                yield f"{folder}/{status.name}", kind


def list_root_files(metadata: TableMetadata) -> list[tuple[str, str]]:
    """Return paths and kinds of all snapshots, tags and changelogs of a branch, the newest snapshots first."""
    found: list[tuple[str, str]] = []
    for kind in ROOTS:
        folder = f"{metadata.paths.branch_root}/{kind}"
        listed = (status.name for status in metadata.store.list(folder) if not status.is_dir)
        names = [n for n in listed if n.startswith("tag-") or parse_numbered(n, f"{kind}-") is not None]
        found += [
            (f"{folder}/{name}", kind) for name in sorted(names, key=lambda name: (len(name), name), reverse=True)
        ]
    return found


def _find_retired_branches(metadata: TableMetadata, listed: Iterable[FileStatus]) -> Iterator[_RetiredBranch]:
    for status in listed:
        if _parse_retired_kind(status.name) == BRANCH and status.is_dir:
            yield _RetiredBranch(metadata.store, metadata.root, status.name, metadata.allowed_roots)


def _find_abandoned(metadata: TableMetadata, listed: Iterable[FileStatus], before_millis: int) -> Iterator[str]:
    """Yield the folders of abandoned unfinished branches."""
    for status in listed:
        if status.name.startswith(CREATING) and status.is_dir and status.modified_millis < before_millis:
            yield f"{metadata.paths.branches_dir}/{status.name}"


def _parse_retired_kind(name: str) -> str | None:
    found = RETIRED.fullmatch(name)
    return None if found is None else found["kind"]


def _read_roots(metadata: TableMetadata, files: Iterable[tuple[str, str]]) -> Iterator[Root]:
    """Yield the roots in these files, except roots that another process has removed meanwhile."""
    from morrow.engine.plan.roots import Root

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


class _RetiredPaths(TablePaths, frozen=True):
    @property
    def branch_root(self) -> str:
        return f"{self.branches_dir}/{self.branch}"
