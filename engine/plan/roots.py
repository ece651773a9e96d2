"""The roots of a table, and the roots to examine before the files of removed roots may be deleted.

A root is a file that references other files and so keeps them: a snapshot, a tag or a changelog, of main or of a
branch.

The snapshots and tags of a branch form a line, ordered by id. A data file, a manifest or an index file is added at one
point of the line and removed at another, and never returns: all roots in between need it. So for roots that are removed
from a line, three kinds of roots decide for the whole line: the nearest root before them, the tags between them, and
the nearest root after them. This is the rule of the tags proposal, whose "earliest snapshot" is the nearest root after.

Two branches share a line up to the point at which one left the other, or was fast-forwarded to it. They share no files
younger than that. Java does not record the point. It is derived from the roots that both share (the same id and the
same delta list) and the roots that they do not share. If these do not determine it, every root of the other line is
examined. The same holds for tables without a primary key, where one branch may have been merged into the other and then
shares younger files, and for tables that a branch has replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from morrow.engine.errors import SnapshotExpired
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.plan.changelogs import list_living_changelog_ids, read_changelogs
from morrow.engine.plan.metadata import TableMetadata


class RootKind(StrEnum):
    """The kinds of roots: the folders they lie in, and the prefixes of their file names."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True)
class Root:
    """A snapshot, a tag (with its `name`) or a changelog of the branch of `metadata`.

    `with_data`: for a changelog, whether the files of its snapshot were left to it.
    """

    metadata: TableMetadata
    kind: RootKind | str
    snapshot: Snapshot
    name: str = ""
    with_data: bool = True

    @property
    def id(self) -> int:
        return self.snapshot.id

    @property
    def keeps_data(self) -> bool:
        """Whether base and delta list are needed: not by a changelog that has files of its own."""
        return self.kind != RootKind.CHANGELOG or (self.with_data and self.snapshot.changelog_manifest_list is None)

    def is_same_state(self, other: Snapshot) -> bool:
        """Return whether both roots are the same snapshot, rather than two that merely share an id."""
        return (self.id, self.snapshot.delta_manifest_list) == (other.id, other.delta_manifest_list)


@dataclass(frozen=True)
class Line:
    """The roots of one branch by the id of their snapshot. Snapshots and changelogs are listed by id only."""

    metadata: TableMetadata
    snapshot_ids: tuple[int, ...]
    tags: tuple[Tag, ...]
    changelog_ids: tuple[int, ...]

    @classmethod
    def of(cls, metadata: TableMetadata) -> Line:
        """List the current roots of a branch. A snapshot that is removed before it is read may have become a tag."""
        ids = tuple(metadata.living_snapshot_ids())
        return cls(metadata, ids, tuple(metadata.tags()), tuple(list_living_changelog_ids(metadata)))

    def snapshots(self, ids: Iterable[int]) -> Iterator[Root]:
        """Yield the snapshots that still exist."""
        for found in self.metadata.each_snapshot([*ids]):
            if found is not None:
                yield Root(self.metadata, RootKind.SNAPSHOT, found)

    def tag_roots(self) -> Iterator[Root]:
        return (Root(self.metadata, RootKind.TAG, tag.snapshot, tag.name) for tag in self.tags)

    def changelogs(self, ids: Iterable[int]) -> Iterator[Root]:
        """Yield the changelogs that still exist."""
        for found in read_changelogs(self.metadata, [*ids]):
            if found is not None:
                with_data = found.changelog_manifest_list is None and self._has_delta(found)
                yield Root(self.metadata, RootKind.CHANGELOG, found, with_data=with_data)

    def _has_delta(self, changelog: Snapshot) -> bool:
        """Return False for the changes of a compaction in a table that writes changelog files: nothing reads them."""
        return self.metadata.store.exists(self.metadata.paths.manifest(changelog.delta_manifest_list))

    def roots(self) -> Iterator[Root]:
        """Yield all roots."""
        yield from self.tag_roots()
        yield from self.snapshots(self.snapshot_ids)
        yield from self.changelogs(self.changelog_ids)


def list_lines(metadata: TableMetadata) -> list[Line]:
    """Return the lines of main and all branches of a table, whatever the branch of `metadata`."""
    main = metadata.at_branch(MAIN_BRANCH)
    branches = (main.at_branch(name) for name in main.branch_names())
    return [Line.of(main), *map(Line.of, branches)]


FIRST, LAST = 0, 1 << 63
"""Bounds of ids."""


