"""The roots to examine before the files of removed roots may be deleted.

The snapshots and tags of a branch form a line, ordered by id. A file, a manifest or an index file is added at one
point of it and removed at another, and never returns: all states in between need it. So for roots removed from a line:

    ---- t ---- [ gone: lo .. hi ] ---- s ---- s ---- s
         |            |                 |
         nearest      tags in          nearest after
         before       between

the nearest root before, those in between, and the nearest after decide for all of them: the rule of the tags proposal,
whose "earliest snapshot" is the nearest after.

Two branches share a line up to where one left the other (or was fast-forwarded to it), and no files younger than
that. Java does not record that point; it is derived from the states that both have (the same id and the same delta
list) and those they do not share. Where these do not determine it, every root of the other line is examined; and so it
is in tables without a primary key, where one branch may have been merged into the other and then shares younger files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from morrow.engine.errors import SnapshotExpired
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.roots import Line, Root, RootKind

FIRST, LAST = 0, 1 << 63
"""Bounds of ids."""


@dataclass(frozen=True)
class Span:
    """Ids from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, snapshot_id: int) -> bool:
        return self.low <= snapshot_id <= self.high


def holding_roots(gone: Sequence[Root], lines: Iterable[Line]) -> list[Root]:
    """Returns the snapshots and tags of `lines` that may need files of the `gone` roots, which are of one branch.

    Raises:
        SnapshotExpired: one of them has been removed meanwhile; find the lines anew.
    """
    found: list[Root] = []
    for line in lines:
        if line.metadata.branch != gone[0].metadata.branch and _may_be_merged(line):
            found += roots_around(line, [Span(FIRST, LAST)])
            continue
        same, other = _parting(gone, line)
        # A file that a root deleted was needed by the state before it.
        shared = Span(min(same, min(root.id for root in gone) - 1), max(other - 1, same))
        own = line.metadata.branch == gone[0].metadata.branch
        found += roots_around(line, {Span(r.id - 1, r.id) if own and r.id < other else shared for r in gone})
    return found


def _may_be_merged(line: Line) -> bool:
    ids = line.metadata.schema_ids()
    return bool(ids) and not line.metadata.schema(ids[-1]).primary_keys


def _parting(gone: Sequence[Root], line: Line) -> tuple[int, int]:
    """Returns the last id at which the gone roots and a line share their state, and the first at which they differ."""
    states: dict[int, list[Snapshot]] = {}
    for tag in line.tags:
        states.setdefault(tag.snapshot.id, []).append(tag.snapshot)
    common = [root for root in gone if root.id in states or _has(line.snapshot_ids, root.id)]
    for root in line.snapshots(sorted({root.id for root in common})):
        states.setdefault(root.id, []).append(root.snapshot)
    same, other = FIRST, LAST
    for root in common:
        if any(root.is_same_state(state) for state in states.get(root.id, ())):
            same = max(same, root.id)
        else:
            other = min(other, root.id)
    return same, other


def _has(ids: Sequence[int], wanted: int) -> bool:
    at = bisect_left(ids, wanted)
    return at < len(ids) and ids[at] == wanted


def roots_around(line: Line, spans: Iterable[Span]) -> list[Root]:
    """Returns the snapshots and tags of a line in these spans of ids, and the nearest ones before and after each.

    Raises:
        SnapshotExpired: a snapshot of the line has been removed.
    """
    ids = sorted({*line.snapshot_ids, *(tag.snapshot.id for tag in line.tags)})
    wanted = {i for span in spans for i in _around(ids, span)}
    snapshots = [snapshot_id for snapshot_id in line.snapshot_ids if snapshot_id in wanted]
    found = list(line.snapshots(snapshots))
    if len(found) < len(snapshots):
        raise SnapshotExpired(f"{line.metadata.where}: a snapshot expired while its files were compared; try again")
    states = {(root.id, root.snapshot.delta_manifest_list) for root in found}
    tags = (root for root in line.tag_roots() if root.id in wanted)
    return [*found, *(root for root in tags if (root.id, root.snapshot.delta_manifest_list) not in states)]


def _around(ids: Sequence[int], span: Span) -> Iterator[int]:
    """Yields the ids in a span, and for each end that is not among them the nearest id outside."""
    start, end = bisect_left(ids, span.low), bisect_left(ids, span.high + 1)
    inside = ids[start:end]
    yield from inside
    if start and (not inside or inside[0] != span.low):
        yield ids[start - 1]
    if end < len(ids) and (not inside or inside[-1] != span.high):
        yield ids[end]


def needs_deltas(line: Line) -> list[Root]:
    """Returns the changelogs of a line that have no files of their own, and need the files of their snapshots."""
    return [root for root in line.changelogs(line.changelog_ids) if root.keeps_data]


def by_branch(roots: Iterable[Root]) -> list[list[Root]]:
    """Groups roots by branch, each in the order of their ids."""
    found: dict[str, list[Root]] = {}
    for root in sorted(roots, key=lambda root: (root.id, root.kind != RootKind.SNAPSHOT)):
        found.setdefault(root.metadata.branch, []).append(root)
    return [*found.values()]
