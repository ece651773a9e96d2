"""A simple model of a table's life: the rows of every snapshot, tag and branch, in dicts.

The model gets the commits as input, and computes the effects of maintenance itself, by the rules of Java Paimon.
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
    """The expected content of a snapshot, which never changes."""

    id: int
    millis: int
    rows: Rows
    changes: Changes = ()
    schema: int = 0
    settled: bool = True
    """Whether reads see all rows; with deletion vectors, replaced rows are hidden only after a compaction."""
    before: Snapshot | None = field(default=None, compare=False, repr=False)
    """The snapshot on which this one was committed."""


@dataclass
class Branch:
    """Main or another branch."""

    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    changelogs: dict[int, Snapshot] = field(default_factory=dict)
    """Expired snapshots that live on as changelogs."""
    tags: dict[str, Snapshot] = field(default_factory=dict)
    consumers: dict[str, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    """The added columns, in order: schema `i` has the first `i` of them."""
    rows_are_changes: bool = False
    """Whether the rows added by a snapshot are its changelog."""

    @property
    def newest(self) -> Snapshot | None:
        return self.snapshots[max(self.snapshots)] if self.snapshots else None

    @property
    def settled(self) -> list[int]:
        """List the ids of settled snapshots in ascending order."""
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

        Snapshots beyond `retain_max` are removed, and others older than `older_than` up to the first younger one.
        The newest `retain_min` snapshots and snapshots that a consumer still has to read always stay, and at most
        `max_deletes` are removed.
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
        """Return a tag's snapshot as it is restored: without its changelog files, if they have expired with it."""
        if any(held.get(tagged.id) == tagged for held in (self.snapshots, self.changelogs)) or self.rows_are_changes:
            return tagged
        return replace(tagged, changes=())

    def rollback(self, to: Snapshot) -> None:
        """Remove everything newer; if only a tag has the snapshot, it becomes a snapshot again."""
        to = self.revived(to)
        for held in (self.snapshots, self.changelogs):
            for i in [i for i in held if i > to.id]:
                del held[i]
        self.tags = {name: tagged for name, tagged in self.tags.items() if tagged.id <= to.id}
        self.snapshots[to.id] = to

    def line(self, *, with_changes: bool) -> Line:
        """Return the expected result of reading this branch."""
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
        """Make a branch: an empty one, one from a tag (which it also gets), or one from a snapshot."""
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
        """Replace main by the branch, from the branch's first snapshot on.

        Main keeps its older snapshots if they lead to that one, and its older tags if the branch has their schema.
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