@dataclass(frozen=True)
class Span:
    """Ids from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, snapshot_id: int) -> bool:
        return self.low <= snapshot_id <= self.high


def find_holding_roots(gone: Sequence[Root], lines: Iterable[Line]) -> list[Root]:
    """Return the snapshots and tags of `lines` that may need files of the `gone` roots, which belong to one branch.

    Raises `SnapshotExpired`: one of them has been removed meanwhile; list the lines again.
    """
    found: list[Root] = []
    for line in lines:
        if line.metadata.branch != gone[0].metadata.branch and _is_mergeable(line):
            found += find_roots_around(line, [Span(FIRST, LAST)])
            continue
        same, other = _find_parting(gone, line)
        # A file that a root deleted was needed by the root before it.
        shared = Span(min(same, min(root.id for root in gone) - 1), max(other - 1, same))
        own = line.metadata.branch == gone[0].metadata.branch
        found += find_roots_around(line, {Span(r.id - 1, r.id) if own and r.id < other else shared for r in gone})
    return found


def _is_mergeable(line: Line) -> bool:
    """Return whether a line may share files with a branch that never had its snapshots.

    Tables without a primary key may have got the files of a branch by a merge, and replaced tables by the replacement,
    whose columns have new ids.
    """
    schemas = [line.metadata.schema(schema_id) for schema_id in line.metadata.schema_ids()]
    ids = [{field.id for field in schema.fields} for schema in schemas]
    return not all(schema.primary_keys for schema in schemas) or any(map(set.isdisjoint, ids, ids[1:]))


def _find_parting(gone: Sequence[Root], line: Line) -> tuple[int, int]:
    """Return the last id at which the gone roots and a line share a snapshot, and the first at which they differ."""
    states: dict[int, list[Snapshot]] = {}
    for tag in line.tags:
        states.setdefault(tag.snapshot.id, []).append(tag.snapshot)
    common = [root for root in gone if root.id in states or _has_id(line.snapshot_ids, root.id)]
    for root in line.snapshots(sorted({root.id for root in common})):
        states.setdefault(root.id, []).append(root.snapshot)
    same, other = FIRST, LAST
    for root in common:
        if any(root.is_same_state(state) for state in states.get(root.id, ())):
            same = max(same, root.id)
        else:
            other = min(other, root.id)
    return same, other


def _has_id(ids: Sequence[int], wanted: int) -> bool:
    at = bisect_left(ids, wanted)
    return at < len(ids) and ids[at] == wanted


def find_roots_around(line: Line, spans: Iterable[Span]) -> list[Root]:
    """Return the snapshots and tags of a line in these spans of ids, and the nearest ones before and after each span.

    Raises `SnapshotExpired`: a snapshot of the line has been removed.
    """
    ids = sorted({*line.snapshot_ids, *(tag.snapshot.id for tag in line.tags)})
    wanted = {i for span in spans for i in _find_ids_around(ids, span)}
    snapshots = [snapshot_id for snapshot_id in line.snapshot_ids if snapshot_id in wanted]
    found = list(line.snapshots(snapshots))
    if len(found) < len(snapshots):
        raise SnapshotExpired(f"{line.metadata.where}: a snapshot expired while its files were compared; try again")
    states = {(root.id, root.snapshot.delta_manifest_list) for root in found}
    tags = (root for root in line.tag_roots() if root.id in wanted)
    return [*found, *(root for root in tags if (root.id, root.snapshot.delta_manifest_list) not in states)]


def _find_ids_around(ids: Sequence[int], span: Span) -> Iterator[int]:
    """Yield the ids in a span, and for each end that is not a listed id the nearest id outside."""
    start, end = bisect_left(ids, span.low), bisect_left(ids, span.high + 1)
    inside = ids[start:end]
    yield from inside
    if start and (not inside or inside[0] != span.low):
        yield ids[start - 1]
    if end < len(ids) and (not inside or inside[-1] != span.high):
        yield ids[end]


def find_delta_changelogs(line: Line) -> list[Root]:
    """Return the changelogs of a line without files of their own, which need the files of their snapshots."""
    return [root for root in line.changelogs(line.changelog_ids) if root.keeps_data]


def group_by_branch(roots: Iterable[Root]) -> list[list[Root]]:
    """Group roots by branch, each in the order of their ids."""
    found: dict[str, list[Root]] = {}
    for root in sorted(roots, key=lambda root: (root.id, root.kind != RootKind.SNAPSHOT)):
        found.setdefault(root.metadata.branch, []).append(root)
    return [*found.values()]
