"""Random lives of tables with writes, tags, branches, compactions, rollbacks, expiry and cleanup: every snapshot, tag
and branch keeps its rows, and exactly the needed files exist.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import morrow
from morrow.engine.errors import SnapshotExpired, SnapshotNotFound
from morrow.engine.format.paths import MAIN_BRANCH, escape_path_name
from morrow.engine.io.local import disable_fsync
from morrow.scans.table_scan import Scan
from morrow.tables.table import Table
from tests.lifecycle.model import NEVER, Branch, Life, Snapshot
from tests.lifecycle.needed import balance, present
from tests.lifecycle.observed import COLUMNS, Row, Rows, changes, names_in, observe, rows
from tests.lifecycle.tables import DECOUPLED, KINDS, OLD, PARTITIONS, Kind, frame, remove_all_orphans
from tests.support.hostile_names import in_indexes, quoted, renamings

T = TypeVar("T")

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
EXAMPLES, STEPS = (150, 50) if LONG else (3, 14)
HOUR_AGO = 0
"""A time before all commits of these tables."""

PICK = st.integers(0, 1 << 16)
"""Chooses one of several things with `chosen`."""
IDS = st.lists(st.integers(0, 11), min_size=1, max_size=5, unique=True)
SMALL = st.integers(1, 4)


def chosen(things: Sequence[T], pick: int) -> T:
    return things[pick % len(things)]


class Lives(RuleBasedStateMachine):
    """A table and the model of its life."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="life-"))
        self.path = self.folder / "db.db" / "t"
        self.no_sync = disable_fsync()
        self.no_sync.__enter__()
        self.life = Life()
        self.life.main.rows_are_changes = "changelog-producer" not in kind.options
        self.planted: set[str] = set()
        self.pinned: list[tuple[Scan, Rows]] = []
        self.names = (f"name{number}" for number in range(1_000))
        self.values = iter(range(1_000_000))

    def teardown(self) -> None:
        self.no_sync.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @initialize(names=renamings(COLUMNS, in_indexes))
    def create(self, names: Mapping[str, str]) -> None:
        self.kind.create(self.path, tuple(names.values()))

    # Commits

    @rule(pick=PICK, ids=IDS, partition=PICK)
    def write(self, pick: int, ids: list[int], partition: int) -> None:
        new = self._new_rows(ids, partition)
        self._commit(pick, lambda table: table.append(frame(table, new)), lambda old: self.kind.merged((*old, *new)))

    @rule(pick=PICK, below=st.integers(1, 8))
    def delete(self, pick: int, below: int) -> None:
        self._commit(
            pick,
            lambda table: table.delete(f"{quoted(names_in(table)[0])} < {below}"),
            lambda old: [r for r in old if r[0] >= below],
        )

    @rule(pick=PICK, ids=IDS, partition=PICK)
    def overwrite(self, pick: int, ids: list[int], partition: int) -> None:
        new = self._new_rows(ids, partition)
        self._commit(pick, lambda table: table.overwrite(frame(table, new), dynamic=False), lambda _: new)

    @precondition(lambda self: self.kind.partitioned)
    @rule(pick=PICK, partition=PICK)
    def drop_partition(self, pick: int, partition: int) -> None:
        day = chosen(PARTITIONS, partition)
        self._commit(
            pick,
            lambda table: table.drop_partition({names_in(table)[1]: day}),
            lambda old: [r for r in old if r[1] != day],
        )

    @precondition(lambda self: self.kind.partitioned)
    @rule(pick=PICK)
    def expire_partitions(self, pick: int) -> None:
        week = dt.timedelta(days=7)
        self._commit(pick, lambda table: table.expire_partitions(week), lambda old: [r for r in old if r[1] != OLD])

    @rule(pick=PICK, full=st.booleans())
    def compact(self, pick: int, full: bool) -> None:
        self._commit(pick, lambda table: table.compact(full=full), lambda old: old)

    @rule(pick=PICK)
    def add_column(self, pick: int) -> None:
        table, branch = self._line(pick)
        name = next(self.names)
        table.alter.add_column(name, "INT")
        branch.columns.append(name)
        self._check()

    def _new_rows(self, ids: list[int], partition: int) -> list[Row]:
        # Ids in one partition, or alternating between both.
        days = {0: PARTITIONS[:1] * 2, 1: PARTITIONS[1:] * 2, 2: PARTITIONS}[partition % 3]
        return sorted((i, days[number % 2], next(self.values)) for number, i in enumerate(ids))

    def _commit(self, pick: int, act: Callable[[Table], object], expected: Callable[[Rows], Sequence[Row]]) -> None:
        table, branch = self._line(pick)
        before, after = branch.rows, tuple(expected(branch.rows))
        known = max(branch.snapshots, default=0)
        act(table)
        made = [s for s in table.snapshots() if s.id > known]
        if not made:
            assert after == before
        for snapshot in made:
            found = rows(table, snapshot=snapshot.id)
            # With deletion vectors, rows become visible in the compaction of the same commit.
            assert found in ((after,) if snapshot is made[-1] else (before, after, ()))
            changed = changes(table, snapshot.id) if self.kind.has_changes else ()
            branch.commit(
                Snapshot(
                    snapshot.id,
                    snapshot.time_millis,
                    found,
                    changed,
                    snapshot.schema_id,
                    settled=found == after,
                    before=branch.newest,
                )
            )
        if self.kind.expires and made:
            branch.expire(3, 1, HOUR_AGO, decoupled=self.kind.decoupled)
            if self.kind.decoupled:
                branch.expire_changelogs(int(DECOUPLED["changelog.num-retained.max"]), 1, HOUR_AGO)
        self._check()

    # Tags

    @precondition(lambda self: self._lines(lambda branch: branch.settled))
    @rule(pick=PICK, which=PICK)
    def create_tag(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.settled)
        name, snapshot = next(self.names), chosen(branch.settled, which)
        table.tags.create(name, snapshot=snapshot)
        branch.tags[name] = branch.snapshots[snapshot]
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.snapshots))
    @rule(pick=PICK, which=PICK)
    def create_tag_of_an_expired_snapshot(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.snapshots)
        tagged = {snapshot.id for snapshot in branch.tags.values()}
        gone = set(range(1, max(branch.snapshots))) - set(branch.snapshots) - tagged
        if gone:
            with pytest.raises(SnapshotNotFound):
                table.tags.create(next(self.names), snapshot=chosen(sorted(gone), which))
            self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.tags))
    @rule(pick=PICK, which=PICK)
    def delete_tag(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.tags)
        name = chosen(sorted(branch.tags), which)
        table.tags.delete(name)
        del branch.tags[name]
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.tags and branch.settled))
    @rule(pick=PICK, which=PICK, by=PICK)
    def replace_tag(self, pick: int, which: int, by: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.tags and branch.settled)
        name, snapshot = chosen(sorted(branch.tags), which), chosen(branch.settled, by)
        table.tags.replace(name, snapshot=snapshot)
        branch.tags[name] = branch.snapshots[snapshot]
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.tags))
    @rule(pick=PICK, which=PICK)
    def rename_tag(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.tags)
        old, new = chosen(sorted(branch.tags), which), next(self.names)
        table.tags.rename(old, new)
        branch.tags[new] = branch.tags.pop(old)
        self._check()

    # Branches

    @precondition(lambda self: len(self.life.branches) < 3)
    @rule(origin=st.sampled_from(["empty", "tag", "snapshot"]), which=PICK)
    def create_branch(self, origin: str, which: int) -> None:
        main, name = self.life.main, next(self.names)
        source: dict[str, Any] = {}
        if origin == "tag" and main.tags:
            source = {"tag": chosen(sorted(main.tags), which)}
        elif origin == "snapshot" and main.settled:
            source = {"snapshot": chosen(main.settled, which)}
        self._table().branches.create(name, **source)
        self.life.create_branch(name, **source)
        self._check()

    @precondition(lambda self: len(self.life.branches) > 1)
    @rule(which=PICK)
    def delete_branch(self, which: int) -> None:
        name = self._branch_name(which)
        self._table().branches.delete(name)
        del self.life.branches[name]
        self._check()

    @precondition(lambda self: len(self.life.branches) > 1)
    @rule(which=PICK)
    def rename_branch(self, which: int) -> None:
        old, new = self._branch_name(which), next(self.names)
        self._table().branches.rename(old, new)
        self.life.branches[new] = self.life.branches.pop(old)
        self._check()

    @precondition(lambda self: any(b.snapshots for name, b in self.life.branches.items() if name != MAIN_BRANCH))
    @rule(which=PICK)
    def fast_forward(self, which: int) -> None:
        names = [n for n, branch in self.life.branches.items() if n != MAIN_BRANCH and branch.snapshots]
        name = chosen(sorted(names), which)
        self._table().branches.fast_forward(name)
        self.life.fast_forward(name)
        self._check()

    def _branch_name(self, which: int) -> str:
        return chosen(sorted(set(self.life.branches) - {MAIN_BRANCH}), which)

    # Removals

    @precondition(lambda self: self._lines(lambda branch: branch.settled))
    @rule(pick=PICK, which=PICK)
    def rollback_to_a_snapshot(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.settled)
        snapshot = chosen(branch.settled, which)
        table.rollback(snapshot=snapshot)
        branch.rollback(branch.snapshots[snapshot])
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.tags))
    @rule(pick=PICK, which=PICK)
    def rollback_to_a_tag(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.tags)
        name = chosen(sorted(branch.tags), which)
        table.rollback(tag=name)
        branch.rollback(branch.tags[name])
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.snapshots))
    @rule(pick=PICK, retain_min=SMALL, more=st.integers(0, 4), which=PICK, most=st.sampled_from([1, 2, NEVER]))
    def expire(self, pick: int, retain_min: int, more: int, which: int, most: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.snapshots)
        older_than = branch.snapshots[chosen(sorted(branch.snapshots), which)].millis + which % 2
        gone = table.expire_snapshots(retain_min + more, retain_min, older_than, None if most == NEVER else most)
        expected = branch.expire(retain_min + more, retain_min, older_than, most, decoupled=self.kind.decoupled)
        assert gone == len(expected)
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.changelogs))
    @rule(pick=PICK, retain_min=SMALL, more=st.integers(0, 4))
    def expire_changelogs(self, pick: int, retain_min: int, more: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.changelogs)
        gone = table.expire_changelogs(retain_min + more, retain_min, NEVER)
        assert gone == len(branch.expire_changelogs(retain_min + more, retain_min, NEVER))
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.snapshots))
    @rule(pick=PICK, which=PICK)
    def consume(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.snapshots)
        following = chosen(sorted(branch.snapshots), which)
        table.consumers.record("reader", following)
        branch.consumers["reader"] = following
        self._check()

    @precondition(lambda self: self._lines(lambda branch: branch.consumers))
    @rule(pick=PICK)
    def forget_a_consumer(self, pick: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.consumers)
        table.consumers.delete("reader")
        branch.consumers.clear()
        self._check()

    @rule(what=st.lists(st.integers(0, 4), min_size=1, max_size=3))
    def leave_orphans(self, what: list[int]) -> None:
        """Write files that killed writers may leave."""
        there = present(self.path)
        for number in what:
            unique = uuid.uuid4()
            name = (
                f"bucket-0/data-{unique}-0.parquet",
                f"manifest/manifest-{unique}-0",
                f"manifest/.manifest-list-{unique}-0.{unique.hex}.tmp",
                f"index/index-{unique}-0",
                f"snapshot/.snapshot-7.{unique.hex}.tmp",
            )[number]
            if number == 0 and self.kind.partitioned:
                name = f"{escape_path_name(names_in(self._table())[1])}={PARTITIONS[0]}/{name}"
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(b"half of")
        self.planted |= present(self.path) - there
        self._check()

    @rule()
    def clean(self) -> None:
        remove_all_orphans(self._table())
        self.planted.clear()
        self._check()

    # Open readers

    @precondition(lambda self: self._lines(lambda branch: branch.snapshots))
    @rule(pick=PICK, which=PICK)
    def pin(self, pick: int, which: int) -> None:
        table, branch = self._line(pick, lambda branch: branch.snapshots)
        snapshot = branch.snapshots[chosen(sorted(branch.snapshots), which)]
        scan = table.scan(names_in(table), snapshot=snapshot.id)
        assert scan.plan.snapshot is not None
        self.pinned.append((scan, snapshot.rows))

    @precondition(lambda self: self.pinned)
    @rule(which=PICK)
    def read_pinned(self, which: int) -> None:
        scan, expected = self.pinned.pop(which % len(self.pinned))
        morrow.clear_caches()
        try:
            found = scan.to_polars()
        except SnapshotExpired:
            return
        assert tuple(sorted(found.rows())) == expected

    # Checks

    def _table(self) -> Table:
        return morrow.open(self.path)

    def _lines(self, having: Callable[[Branch], object] = lambda _: True) -> list[str]:
        return sorted(name for name, branch in self.life.branches.items() if having(branch))

    def _line(self, pick: int, having: Callable[[Branch], object] = lambda _: True) -> tuple[Table, Branch]:
        name = chosen(self._lines(having), pick)
        return self._table().on_branch(name), self.life.branches[name]

    def _check_reads(self) -> None:
        assert observe(str(self.path)) == self.life.state(with_changes=self.kind.has_changes)

    def _check(self) -> None:
        self._check_reads()
        files = balance(self.path)
        assert not files.missing
        assert files.unneeded == self.planted


@pytest.mark.parametrize("kind", KINDS)
def test_lives(kind: str) -> None:
    limits = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: Lives(KINDS[kind]), settings=limits)  # type: ignore[no-untyped-call]  # hypothesis gives no types here
