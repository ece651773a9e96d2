"""The life of a table in the obvious way: the rows of every snapshot, tag and branch, in dicts.

A model is told what was committed; what maintenance removes it works out by itself, by the rules of Java Paimon.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.structs import replace
from tests.lifecycle.observed import Changes, Line, Rows, State

NEVER = 1 << 62


@dataclass(frozen=True)
class Snapshot:
    """What must be read of it, whatever comes later."""

    id: int
    millis: int
    rows: Rows
    changes: Changes = ()
    schema: int = 0
    settled: bool = True
    """Whether it shows all that was written: where vectors hide what was replaced, a compaction must come first."""
    before: Snapshot | None = field(default=None, compare=False, repr=False)
    """The one that it was committed on."""


@dataclass
class Branch:
    """Main, or a branch."""

    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    changelogs: dict[int, Snapshot] = field(default_factory=dict)
    """Of snapshots that have expired."""
    tags: dict[str, Snapshot] = field(default_factory=dict)
    consumers: dict[str, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    """Those that were added: schema `i` has the first `i` of them."""
    rows_are_changes: bool = False
    """Whether what a snapshot added is its changelog."""

    @property
    def newest(self) -> Snapshot | None:
        return self.snapshots[max(self.snapshots)] if self.snapshots else None

    @property
    def settled(self) -> list[int]:
        """Ids of snapshots that say by their rows what comes of them, ascending."""
        return sorted(i for i, snapshot in self.snapshots.items() if snapshot.settled)

    @property
    def rows(self) -> Rows:
        return self.newest.rows if self.newest else ()

    def commit(self, made: Snapshot) -> None:
        self.snapshots[made.id] = made

    def expire(
        self, retain_max: int, retain_min: int, older_than: int, max_deletes: int = NEVER, *, decoupled: bool = False
    ) -> list[int]:
        """Remove the oldest snapshots; return their ids.

        Those beyond `retain_max` go. Others go when they are older, up to the first that is not; never the newest
        `retain_min`, what a consumer has still to read, or more than `max_deletes`.
        """
        if not self.snapshots:
            return []
        earliest, latest = min(self.snapshots), max(self.snapshots)
        end = min(latest - retain_min + 1, min(self.consumers.values(), default=NEVER), earliest + max_deletes)
        first = max(latest - retain_max + 1, earliest)
        young = (i for i in range(first, end) if i in self.snapshots and self.snapshots[i].millis >= older_than)
        until = next(young, end)
        gone = [i for i in sorted(self.snapshots) if i < until]
        for i in gone:
            expired = self.snapshots.pop(i)
            if decoupled:
                self.changelogs[i] = expired
        return gone

    def expire_changelogs(self, retain_max: int, retain_min: int, older_than: int) -> list[int]:
        """Remove the oldest changelogs; retention counts snapshots as well, and the newest changelog always stays."""
        if not self.snapshots or not self.changelogs:
            return []
        earliest, latest = min(self.changelogs), max(self.snapshots)
        end = min(latest - retain_min + 1, min(self.consumers.values(), default=NEVER), max(self.changelogs))
        first = max(latest - retain_max + 1, earliest)
        young = (i for i in range(first, end + 1) if i in self.changelogs and self.changelogs[i].millis >= older_than)
        until = next(young, end)
        gone = [i for i in sorted(self.changelogs) if i < until]
        for i in gone:
            del self.changelogs[i]
        return gone

    def revived(self, tagged: Snapshot) -> Snapshot:
        """Make a tagged snapshot a snapshot again: changelog files go with the snapshot, or with its changelog."""
        if any(held.get(tagged.id) == tagged for held in (self.snapshots, self.changelogs)) or self.rows_are_changes:
            return tagged
        return replace(tagged, changes=())

    def rollback(self, to: Snapshot) -> None:
        """Remove all that is newer; a state that only a tag had left is a snapshot again."""
        to = self.revived(to)
        for held in (self.snapshots, self.changelogs):
            for i in [i for i in held if i > to.id]:
                del held[i]
        self.tags = {name: tagged for name, tagged in self.tags.items() if tagged.id <= to.id}
        self.snapshots[to.id] = to

    def line(self, *, with_changes: bool) -> Line:
        """Return what must be read of it."""
        kept = {**self.changelogs, **self.snapshots}
        return Line(
            newest=self.rows,
            snapshots={i: snapshot.rows for i, snapshot in self.snapshots.items()},
            changes={i: snapshot.changes for i, snapshot in kept.items()} if with_changes else {},
            tags={name: (tagged.id, tagged.rows) for name, tagged in self.tags.items()},
        )


@dataclass
class Life:
    """A table with its branches."""

    branches: dict[str, Branch] = field(default_factory=lambda: {MAIN_BRANCH: Branch()})

    @property
    def main(self) -> Branch:
        return self.branches[MAIN_BRANCH]

    def create_branch(self, name: str, *, tag: str | None = None, snapshot: int | None = None) -> None:
        """Make an empty branch, one from a tag (which it has too), or one from a snapshot."""
        made, begin = Branch(rows_are_changes=self.main.rows_are_changes), None
        if tag is not None:
            made.tags[tag] = self.main.tags[tag]
            begin = self.main.revived(made.tags[tag])
        elif snapshot is not None:
            begin = self.main.snapshots[snapshot]
        if begin is not None:
            made.snapshots[begin.id] = begin
        made.columns = self.main.columns[: None if begin is None else begin.schema]
        self.branches[name] = made

    def fast_forward(self, name: str) -> None:
        """Make main the branch, from the branch's first snapshot on. What main has before that stays if it leads
        there, and tags stay whose schema the branch has too.
        """
        main, other = self.main, self.branches[name]
        first = other.snapshots[min(other.snapshots)]
        leads = main.snapshots.get(first.id) is first or main.snapshots.get(first.id - 1) is first.before is not None
        stay = {i: kept for i, kept in main.snapshots.items() if i < first.id and leads}
        pairs = zip(main.columns, other.columns, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        tags = {n: tagged for n, tagged in main.tags.items() if tagged.id < first.id and tagged.schema <= same}
        changelogs = {i: kept for i, kept in main.changelogs.items() if i < first.id}
        main.snapshots, main.tags, main.changelogs = stay | other.snapshots, tags | other.tags, changelogs
        main.columns = list(other.columns)

    def state(self, *, with_changes: bool) -> State:
        return {name: branch.line(with_changes=with_changes) for name, branch in self.branches.items()}
