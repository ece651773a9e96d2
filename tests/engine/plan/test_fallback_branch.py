"""scan.fallback-branch: partitions that main lacks are read from another branch."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, InvalidArgument, MorrowError, SnapshotNotFound, Unsupported
from tests.support.table_factory import TableFactory
from tests.support.written import new_table
from tests.support.written import rows as rows_of

FIELDS = [("dt", "STRING"), ("id", "INT"), ("v", "STRING")]
MAIN, BRANCH = "main", "stream"


class Branched:
    """A table with a branch; data files and manifests of both are in the same folders."""

    def __init__(self, path: Path, fields: list[tuple[str, str]] = FIELDS) -> None:
        options = {"bucket": "-1", "scan.fallback-branch": BRANCH}
        self.path = path / "t"
        self._tables = {
            MAIN: TableFactory(self.path, FIELDS, (), ["dt"], options),
            BRANCH: TableFactory(path / "b", fields, ["dt", "id"], ["dt"], {"bucket": "1"}),
        }
        self._names = iter(range(10**6))
        for name, table in self._tables.items():
            table._new_id = lambda name=name: f"{name}-{next(self._names)}"  # type: ignore[method-assign,assignment,misc]  # names differ between branches
        self._publish()

    def commit(self, branch: str, day: str, ids: list[int], at: int = 0) -> None:
        """Commit a file to a branch at the time `at`; its rows name the branch."""
        table = self._tables[branch]
        table.write_file(pa.table({"id": ids, "v": [f"{branch}{i}" for i in ids]}), partition={"dt": day})
        snapshot = table.path / f"snapshot/snapshot-{table.commit()}"
        snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"timeMillis": at}))
        self._publish()

    def _publish(self) -> None:
        """Copy the branch's own table to the folder of the branch."""
        source, home = self._tables[BRANCH].path, self.path / "branch" / f"branch-{BRANCH}"
        for name in ("schema", "snapshot"):
            shutil.copytree(source / name, home / name, dirs_exist_ok=True)
        for folder in source.iterdir():
            if folder.name not in ("schema", "snapshot"):
                shutil.copytree(folder, self.path / folder.name, dirs_exist_ok=True)

    def rows(self, filter: str | None = None, **arguments: int | str) -> list[tuple[str, str]]:
        found = morrow.open(self.path).scan(["dt", "v"], filter, **arguments).to_polars()  # type: ignore[arg-type]  # passed through
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


def test_a_branch_that_is_younger_had_no_rows(tmp_path: Path) -> None:
    """Before the branch's first snapshot a read sees no rows of it; Java reads the branch from its beginning."""
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [7], at=1_000)
    table.commit(BRANCH, "b", [1], at=2_000)
    table.commit(BRANCH, "c", [2], at=3_000)

    assert table.rows(snapshot=1) == table.rows(timestamp=1_999) == [("a", "main7")]
    assert table.rows(timestamp=2_000) == [("a", "main7"), ("b", "stream1")]


