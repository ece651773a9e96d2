"""The files that say which other files are needed: snapshots, tags and changelogs of all branches.

A root that is being given up (expiry has set EARLIEST beyond it and was killed, or is at work) is still read for what
it names, but what it names may be gone. What a living one names must be there: otherwise nobody can tell what is
needed, and nothing may be removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.plan.entries import Stored
from morrow.engine.plan.metadata import HINT_DIGITS, TableMetadata
from morrow.engine.plan.references import Root, RootKind, changelog_lists, data_lists

ROOT_NAMES = {
    RootKind.SNAPSHOT: re.compile("snapshot-[0-9]+"),
    RootKind.TAG: re.compile("tag-.*", re.DOTALL),
    RootKind.CHANGELOG: re.compile("changelog-[0-9]+"),
}
WITH_HINTS = (RootKind.SNAPSHOT, RootKind.CHANGELOG)


@dataclass(frozen=True)
class RootFile:
    """A root as its folder lists it: another size or time means that it was written anew (epoch milliseconds)."""

    branch: str
    kind: RootKind
    path: str
    size: int
    modified_millis: int


@dataclass(frozen=True)
class Named:
    """The names and sizes of the manifest lists of a root: those that it needs, and those that it may still have."""

    snapshot: Snapshot
    needed: tuple[Stored, ...]
    optional: tuple[Stored, ...]
    needs_index: bool


def branches(metadata: TableMetadata) -> dict[str, TableMetadata]:
    """The main branch and all others, by name.

    Raises:
        CorruptFile: a branch without schema, of which nobody knows where its files lie.
    """
    main = TableMetadata(metadata.store, metadata.root, MAIN_BRANCH, metadata.allowed_roots)
    found = {MAIN_BRANCH: main}
    for name in main.branch_names():
        branch = TableMetadata(metadata.store, metadata.root, name, metadata.allowed_roots)
        if branch.schema_ids():
            found[name] = branch
        elif name in main.branch_names():  # or else it was deleted after it was listed
            raise CorruptFile(
                branch.paths.branch_root,
                "the branch has no schema, so what it needs is not known, and nothing was removed",
                hint="look at the folder; if nobody needs it, delete it",
            )
    return found


@dataclass(frozen=True)
class Roots:
    """All roots of a table, as they are listed, and the ids below which those of a branch and kind are given up."""

    tables: Mapping[str, TableMetadata]
    files: frozenset[RootFile]
    earliest: Mapping[tuple[str, RootKind], int]

    def besides(self, seen: frozenset[RootFile]) -> Roots:
        """Those that were not seen."""
        return replace(self, files=self.files - seen)


def roots_of(metadata: TableMetadata) -> Roots:
    """The roots that are there now. Raises as `branches`."""
    tables = branches(metadata)
    files = frozenset(
        RootFile(table.branch, kind, f"{folder}/{status.name}", status.size, status.modified_millis)
        for table in tables.values()
        for kind in RootKind
        for folder in (f"{table.paths.branch_root}/{kind}",)
        for status in table.store.list(folder)
        if ROOT_NAMES[kind].fullmatch(status.name) and not status.is_dir
    )
    earliest = {(name, kind): _earliest(table, kind) for name, table in tables.items() for kind in WITH_HINTS}
    return Roots(tables, files, earliest)


def named(roots: Roots) -> Iterator[Named]:
    """What these roots name. Those that are gone meanwhile are left out.

    Raises:
        CorruptFile, Unsupported: a root that cannot be read.
    """
    for file in sorted(roots.files, key=lambda file: file.path):
        table = roots.tables[file.branch]
        try:
            snapshot = parse_snapshot(table.store.read(file.path), file.path)
        except FileMissing:
            continue
        is_going = snapshot.id < roots.earliest.get((file.branch, file.kind), 0)
        root = Root(table, file.kind, snapshot)
        # A changelog without a list of its own may have lost its data lists: whether it had nothing to tell (with a
        # changelog producer) or is told by its data depends on options of the time.
        data = () if file.kind == RootKind.CHANGELOG else data_lists(root)
        needed = () if is_going else (*data, *changelog_lists(root))
        optional = tuple(one for one in _lists(snapshot) if one not in needed)
        yield Named(snapshot, needed, optional, needs_index=file.kind != RootKind.CHANGELOG and not is_going)


def _lists(snapshot: Snapshot) -> Iterator[Stored]:
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def _earliest(table: TableMetadata, kind: RootKind) -> int:
    """The id below which roots of a branch are being given up."""
    folder = f"{table.paths.branch_root}/{kind}"
    try:
        text = table.store.read(f"{folder}/EARLIEST").strip()
    except FileMissing:
        return 0
    hint = int(text) if text.isascii() and text.isdigit() and len(text) < HINT_DIGITS else 0
    return hint if table.store.exists(f"{folder}/{kind}-{hint}") else 0
