"""scan.fallback-branch: partitions that main lacks come from another branch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, InvalidArgument
from tests.support.table_factory import TableFactory

FIELDS = [("dt", "STRING"), ("id", "INT"), ("v", "STRING")]
MAIN, BRANCH = "main", "stream"


class Branched:
    """A table with a branch; data files and manifests of both lie in the same folders."""

    def __init__(self, path: Path, fields: list[tuple[str, str]] = FIELDS) -> None:
        options = {"bucket": "-1", "scan.fallback-branch": BRANCH}
        self.path = path / "t"
        self._tables = {
            MAIN: TableFactory(self.path, FIELDS, (), ["dt"], options),
            BRANCH: TableFactory(path / "b", fields, ["dt", "id"], ["dt"], {"bucket": "1"}),
        }
        self._names = iter(range(10**6))
        for name, table in self._tables.items():
            table._new_id = lambda name=name: f"{name}-{next(self._names)}"  # type: ignore[method-assign,assignment,misc]  # names that differ between branches
        self._publish()

    def commit(self, branch: str, day: str, ids: list[int], at: int = 0) -> None:
        """Commit a file to a branch; its rows say which branch they are of. `at` is the time of the snapshot."""
        table = self._tables[branch]
        table.write_file(pa.table({"id": ids, "v": [f"{branch}{i}" for i in ids]}), partition={"dt": day})
        snapshot = table.path / f"snapshot/snapshot-{table.commit()}"
        snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"timeMillis": at}))
        self._publish()

    def _publish(self) -> None:
        """Copy the branch's own table to where branches are."""
        source, home = self._tables[BRANCH].path, self.path / "branch" / f"branch-{BRANCH}"
        for name in ("schema", "snapshot"):
            shutil.copytree(source / name, home / name, dirs_exist_ok=True)
        for folder in source.iterdir():
            if folder.name not in ("schema", "snapshot"):
                shutil.copytree(folder, self.path / folder.name, dirs_exist_ok=True)

    def rows(self, filter: str | None = None, **arguments: int | str) -> list[tuple[str, str]]:
        found = morrow.open(self.path).scan(["dt", "v"], filter, **arguments).to_polars()  # type: ignore[arg-type]  # passed on
        return sorted(found.rows())


def test_a_partition_is_read_from_main_or_else_from_the_branch(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1, 2])
    table.commit(BRANCH, "b", [1, 2])
    table.commit(BRANCH, "b", [2, 3])
    table.commit(MAIN, "a", [7])

    assert table.rows() == [("a", "main7"), ("b", "stream1"), ("b", "stream2"), ("b", "stream3")]
    assert table.rows("v != 'stream1'") == [("a", "main7"), ("b", "stream2"), ("b", "stream3")]


def test_a_filter_that_main_does_not_match_uncovers_nothing(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "a", [7])

    assert table.rows("id = 1") == []
    assert table.rows("dt = 'a'") == [("a", "main7")]


def test_main_may_be_empty(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])

    assert table.rows() == [("a", "stream1")]


def test_the_branch_may_be_empty(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [1])

    assert table.rows() == [("a", "main1")]


def test_time_travel_reads_the_branch_as_it_was(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "b", [1], at=1_000)
    table.commit(MAIN, "a", [7], at=2_000)
    table.commit(BRANCH, "c", [2], at=3_000)
    table.commit(MAIN, "b", [8], at=4_000)

    assert table.rows(snapshot=1) == [("a", "main7"), ("b", "stream1")]
    assert table.rows(snapshot=2) == [("a", "main7"), ("b", "main8"), ("c", "stream2")]


def test_a_branch_that_is_younger_is_read_from_its_beginning(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [7], at=1_000)
    table.commit(BRANCH, "b", [1], at=2_000)
    table.commit(BRANCH, "c", [2], at=3_000)

    assert table.rows(snapshot=1) == [("a", "main7"), ("b", "stream1")]


def test_the_branch_itself_falls_back_to_nothing(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "b", [7])

    assert table.rows(branch=BRANCH) == [("a", "stream1")]


def test_both_parts_are_explained(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(BRANCH, "a", [1])
    table.commit(MAIN, "b", [7])
    lines = morrow.open(table.path).scan().explain().splitlines()

    assert [line for line in lines if line.startswith("Scan of")] == [
        f"Scan of {table.path}",
        f"Scan of {table.path} (branch {BRANCH})",
    ]


def test_branches_with_other_columns(tmp_path: Path) -> None:
    table = Branched(tmp_path, [*FIELDS[:2], ("w", "STRING")])

    with pytest.raises(
        InvalidArgument, match=r"'scan.fallback-branch' names 'stream', whose columns differ from those"
    ):
        table.rows()


def test_a_branch_that_does_not_exist(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    shutil.rmtree(table.path / "branch")

    with pytest.raises(BranchNotFound, match="no branch 'stream'; the branches are main"):
        table.rows()
