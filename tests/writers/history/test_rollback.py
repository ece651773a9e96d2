"""Rollback to an earlier snapshot removes all later snapshots and their files."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import (
    CommitConflict,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    StorageError,
    TagNotFound,
)
from morrow.engine.io.local import LocalStore
from tests.support.written import rows
from tests.writers.history.rollback_tables import (
    assert_clean,
    hint,
    ids,
    keys,
    killed_everywhere,
    numbers,
    put,
    through,
)


def test_to_a_snapshot(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)

    newest = table.rollback(2)

    assert newest.id == 2
    assert keys(table) == [1, 2]
    assert ids(table) == [1, 2]
    assert hint(table, "LATEST") == 2
    assert_clean(table)


def test_later_tags_go_and_earlier_ones_stay(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)
    for name, snapshot in (("first", 1), ("here", 2), ("later", 3), ("newest", 5)):
        table.tags.create(name, snapshot=snapshot)

    table.rollback(tag="here")

    assert table.tags.names == ("first", "here")
    assert keys(table) == [1, 2]
    assert_clean(table)


def test_to_a_tag_whose_snapshot_has_expired(tmp_path: Path) -> None:
    """The tag becomes a snapshot again, and the first one of the table."""
    table = numbers(tmp_path, 5)
    table.tags.create("kept", snapshot=2)
    table.expire_snapshots(retain_max=2, retain_min=1)
    assert ids(table) == [4, 5]

    table.rollback(tag="kept")

    assert (ids(table), keys(table), table.tags.names) == ([2], [1, 2], ("kept",))
    assert (hint(table, "EARLIEST"), hint(table, "LATEST")) == (2, 2)
    assert_clean(table)


def test_to_the_id_of_a_snapshot_that_only_a_tag_keeps(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)
    table.tags.create("kept", snapshot=2)
    table.expire_snapshots(retain_max=2, retain_min=1)

    table.rollback(snapshot=2)

    assert keys(table) == [1, 2]


def test_to_a_time(tmp_path: Path) -> None:
    """A rollback to a time finds the newest snapshot at or before it."""
    table = numbers(tmp_path, 4)
    times = [snapshot.time_millis for snapshot in table.snapshots()]

    table.rollback(timestamp=times[2])

    assert ids(table)[-1] == max(i for i, time in enumerate(times, 1) if time <= times[2])


def test_to_the_newest_changes_nothing(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)

    table.rollback(3)

    assert (ids(table), keys(table)) == ([1, 2, 3], [1, 2, 3])
    assert_clean(table)


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ({"snapshot": 1}, SnapshotExpired),
        ({"snapshot": 9}, SnapshotNotFound),
        ({"tag": "none"}, TagNotFound),
        ({"timestamp": 0}, SnapshotNotFound),
        ({}, InvalidArgument),
        ({"snapshot": 4, "tag": "none"}, InvalidArgument),
    ],
    ids=str,
)
def test_to_what_is_not_there_is_an_error_and_changes_nothing(
    to: dict[str, object], error: type[Exception], tmp_path: Path
) -> None:
    table = numbers(tmp_path, 4)
    table.expire_snapshots(retain_max=2, retain_min=1)
    before = files(tmp_path)

    with pytest.raises(error):
        table.rollback(**to)  # type: ignore[arg-type]  # differs by case

    assert files(tmp_path) == before


def test_a_snapshot_that_is_being_expired_cannot_be_gone_back_to(tmp_path: Path) -> None:
    """Its file still exists, but EARLIEST is already after it."""
    table = numbers(tmp_path, 4)
    Path(table._metadata.paths.snapshot_dir, "EARLIEST").write_text("3")

    with pytest.raises(SnapshotExpired, match="snapshot 2 has expired"):
        table.rollback(2)

    assert keys(table) == [1, 2, 3, 4]


def test_schemas_are_not_rolled_back(tmp_path: Path) -> None:
    """As in Java, the table keeps today's columns and gets the old rows."""
    table = numbers(tmp_path, 2)
    table.alter.add_column("note", "STRING")
    put(table, 3)

    table.rollback(2)

    assert [schema.id for schema in table.schemas()] == [0, 1]
    assert table.schema.names == ["k", "v", "note"]
    assert keys(table) == [1, 2]


def test_files_of_a_tag_on_another_branch_stay(tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)
    table.branches.create("dev", snapshot=4)

    table.rollback(1)

    assert keys(table) == [1]
    assert keys(table.on_branch("dev")) == [1, 2, 3, 4]
    assert_clean(table)


