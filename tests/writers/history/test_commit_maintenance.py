"""Maintenance that runs after commits."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.consumers import Consumers
from morrow.engine.structs import replace
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history import snapshot_expiry
from morrow.writers.history.commit_maintenance import (
    AutomaticMaintenance,
    commit_with_maintenance,
    expire_consumers,
    find_maintenance_actions,
)
from morrow.writers.target import WriteTarget
from tests.support.commits import data_file, message
from tests.support.faulty_store import FaultyStore
from tests.support.written import new_table
from tests.writers.history.expiry_histories import Life

THREE = {"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "1"}


def commits(life: Life, store: LocalStore | FaultyStore | None = None) -> TableCommit:
    metadata = life.metadata if store is None else replace(life.metadata, store=store)
    return commit_with_maintenance(WriteTarget.of(metadata))


def commit(one: TableCommit, number: int) -> Snapshot | None:
    return one.commit([message(data_file(f"{number}.parquet", 10 * number, 10 * number + 9))])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_writer_keeps_as_many_snapshots_as_it_is_told(tmp_path: Path, mode: str) -> None:
    life = Life(tmp_path, {**THREE, "snapshot.expire.execution-mode": mode})
    writer = commits(life)
    for number in range(6):
        commit(writer, number)
    assert life.metadata.snapshot_ids() == [4, 5, 6]


def test_a_writer_that_only_writes_removes_nothing(tmp_path: Path) -> None:
    life = Life(tmp_path, {**THREE, "write-only": "true"})
    writer = commits(life)
    for number in range(5):
        commit(writer, number)
    assert AutomaticMaintenance(writer.target).actions == []
    assert len(life.metadata.snapshot_ids()) == 5


def test_a_young_table_costs_a_look_at_its_tags(tmp_path: Path) -> None:
    life = Life(tmp_path)
    store = FaultyStore(LocalStore())
    target = WriteTarget.of(replace(life.metadata, store=store))
    maintenance = AutomaticMaintenance(target)
    writer = TableCommit(target, maintenance)
    for number in range(3):
        commit(writer, number)
    asked = []
    for action in maintenance.actions:
        before = len(store.asked)
        action(life.metadata.snapshot(3))
        asked += store.asked[before:]
    assert asked == ["list tag"]


def test_old_snapshots_go_by_their_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(tmp_path, {"snapshot.num-retained.min": "2", "snapshot.time-retained": "1 min"})
    writer = commits(life)
    for number in range(4):
        last = commit(writer, number)
    assert last is not None
    assert life.metadata.snapshot_ids() == [1, 2, 3, 4]
    monkeypatch.setattr(snapshot_expiry, "read_clock_millis", lambda: last.time_millis + 60_001)
    commit(writer, 4)
    assert life.metadata.snapshot_ids() == [4, 5]


def test_changelogs_go_too(tmp_path: Path) -> None:
    life = Life(tmp_path, {**THREE, "changelog.num-retained.max": "5"})
    writer = commits(life)
    for number in range(9):
        commit(writer, number)
    assert life.metadata.snapshot_ids() == [7, 8, 9]
    assert sorted(path.name for path in (life.root / "changelog").glob("changelog-*")) == ["changelog-5", "changelog-6"]


def test_silent_consumers_are_forgotten_first(tmp_path: Path) -> None:
    life = Life(tmp_path, {**THREE, "consumer.expiration-time": "0 s"})
    writer = commits(life)
    commit(writer, 0)
    Consumers(life.metadata).record("job", 1)
    for number in range(1, 6):
        commit(writer, number)
    assert Consumers(life.metadata).all() == {}
    assert life.metadata.snapshot_ids() == [4, 5, 6]


class FullOfHints(LocalStore):
    """A store that cannot write the hint EARLIEST."""

    def write(self, path: str, data: bytes) -> None:
        if path.endswith("EARLIEST"):
            raise StorageError(f"{path}: no space")
        super().write(path, data)


def test_a_failure_is_logged_and_the_commit_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    life = Life(tmp_path, THREE)
    writer = commits(life, FullOfHints())
    done = [commit(writer, number) for number in range(4)][-1]

    assert life.metadata.latest_snapshot() == done
    assert "snapshot 4 is committed; cleaning up after it failed" in caplog.text
    assert life.metadata.snapshot_ids() == [1, 2, 3, 4]

    commit(commits(life), 4)  # the next commit catches up
    assert life.metadata.snapshot_ids() == [3, 4, 5]


def test_options_that_make_no_sense_stop_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = WriteTarget.of(Life(tmp_path, {"consumer.expiration-time": "1 d"}).metadata)
    schema = replace(target.schema, options={**target.schema.options, "snapshot.expire.limit": "many"})
    assert len(find_maintenance_actions(replace(target, schema=schema))) == 2  # tags and consumers, but no snapshots
    assert "is left out" in caplog.text
    assert "snapshot.expire.limit" in caplog.text


def commit_numbered(table: morrow.Table) -> None:
    with table.writer(commit_user="stream") as writer:
        writer.write({"p": ["a"], "id": [3]})
        writer.commit(1)


WRITES: dict[str, tuple[Callable[[morrow.Table], object], set[str]]] = {
    "append": (lambda t: t.append({"p": ["a", "a", None], "id": [1, 2, 3]}), {"a", "__DEFAULT_PARTITION__"}),
    "overwrite": (lambda t: t.overwrite({"p": ["new"], "id": [1]}, partition={"p": "new"}), {"new"}),
    "dynamic overwrite": (lambda t: t.overwrite({"p": ["a"], "id": [1]}, dynamic=True), {"a"}),
    "delete": (lambda t: t.delete("id = 12"), {"b"}),
    "update": (lambda t: t.update({"id": "id + 1"}, "id = 1"), {"a"}),
    "a partition dropped": (lambda t: t.drop_partitions({"p": "a"}), set()),
    "a partition deleted": (lambda t: t.delete("p = 'a'"), set()),
    "compaction": (lambda t: t.compact(), set()),
    "nothing": (lambda t: t.append({"p": [], "id": []}), set()),
    "a numbered commit": (commit_numbered, set()),
}
"""Writes to a table with the rows 1, 2 of partition a and 11, 12 of b, and the partitions that they mark as done."""


@pytest.mark.parametrize("actions", ["success-file", "mark-event, success-file", "mark-event"])
@pytest.mark.parametrize(("write", "marked"), WRITES.values(), ids=list(WRITES))
def test_a_batch_marks_its_partitions_as_done(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    write: Callable[[morrow.Table], object],
    marked: set[str],
    actions: str,
) -> None:
    table = new_table(tmp_path, "p STRING, id INT", by=["p"])
    for number in (1, 2):
        table.append({"p": ["a", "b"], "id": [number, number + 10]})
    table.alter.set_options({"partition.end-input-to-done": "true", "partition.mark-done-action": actions})
    write(table)
    found = {path.parent.name.removeprefix("p=") for path in Path(table.path).glob("p=*/_SUCCESS")}
    assert found == (marked if "success-file" in actions else set())
    assert ("in a catalog that keeps no partitions" in caplog.text) == (bool(marked) and "mark-event" in actions)


@pytest.mark.parametrize("options", [{}, {"write-only": "true"}])
@pytest.mark.parametrize("by", [["p", "q"], []])
def test_marks_need_partitions_and_are_made_by_write_only_tables(
    tmp_path: Path, by: list[str], options: dict[str, str]
) -> None:
    options = options | {"partition.end-input-to-done": "true"}
    table = new_table(tmp_path, "p STRING, q DATE, id INT", keys=["p", "q", "id"], by=by, options=options)
    table.upsert({"p": ["a"], "q": [dt.date(2024, 1, 2)], "id": [1]})
    files = [str(path.parent.relative_to(table.path)) for path in Path(table.path).rglob("_SUCCESS")]
    assert files == (["p=a/q=19724"] if by else [])


HOUR = 3600


def table_with_consumers(folder: Path, **hours_ago: float) -> morrow.Table:
    """Make a table with consumers that were last active this many hours ago."""
    table = new_table(folder, "v INT")
    for name, hours in hours_ago.items():
        Consumers(table._metadata).record(name, 1)
        moment = time.time() - hours * HOUR
        os.utime(Path(table._metadata.root) / "consumer" / f"consumer-{name}", (moment, moment))
    return table


def test_silent_consumers_are_forgotten(tmp_path: Path) -> None:
    table = table_with_consumers(tmp_path, old=5, older=9, young=1)
    moment = int((time.time() - 3 * HOUR) * 1000)
    assert expire_consumers(table._metadata, older_than_millis=moment) == ["old", "older"]
    assert Consumers(table._metadata).all() == {"young": 1}
    assert expire_consumers(table._metadata, older_than_millis=moment) == []


def test_the_option_says_how_long_they_may_be_silent(tmp_path: Path) -> None:
    table = table_with_consumers(tmp_path, old=5, young=1)
    assert expire_consumers(table._metadata) == []  # without the option they never expire
    table.alter.set_options({"consumer.expiration-time": "3 h"})
    assert expire_consumers(table._metadata) == ["old"]


def test_an_option_that_is_no_time_span_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "v INT")
    with pytest.raises(InvalidArgument):
        table.alter.set_options({"consumer.expiration-time": "long"})
