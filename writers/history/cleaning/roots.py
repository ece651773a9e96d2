"""Roots: the files that name all other files needed, which are the snapshots, tags and changelogs of all branches.

A root that is being removed (expiry has set EARLIEST beyond it and was killed, or is running) is still read for the
names in it, but the files may be gone. The files that any other root names must exist: otherwise it is unknown which
files are needed, and nothing may be removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morrow.engine.errors import FileMissing, Unsupported
from morrow.engine.format.paths import EARLIEST, MAIN_BRANCH, numbered
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.plan.listing import read_hint
from morrow.engine.plan.manifests import Stored
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import changelog_lists, data_lists
from morrow.engine.plan.roots import Root, RootKind
from morrow.engine.values import replace

WITH_HINTS = (RootKind.SNAPSHOT, RootKind.CHANGELOG)


@dataclass(frozen=True)
class RootFile:
    """A root as its folder lists it: another size or time (epoch milliseconds) means that it was rewritten."""

    branch: str
    kind: RootKind
    path: str
    size: int
    modified_millis: int


@dataclass(frozen=True)
class Named:
    """The names and sizes of the manifest lists of a root: those that must exist, and those that may be gone."""

    snapshot: Snapshot
    needed: tuple[Stored, ...]
    optional: tuple[Stored, ...]
    needs_index: bool


def branches(metadata: TableMetadata) -> dict[str, TableMetadata]:
    """Returns the main branch and all others, by name.

    Raises:
        Unsupported: a branch without schema, so that the places of its files are unknown.
    """
    main = metadata.at_branch(MAIN_BRANCH)
    found = {MAIN_BRANCH: main}
    for name in main.branch_names():
        branch = metadata.at_branch(name)
        if branch.schema_ids():
            found[name] = branch
        elif name in main.branch_names():  # otherwise it was deleted after it was listed
            raise Unsupported(
                "a branch without a schema, whose files are not known (nothing was removed),",
                where=branch.paths.branch_root,
                hint="a crash while it was made leaves one; look at the folder, and delete it if nobody needs it",
            )
    return found


@dataclass(frozen=True)
class Roots:
    """All roots of a table, as listed, and the ids below which those of a branch and kind are being removed."""

    tables: Mapping[str, TableMetadata]
    files: frozenset[RootFile]
    earliest: Mapping[tuple[str, RootKind], int]

    def besides(self, seen: frozenset[RootFile]) -> Roots:
        """Returns the roots that are not in `seen`."""
        return replace(self, files=self.files - seen)


def roots_of(metadata: TableMetadata) -> Roots:
    """Returns the current roots. Raises as `branches`."""
    tables = branches(metadata)
    files = frozenset(
        RootFile(table.branch, kind, f"{folder}/{status.name}", status.size, status.modified_millis)
        for table in tables.values()
        for kind in RootKind
        for folder in (f"{table.paths.branch_root}/{kind}",)
        for status in table.store.list(folder)
        if _is_root(kind, status.name) and not status.is_dir
    )
    earliest = {(name, kind): _earliest(table, kind) for name, table in tables.items() for kind in WITH_HINTS}
    return Roots(tables, files, earliest)


def _is_root(kind: RootKind, name: str) -> bool:
    return name.startswith("tag-") if kind == RootKind.TAG else numbered(name, f"{kind}-") is not None


def named(roots: Roots) -> Iterator[Named]:
    """Yields the names in these roots. Roots that are gone meanwhile are left out.

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
        # A changelog without a list of its own may have lost its data lists: whether it had no changes (with a
        # changelog producer) or its data files are the changelog depends on the options at that time.
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
    """Returns the id below which roots of a branch are being removed."""
    folder = f"{table.paths.branch_root}/{kind}"
    hint = read_hint(table.store, f"{folder}/{EARLIEST}") or 0
    return hint if table.store.exists(f"{folder}/{kind}-{hint}") else 0
