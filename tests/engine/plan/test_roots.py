"""Roots that are checked before files of other snapshots are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from morrow.engine.format.snapshot import Snapshot, Tag, format_snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.roots import Line, Root, RootKind, Span, find_holding_roots, find_roots_around, group_by_branch


def state(snapshot_id: int, history: str = "main") -> Snapshot:
    """Build the snapshot with this id in a history; the name of its delta list holds both."""
    return Snapshot(snapshot_id, 0, "base", f"{history}-{snapshot_id}", "user", 0, "APPEND", 0)


@dataclass(frozen=True)
class History:
    """A branch with snapshots on disk: up to the id `left` they are main's, and after it the branch's own."""

    root: Path
    branch: str = "main"
    left: int = 1 << 60

    @property
    def metadata(self) -> TableMetadata:
        return TableMetadata(LocalStore(), str(self.root), self.branch)

    def state(self, snapshot_id: int) -> Snapshot:
        return state(snapshot_id, "main" if snapshot_id <= self.left else self.branch)

    def line(self, snapshots: range, tags: list[int]) -> Line:
        for snapshot_id in snapshots:
            path = Path(self.metadata.paths.snapshot(snapshot_id))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(format_snapshot(self.state(snapshot_id)))
        return Line(self.metadata, tuple(snapshots), tuple(Tag(f"t{i}", self.state(i)) for i in tags), ())

    def gone(self, *ids: int) -> list[Root]:
        return [Root(self.metadata, RootKind.SNAPSHOT, self.state(i)) for i in ids]


def shown(roots: list[Root]) -> list[str]:
    return sorted(f"{root.kind.value[0]}{root.id}" for root in roots if isinstance(root.kind, RootKind))


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (Span(5, 8), ["s10", "t2", "t6"]),  # the tag in the span and the nearest roots on both sides
        (Span(6, 6), ["t6"]),  # one root with the same snapshot suffices
        (Span(2, 6), ["t2", "t6"]),
        (Span(1, 1), ["t2"]),
        (Span(13, 20), ["s12"]),  # snapshots that a rollback gave up
        (Span(0, 1 << 63), ["s10", "s11", "s12", "t2", "t6"]),
    ],
)
def test_the_nearest_roots_decide(tmp_path: Path, span: Span, expected: list[str]) -> None:
    line = History(tmp_path).line(range(10, 13), tags=[2, 6])
    assert shown(find_roots_around(line, [span])) == expected


def test_a_tag_of_a_living_snapshot_is_not_asked_too(tmp_path: Path) -> None:
    line = History(tmp_path).line(range(1, 4), tags=[2])
    assert shown(find_roots_around(line, [Span(2, 2)])) == ["s2"]


def test_what_goes_from_main_is_asked_of_a_branch_where_it_left(tmp_path: Path) -> None:
    main, branch = History(tmp_path), History(tmp_path, "b", left=4)
    line = branch.line(range(4, 9), tags=[])
    assert shown(find_holding_roots(main.gone(1, 2, 3, 4, 5), [line])) == ["s4"]


def test_what_goes_from_a_branch_is_asked_of_main_where_it_left(tmp_path: Path) -> None:
    main, branch = History(tmp_path), History(tmp_path, "b", left=4)
    line = main.line(range(3, 9), tags=[1, 2])
    # s3 may need files that snapshot 4 deleted
    assert shown(find_holding_roots(branch.gone(4, 5), [line])) == ["s3", "s4"]


def test_where_nothing_tells_everything_is_asked(tmp_path: Path) -> None:
    """If main keeps no snapshot near the gone ones, all snapshots that may share files with them are checked."""
    main, branch = History(tmp_path), History(tmp_path, "b", left=4)
    line = main.line(range(3, 8), tags=[1])
    assert shown(find_holding_roots(branch.gone(6), [line])) == ["s3", "s4", "s5", "t1"]
    assert shown(find_holding_roots(branch.gone(20), [line])) == ["s3", "s4", "s5", "s6", "s7", "t1"]


def test_snapshots_that_a_rollback_gave_up_are_told_from_those_that_came_after(tmp_path: Path) -> None:
    """A rollback reused the ids 4 and 5, so the snapshots that it gave up share files with snapshots 1 to 3 only."""
    before, after = History(tmp_path), History(tmp_path, left=3)
    again = Line(after.metadata, (1, 2, 3, 4, 5), (), ())
    for snapshot_id in again.snapshot_ids:
        path = Path(after.metadata.paths.snapshot(snapshot_id))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(format_snapshot(state(snapshot_id, "main" if snapshot_id <= 3 else "again")))
    assert shown(find_holding_roots(before.gone(4, 5, 6), [again])) == ["s1", "s2", "s3"]


def test_roots_of_each_branch_by_their_ids(tmp_path: Path) -> None:
    main, branch = History(tmp_path), History(tmp_path, "b")
    groups = group_by_branch([*main.gone(3, 1), *branch.gone(2)])
    assert [[root.id for root in group] for group in groups] == [[1, 3], [2]]