def test_a_branch_is_rolled_back_by_itself(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    table.branches.create("dev", snapshot=2)
    dev = table.on_branch("dev")
    put(dev, 30, 40)

    dev.rollback(2)

    assert (keys(dev), keys(table)) == ([1, 2], [1, 2, 3])
    assert_clean(table)


def test_ids_come_again_with_other_rows(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)
    table.rollback(2)

    put(table, 30, 40)

    assert keys(table) == [1, 2, 30, 40]
    assert keys(table, snapshot=3) == [1, 2, 30]
    assert_clean(table)


def test_changelogs_that_outlive_their_snapshots_go(tmp_path: Path) -> None:
    decoupled = {"changelog-producer": "input", "changelog.num-retained.min": "10", "changelog.num-retained.max": "20"}
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = numbers(tmp_path, 5, {**decoupled, **retained})
    table.tags.create("kept", snapshot=2)
    table.expire_snapshots(retain_max=1, retain_min=1)
    folder = Path(table._metadata.root, "changelog")
    assert sorted(path.name for path in folder.glob("changelog-*")) == [f"changelog-{i}" for i in range(1, 5)]

    table.rollback(tag="kept")

    assert sorted(path.name for path in folder.glob("*-*")) == ["changelog-1", "changelog-2"]
    assert keys(table) == [1, 2]


# Concurrent writers


def test_a_session_that_was_open_goes_on_from_what_is_left(tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)
    with table.writer() as writer:
        writer.write([{"k": 5, "v": 5}])
        writer.commit()
        table.rollback(2)
        writer.write([{"k": 6, "v": 6}])
        writer.commit()

    assert keys(table) == [1, 2, 6]
    assert ids(table) == [1, 2, 3]
    assert_clean(table)


def test_a_session_that_looks_keys_up_is_told_that_its_files_are_gone(tmp_path: Path) -> None:
    """A branch keeps the files, but key 5 has left the table, so it must be written again."""
    first_row = {"merge-engine": "first-row", "changelog-producer": "lookup", "write-only": "false"}
    table = numbers(tmp_path, 4, first_row)
    before = ids(table)[-1]
    with table.writer() as writer:
        writer.write([{"k": 5, "v": 5}])
        writer.commit()
        table.branches.create("kept", snapshot=ids(table)[-1])
        table.rollback(before)
        writer.write([{"k": 5, "v": 6}])
        with pytest.raises(CommitConflict, match="write them with a new writer"):
            writer.commit()

    table.upsert([{"k": 5, "v": 6}])

    assert rows(table)[-1] == (5, 6)
    assert rows(table.on_branch("kept"))[-1] == (5, 5)
    assert_clean(table)


def test_a_compaction_of_files_that_are_gone_is_dropped_and_its_rows_are_kept(tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)
    table.alter.set_options({"write-only": "false", "num-sorted-run.compaction-trigger": "2"})
    with table.writer("job") as writer:
        writer.write([{"k": 5, "v": 5}])
        messages = writer.prepare()
    assert any(message.compact_before for message in messages)

    table.rollback(2)
    table.committer("job").commit(messages)

    assert keys(table) == [1, 2, 5]
    assert_clean(table)


def test_writers_and_rollbacks_at_once_leave_a_line_of_snapshots(tmp_path: Path) -> None:
    """Each commit builds on the snapshot before it, whatever was rolled back in between."""
    table = numbers(tmp_path, 3)
    done = threading.Event()

    def write(first: int) -> None:
        own, key = morrow.open(table.path), first
        while not done.is_set():
            put(own, key)
            key += 1

    writers = [threading.Thread(target=write, args=(start,)) for start in (1_000, 2_000)]
    for writer in writers:
        writer.start()
    for _ in range(10):
        while len(ids(table)) < 5:
            time.sleep(0.001)
        table.rollback(3)
    done.set()
    for writer in writers:
        writer.join()

    found = ids(table)
    assert found == list(range(1, len(found) + 1))
    assert keys(table)[:3] == [1, 2, 3]
    totals = [snapshot.total_record_count for snapshot in table.snapshots()]
    assert totals == found, "a snapshot does not follow the one before it"
    assert_clean(table)


# Killed rollbacks


def test_killed_anywhere_it_leaves_a_table_and_is_completed_by_doing_it_again(tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)
    table.tags.create("later", snapshot=4)
    states = [[1, 2, 3, 4], [1, 2, 3], [1, 2]]

    for left in killed_everywhere(table, lambda t: t.rollback(2), tmp_path):
        assert keys(left) in states
        left.rollback(2)
        assert (keys(left), ids(left), left.tags.names) == ([1, 2], [1, 2], ())
        assert_clean(left)


def test_killed_on_its_way_to_an_expired_tag(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)
    table.tags.create("kept", snapshot=2)
    table.expire_snapshots(retain_max=2, retain_min=1)
    states = [[1, 2, 3, 4, 5], [1, 2, 3, 4], [1, 2]]

    for left in killed_everywhere(table, lambda t: t.rollback(tag="kept"), tmp_path):
        assert keys(left) in states
        left.rollback(tag="kept")
        assert (keys(left), ids(left)) == ([1, 2], [2])
        assert_clean(left)


def test_what_a_killed_rollback_left_goes_with_any_maintenance(tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)

    for left in killed_everywhere(table, lambda t: t.rollback(2), tmp_path):
        left.expire_snapshots()
        assert_clean(left)


class WithoutTurns(LocalStore):
    """A store whose committers do not queue, like a bucket."""

    is_local = False


def test_a_snapshot_that_another_machine_adds_to_a_retired_one_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = numbers(tmp_path, 4)
    store = WithoutTurns()
    move, names = store.move, table._metadata.paths

    def add_one_on_top(source: str, target: str) -> None:
        move(source, target)
        if source == names.snapshot(4):
            Path(names.snapshot(5)).write_bytes(Path(target).read_bytes().replace(b'"id" : 4', b'"id" : 5'))

    monkeypatch.setattr(store, "move", add_one_on_top)
    through(table, store).rollback(2)

    assert (ids(table), keys(table)) == ([1, 2], [1, 2])
    assert_clean(table)


def test_a_disk_that_fails_is_a_storage_error(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    store = LocalStore()

    def refuse(paths: Sequence[str]) -> None:
        raise StorageError(f"{paths[0]}: no answer")

    store.delete_many = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        through(table, store).rollback(1)
    assert keys(table) in ([1, 2, 3], [1, 2], [1])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