def test_a_branch_whose_snapshots_of_then_have_expired(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    for day, at in (("b", 1_000), ("c", 3_000)):
        table.commit(BRANCH, day, [1], at=at)
    table.commit(MAIN, "a", [7], at=2_000)
    (table.path / f"branch/branch-{BRANCH}/snapshot/snapshot-1").unlink()

    with pytest.raises(SnapshotNotFound, match=r"branch stream\): no snapshot or tag is at or before"):
        table.rows(snapshot=1)


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_a_state_of_main_is_what_the_table_showed_then(tmp_path: Path, option: str) -> None:
    """Snapshot ids of main say nothing about the branch, so the branch is read as of main's time."""
    table = new_table(tmp_path, "day STRING NOT NULL, n INT", by=["day"])
    table.branches.create("live")
    live = table.on_branch("live")
    table.alter.set_options({option: "live"})

    def commit(branch: morrow.Table, day: str) -> None:
        branch.append([{"day": day, "n": 1}])
        time.sleep(0.002)  # so that the commits have different times

    for day in ("mon", "tue"):
        commit(live, day)
    commit(table, "sun")
    table.tags.create("sunday")
    for branch, day in ((live, "wed"), (live, "thu"), (table, "fri"), (live, "sat")):
        commit(branch, day)
    live.tags.create("sunday")  # a tag of the same name on other rows

    def days(**at: Any) -> set[str]:
        return set(table.scan(["day"], **at).to_polars()["day"])

    then, moment = {"mon", "tue", "sun"}, table.snapshots()[0].time
    for at in ({"snapshot": 1}, {"as_of": 1}, {"version": "1"}, {"version": "snapshot.1"}, {"tag": "sunday"},
               {"as_of": "sunday"}, {"timestamp": moment}, {"version": str(moment)}):  # fmt: skip
        assert days(**at) == then, at
    assert days(snapshot=2) == {*then, "wed", "thu", "fri"}
    assert days() == {*then, "wed", "thu", "fri", "sat"}
    between = live.snapshots()[2].time  # after main's first snapshot
    assert days(timestamp=between) == days(version=str(between)) == {*then, "wed"}


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


def branched(path: Path, format: str = "parquet") -> tuple[morrow.Table, morrow.Table]:
    """Make a table with a fallback branch; both begin with the same snapshot 1."""
    schema = "dt STRING, v STRING NOT NULL, r ROW<a INT NOT NULL>"
    table = new_table(path, schema, by=["dt"], options={"file.format": format})
    table.append({"dt": ["a"], "v": ["main1"], "r": [{"a": 1}]})
    table.tags.create("t1", snapshot=1)
    table.branches.create("b", tag="t1")
    table.alter.set_options({"scan.fallback-branch": "b"})
    return table, morrow.open(table.path, branch="b")


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_columns_are_nullable_where_either_branch_has_them_so(tmp_path: Path, format: str) -> None:
    table, branch = branched(tmp_path, format)
    branch.alter.set_nullable("v", True).set_nullable(("r", "a"), True)
    branch.append({"dt": ["b"], "v": [None], "r": [{"a": None}]})
    scan = table.scan()
    expected = [{"dt": "a", "v": "main1", "r": {"a": 1}}, {"dt": "b", "v": None, "r": {"a": None}}]
    assert scan.schema.field("v").nullable
    assert scan.schema.field("r").type.field("a").nullable
    batches = pa.Table.from_batches(scan.to_batches(), scan.schema)
    for rows in (scan.to_arrow(), batches, scan.dataset().to_table(), scan.to_duckdb().to_arrow_table()):
        assert sorted(rows.to_pylist(), key=lambda row: row["dt"]) == expected
    assert table.scan(["dt"], "v IS NULL").to_polars().rows() == [("b",)]


def test_a_past_state_has_the_columns_of_then(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.append({"dt": ["c"], "v": ["branch2"], "r": [{"a": 2}]})
    time.sleep(0.002)
    table.append({"dt": ["b"], "v": ["main2"], "r": [{"a": 2}]})
    for one in (table, branch):
        one.alter.add_column("w", "INT")
    branch.append({"dt": ["d"], "v": ["branch3"], "r": [{"a": 2}], "w": [3]})
    assert table.scan(["v"], snapshot=1).to_polars().rows() == [("main1",)]
    assert "w" not in table.scan(snapshot=1).schema.names
    assert sorted(table.scan(["v"], snapshot=2).to_polars().rows()) == [("branch2",), ("main1",), ("main2",)]
    assert sorted(table.scan(["v"], as_of="2").to_polars().rows()) == [("branch2",), ("main1",), ("main2",)]
    assert table.scan().count() == 4


def test_a_time_is_asked_of_both(tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit(MAIN, "a", [7], at=1_000)
    table.commit(BRANCH, "b", [1], at=2_000)
    assert table.rows(timestamp=1_500) == [("a", "main7")]
    assert table.rows(timestamp=2_500) == [("a", "main7"), ("b", "stream1")]


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_the_branch_are_not_changed_with_those_of_main(tmp_path: Path, keyed: bool) -> None:
    """A row in main, even a retraction, would hide all rows of its partition in the branch."""
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema="id INT NOT NULL, day STRING NOT NULL, v INT",
        primary_keys=["day", "id"] if keyed else [],
        partition_keys=["day"],
        options={"bucket": "1"} if keyed else {},
    )
    table.branches.create("b")
    table.on_branch("b").append({"id": [5, 6], "day": ["y", "y"], "v": [0, 0]})
    table.append({"id": [1, 2], "day": ["x", "x"], "v": [0, 0]})
    table.alter.set_options({"scan.fallback-branch": "b"})
    changes = [
        lambda: table.delete("id = 5"),
        lambda: table.delete("day = 'y'"),
        lambda: table.update({"v": "1"}, "id >= 2"),
        lambda: table.merge([{"id": 5, "day": "y", "v": 9}], on=["id", "day"]).when_matched_delete().execute(),
        *([lambda: table.delete([{"id": 5, "day": "y"}])] if keyed else []),
    ]
    for change in changes:
        with pytest.raises(Unsupported, match=r"read from the branch 'b'.*morrow\.open\(path, branch='b'\)"):
            change()
    assert sorted(table.scan(["id"]).to_polars()["id"]) == [1, 2, 5, 6]
    table.update({"v": "1"}, "day = 'x' AND id = 2")
    table.delete("day = 'x' AND id = 1")
    assert sorted(table.scan(["id", "v"]).to_polars().rows()) == [(2, 1), (5, 0), (6, 0)]


def test_a_primary_branch_is_read_before_main(tmp_path: Path) -> None:
    """Main's rows of partitions that the branch has are never read, whatever the filter."""
    table = new_table(tmp_path, "id INT NOT NULL, day STRING NOT NULL", keys=["day", "id"], by=["day"])
    table.append({"id": [1, 2], "day": ["x", "y"]})
    table.branches.create("b")
    branch = table.on_branch("b")
    branch.append({"id": [11, 12], "day": ["x", "x"]})
    table.alter.set_options({"scan.primary-branch": "b"})
    assert rows_of(table) == [(2, "y"), (11, "x"), (12, "x")]
    assert rows_of(table, filter="id < 10") == [(2, "y")]
    assert table.scan().count() == 3
    assert rows_of(table, snapshot=1) == [(1, "x"), (2, "y")]  # the branch had no rows at that time
    assert rows_of(table.on_branch("b")) == [(11, "x"), (12, "x")]
    table.append({"id": [3, 4], "day": ["x", "z"]})  # writes go to main
    assert rows_of(table) == [(2, "y"), (4, "z"), (11, "x"), (12, "x")]
    with pytest.raises(Unsupported, match=r"'scan\.primary-branch' names"):
        table.delete("id = 11")
    with pytest.raises(MorrowError, match=r"scan\.primary-branch"):
        table.branches.delete("b")
    table.alter.set_options({"scan.primary-branch": " "})
    assert rows_of(table) == [(1, "x"), (2, "y"), (3, "x"), (4, "z")]
