"""Rollbacks and branches of golden tables, replayed by Morrow: the result equals Java's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from morrow.engine.io.local import disable_fsync
from morrow.engine.plan.metadata import TableMetadata
from morrow.tables.table import Table
from morrow.writers.operations.write_session import WriteSession
from morrow.writers.target import WriteTarget
from tests.support import golden
from tests.support.canonical import assert_same_lines, counted, normal_rows, rows_of
from tests.support.golden_replay import GoldenReplay
from tests.writers.history.rollback_tables import assert_clean

CASES = (
    "public/rollback_snapshot",
    "public/rollback_tag",
    "public/branches",
    "public/branch_fast_forward",
    "versions/2.0.0/branches",
    "versions/1.3.1/branches",
    "versions/1.0.1/branches",
)


class Replay(GoldenReplay):
    """A replay that also makes tags and branches, expires snapshots and rolls back."""

    @property
    def table(self) -> Table:
        return Table(self.of_morrow)

    def run(self) -> None:
        for operation in self.case["inputs"]:
            what, *words = operation["op"].split()
            getattr(self, f"_do_{what}")(operation, *words)

    def _do_write(self, operation: Mapping[str, Any]) -> None:
        self._write(WriteTarget.of(self.of_morrow), operation)

    def _do_createTag(self, _: Mapping[str, Any], name: str) -> None:  # noqa: N802  # Java's name
        self.table.tags.create(name)

    def _do_expireSnapshots(self, _: Mapping[str, Any], most: str, least: str) -> None:  # noqa: N802
        self.table.expire_snapshots(retain_max=int(most[4:]), retain_min=int(least[4:]))

    def _do_rollbackTo(self, _: Mapping[str, Any], *to: str) -> None:  # noqa: N802
        self.table.rollback(**{"tag": to[1]} if to[0] == "tag" else {"snapshot": int(to[0])})  # type: ignore[arg-type]

    def _do_fastForward(self, _: Mapping[str, Any], name: str) -> None:  # noqa: N802
        self.table.branches.fast_forward(name)

    def _do_branch(self, operation: Mapping[str, Any], name: str, what: str = "", column: str = "") -> None:
        if name == "creation":
            self.table.branches.create("empty")
            self.table.branches.create("dev", tag="base")
            self.table.branches.create("dev2", tag="base")
            return
        if name not in self.table.branches:  # one case does not record it
            self.table.branches.create(name, tag="base")
        branch = self.of_morrow.on_branch(name)
        if what == "addColumn":
            Table(branch).alter.add_column(column, "STRING")
        else:
            target = WriteTarget.of(branch)
            rows, kinds = self._rows(target, operation)
            session = WriteSession(target)
            session.write(rows, kinds)
            session.commit()


@pytest.mark.parametrize("case", CASES)
def test_the_same_snapshots_tags_branches_and_rows(case: str, golden_root: Path, tmp_path: Path) -> None:
    replay = Replay(golden_root / case, tmp_path)
    with disable_fsync():
        replay.run()

    for ours, theirs in lines(replay):
        assert [line(s) for s in ours.snapshots()] == [line(s) for s in theirs.snapshots()]
        assert [(t.name, t.snapshot.id) for t in ours.tags()] == [(t.name, t.snapshot.id) for t in theirs.tags()]
        assert [[f.name for f in s.fields] for s in ours.schemas()] == [
            [f.name for f in s.fields] for s in theirs.schemas()
        ]
        assert ends(ours) == ends(theirs)
    for read in (read for read in golden.reads() if read.case == case):
        fields = read.fields(golden_root)
        expected = counted(normal_rows(read.rows(golden_root), fields), fields, read.set_columns)
        found = rows_of(replay.table.scan(**read.scan).to_arrow(), fields)
        assert_same_lines(found, expected, fields, read.set_columns)
    assert_clean(replay.table)


def lines(replay: Replay) -> list[tuple[TableMetadata, TableMetadata]]:
    """Pair main and each branch of both tables, Morrow's first."""
    names = replay.of_java.branch_names()
    assert replay.of_morrow.branch_names() == names
    return [
        (replay.of_morrow, replay.of_java),
        *((replay.of_morrow.on_branch(name), replay.of_java.on_branch(name)) for name in names),
    ]


def line(snapshot: Any) -> tuple[object, ...]:
    return (snapshot.id, snapshot.schema_id, snapshot.commit_kind, snapshot.total_record_count)


def ends(metadata: TableMetadata) -> tuple[int | None, int | None]:
    """Find the ids of the first and the last snapshot by the hints, as readers do."""
    latest = metadata.latest_snapshot()
    return metadata.earliest_snapshot_id(), latest.id if latest else None
