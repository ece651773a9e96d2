"""Snapshot expiry deletes only the files that nothing else needs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow import clear_caches
from morrow.engine.errors import InvalidArgument, StorageError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.options.retention import UNLIMITED, Retention
from morrow.engine.plan.changelogs import list_changelog_ids
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.manifests import list_delta_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.commit import manifests
from morrow.writers.history import snapshot_expiry as module
from morrow.writers.history.branches import create_branch
from morrow.writers.history.snapshot_expiry import (
    expire_all_changelogs,
    expire_changelogs,
    expire_snapshots,
    find_first_retained,
)
from morrow.writers.history.tags import delete_tag
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.writers.history.expiry_histories import Life


def ids(life: Life) -> list[int]:
    return life.metadata.snapshot_ids()


def hint(life: Life) -> str:
    return (life.root / "snapshot" / "EARLIEST").read_text()


# Expired snapshots


def snapshot(snapshot_id: int, millis: int) -> Snapshot:
    return Snapshot(snapshot_id, 0, "base", "delta", "user", 0, "APPEND", millis)


def as_java(retention: Retention, young: int, limit: int, times: Sequence[int], pinned: int | None) -> int:
    """Compute the first retained id like Java's loop; snapshot 1 + i was committed at ``times[i]``."""
    latest, earliest = len(times), 1
    least = max(latest - retention.most + 1, earliest)
    end = min(latest - retention.least + 1, pinned if pinned is not None else 1 << 62, earliest + limit)
    for i in range(least, end):
        if young <= times[i - 1]:
            return max(i, earliest)
    return max(end, earliest)


@settings(max_examples=settings().max_examples * 2)
@given(
    times=st.lists(st.integers(0, 30), min_size=1, max_size=12).map(sorted),
    least=st.integers(1, 14),
    more=st.integers(0, 14),
    young=st.integers(0, 30),
    limit=st.integers(0, 14),
    pinned=st.none() | st.integers(1, 14),
)
def test_the_same_snapshots_are_due_as_in_java(
    times: list[int], least: int, more: int, young: int, limit: int, pinned: int | None
) -> None:
    retention = Retention(least + more, least, timedelta())
    all_of_them = {i: snapshot(i, millis) for i, millis in enumerate(times, 1)}

    consumer = None if pinned is None else ("job", pinned)
    found, _ = find_first_retained(
        lambda some: map(all_of_them.get, some), retention, young, limit, 1, len(times), consumer
    )

    assert found == as_java(retention, young, limit, times, pinned)


def test_what_is_kept_by_number_and_age(tmp_path: Path) -> None:
    life = Life(tmp_path, {"write-only": "true", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"})
    last = [life.write(name).time_millis for name in "abcdef"][-1]

    assert expire_snapshots(life.metadata, older_than_millis=0) == 2  # more than four, whatever their age
    assert ids(life) == [3, 4, 5, 6]
    assert expire_snapshots(life.metadata, older_than_millis=last + 1) == 2  # two stay, whatever their age
    assert ids(life) == [5, 6]
    assert hint(life) == "5"


def test_the_limit_of_writers_does_not_stop_a_call(tmp_path: Path) -> None:
    life = Life(tmp_path, {"snapshot.expire.limit": "3"})
    for name in "abcdefgh":
        life.write(name)

    assert expire_snapshots(life.metadata, retain_max=1, max_deletes=2) == 2
    assert expire_snapshots(life.metadata, retain_max=1, max_deletes=0) == 0
    assert expire_snapshots(life.metadata, retain_max=1) == 5
    assert ids(life) == [8]


@pytest.mark.parametrize(
    ("arguments", "left", "kept_by"),
    [
        ({"retain_max": 2}, 2, "retain_min keeps 2"),
        ({"retain_max": 4, "retain_min": 1, "older_than_millis": 0}, 4, r"3 is of .* UTC, not older than 1970-01-01"),
        ({"retain_max": 1, "max_deletes": 2}, 4, "max_deletes is 2"),
        ({"retain_max": 1, "consumer": 3}, 4, "consumer 'job' needs 3"),
    ],
)
def test_what_is_left_and_why(tmp_path: Path, arguments: dict[str, int], left: int, kept_by: str) -> None:
    life = Life(tmp_path)
    for name in "abcdef":
        life.write(name)
    if consumer := arguments.pop("consumer", None):
        Consumers(life.metadata).record("job", consumer)

    for dry_run in (True, False):
        result = expire_snapshots(life.metadata, **arguments, dry_run=dry_run)
        assert (int(result), result.left, str(result)) == (6 - left, left, str(6 - left))
        assert re.match(kept_by, result.kept_by)
    assert repr(result).startswith(f"{6 - left} removed, {left} left (")
    assert len(ids(life)) == left


def test_consumers_keep_what_they_have_not_read(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for name in "abcd":
        life.write(name)
    Consumers(life.metadata).record("job", 3)

    assert life.expire() == 2
    assert ids(life) == [3, 4]


def test_unless_they_read_changelogs_only(tmp_path: Path) -> None:
    life = Life(tmp_path, {"consumer.changelog-only": "true"})
    for name in "abcd":
        life.write(name)
    Consumers(life.metadata).record("job", 3)

    assert life.expire() == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"retain_max": 1, "retain_min": 2}, r"the most that are retained \(1\) must not be less than the least \(2\)"),
        ({"retain_min": 0}, "at least one must be retained"),
        ({"max_deletes": -1}, "at most -1 cannot be removed"),
    ],
)
def test_numbers_that_contradict_each_other(tmp_path: Path, arguments: dict[str, int], problem: str) -> None:
    life = Life(tmp_path)
    life.write("a")
    with pytest.raises(InvalidArgument, match=problem):
        expire_snapshots(life.metadata, **arguments)


def test_a_number_that_is_given_overrules_the_other_option(tmp_path: Path) -> None:
    life = Life(tmp_path, {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "6"})
    for name in "abc":
        life.write(name)
    assert expire_snapshots(life.metadata, retain_max=2) == 1
    assert expire_snapshots(life.metadata, retain_min=UNLIMITED) == 0


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    assert Life(tmp_path).expire() == 0


# Deleted files


def test_files_that_were_compacted_away_go_and_all_others_stay(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("a", "b")
    life.write("c")
    life.compact("a", "b", into="ab")

    assert life.expire(retain_max=2) == 1
    assert life.files() == {"a", "b", "c", "ab"}  # snapshot 2 still reads a and b
    assert life.expire() == 1
    assert life.files() == {"c", "ab"}
    life.check()


def test_a_file_that_was_lifted_as_it_is_stays(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("a")
    life.upgrade("a")
    life.write("b")
    assert life.expire() == 2
    assert life.files() == {"a", "b"}


def test_files_beside_a_data_file_go_with_it(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("a", extra=["a.index"])
    life.write("b", extra=["b.index"])
    life.remove("a")
    life.expire()
    assert {path.name for path in (life.root / "bucket-0").iterdir()} == {"b.parquet", "b.index"}


def test_changelog_files_go_with_their_snapshot(tmp_path: Path) -> None:
    life = Life(tmp_path, {"changelog-producer": "input"})
    life.write("a", changelog=["ca"])
    life.write("b", changelog=["cb"])
    assert life.expire() == 1
    assert life.files() == {"a", "b", "cb"}
    life.check()


def test_a_tag_keeps_its_files_and_those_between_two_tags_go(tmp_path: Path) -> None:
    """As in Paimon's tags proposal: neither tag holds a file that came and went between them."""
    life = Life(tmp_path)
    life.write("a")
    life.tag("first")
    life.write("between")
    life.compact("a", "between", into="ab")
    life.tag("second")
    life.compact("ab", into="new")

    assert life.expire() == 3
    assert life.files() == {"a", "ab", "new"}
    life.check()
    delete_tag(life.metadata, "first")
    assert life.files() == {"ab", "new"}
    delete_tag(life.metadata, "second")
    assert life.files() == {"new"}
    life.check()


def test_only_the_partitions_in_question_are_read_of_a_tag(tmp_path: Path) -> None:
    life = Life(tmp_path, partitioned=True)
    life.write("x1", to="x")
    life.write("y1", to="y")
    life.tag("both")
    life.compact("x1", into="x2")
    life.expire()
    assert life.files() == {"x1", "x2", "y1"}
    life.check()


def test_branches_keep_what_they_share(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("old")
    life.write("a")
    life.tag("fork")
    create_branch(life.metadata, "b", tag="fork")
    life.compact("old", "a", into="main")
    branch = life.on_branch("b")
    branch.write("only-b")
    branch.compact("a", into="compacted-b")

    assert life.expire() == 2
    assert life.files() == {"old", "a", "main", "only-b", "compacted-b"}
    life.check()
    delete_tag(life.metadata, "fork")
    delete_tag(branch.metadata, "fork")  # the tag from which the branch was made
    assert branch.expire() == 2
    assert life.files() == {"old", "main", "only-b", "compacted-b"}
    life.check()


def test_a_branch_may_forget_what_main_remembers(tmp_path: Path) -> None:
    """Main added the files before the branch was made, but after its own first living snapshot."""
    life = Life(tmp_path)
    for name in "abc":
        life.write(name)
    create_branch(life.metadata, "b", snapshot=3)
    branch = life.on_branch("b")
    branch.compact("a", "b", "c", into="all")
    assert branch.expire() == 1
    assert life.files() == {"a", "b", "c", "all"}
    life.check()


def test_empty_folders_are_removed_when_asked_for(tmp_path: Path) -> None:
    life = Life(tmp_path, {"snapshot.clean-empty-directories": "true"}, partitioned=True)
    life.write("x", to="x")
    life.write("y", to="y")
    life.remove("x")
    life.expire()
    assert [path.name for path in life.root.glob("p=*")] == ["p=y"]


def test_a_file_outside_of_the_table_is_left_unless_its_folder_is_allowed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a", "b"):
        (elsewhere / name).touch()
    life = Life(tmp_path)
    life.write("a", external_path=str(elsewhere / "a"))
    life.remove("a")
    life.expire()
    assert (elsewhere / "a").exists()

    life.write("b", external_path=str(elsewhere / "b"))
    life.remove("b")
    life.metadata = replace(life.metadata, allowed_roots=(str(elsewhere),))
    life.expire()
    assert not (elsewhere / "b").exists()


# Interruptions


def three_to_expire(folder: Path) -> Life:
    life = Life(folder)
    life.write("a", "b")
    life.compact("a", into="c")
    life.compact("b", into="d")
    life.compact("c", "d", into="e")
    return life


def test_an_expiry_that_failed_anywhere_is_completed_by_the_next(tmp_path: Path) -> None:
    counting = three_to_expire(tmp_path / "counted")
    store = FaultyStore(LocalStore())
    counting.metadata = replace(counting.metadata, store=store)
    counting.expire()
    changes = sum(asked.startswith(("delete", "write")) for asked in store.asked)
    assert changes > 10

    for at in range(changes):
        life = three_to_expire(tmp_path / str(at))
        sound = life.metadata
        life.metadata = replace(sound, store=FaultyStore(LocalStore(), Fault(at, FaultKind.LOST, lasting=True)))
        with pytest.raises(StorageError):
            life.expire()
        life.metadata = sound
        life.expire()
        assert life.files() == {"e"}
        assert ids(life) == [4]
        life.check()


def test_a_file_that_cannot_be_removed_keeps_its_snapshot(tmp_path: Path) -> None:
    life = three_to_expire(tmp_path)
    stubborn = life.root / "bucket-0" / "a.parquet"
    stubborn.unlink()
    stubborn.mkdir()
    with pytest.raises(StorageError, match=r"a\.parquet"):
        life.expire()
    assert ids(life) == [1, 2, 3, 4]
    assert life.metadata.earliest_snapshot_id() == 4  # readers do not see them
    stubborn.rmdir()
    assert life.expire() == 3
    life.check()


def test_half_of_what_a_snapshot_changed_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest that adds the moved file is already gone, the one that deletes it is not."""
    life = Life(tmp_path, {"manifest.target-file-size": "1 b", "manifest.full-compaction-threshold-size": "1 b"})
    monkeypatch.setattr(manifests, "ROLLING_CHECK_ENTRIES", 1)
    life.write("a")
    lifted = life.upgrade("a")
    life.write("b")
    listed = list_delta_manifests(life.metadata, lifted)
    deleting, adding = listed["_FILE_NAME"].to_list()
    assert listed["_NUM_DELETED_FILES"].to_list() == [1, 0]
    (life.root / "manifest" / adding).unlink()
    clear_caches()

    life.expire()

    assert not (life.root / "manifest" / deleting).exists()
    assert life.files() == {"a", "b"}


def test_snapshots_are_removed_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SNAPSHOTS_AT_ONCE", 2)
    life = Life(tmp_path)
    life.write("f0")
    for number in range(6):
        life.compact(f"f{number}", into=f"f{number + 1}")
        if number == 2:
            life.tag("t")
    assert life.expire() == 6
    assert life.files() == {"f3", "f6"}
    life.check()


def test_an_expiry_that_another_one_overtakes_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All snapshots that it has listed are gone when it reads EARLIEST."""
    life = Life(tmp_path)
    life.write("a")
    listed = life.metadata.snapshot_ids
    waiting = [lambda: (life.write("b"), life.write("c"), life.expire())]

    def ids_of_then(_metadata: TableMetadata) -> list[int]:
        found = listed()
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(TableMetadata, "snapshot_ids", ids_of_then)
    assert life.expire() == 0
    assert ids(life) == [3]
    life.check()


# Changelogs that outlive their snapshots.

DECOUPLED = {
    "write-only": "true",
    "snapshot.num-retained.max": "2",
    "snapshot.num-retained.min": "1",
    "changelog.num-retained.max": "5",
}
WITH_FILES = {**DECOUPLED, "changelog-producer": "input"}


def hints(life: Life) -> list[str]:
    return [(life.root / "changelog" / name).read_text() for name in ("EARLIEST", "LATEST")]


def with_changelogs(folder: Path) -> Life:
    """Make six snapshots and expire all but the last into changelogs with a file each."""
    life = Life(folder, WITH_FILES)
    for name in "abcdef":
        life.write(name, changelog=[f"c{name}"])
    assert life.expire(retain_min=1) == 5
    return life


def test_an_expired_snapshot_becomes_a_changelog(tmp_path: Path) -> None:
    life = Life(tmp_path, WITH_FILES)
    first = life.write("a", changelog=["ca"])
    data = json.loads((life.root / "snapshot" / "snapshot-1").read_text())
    life.write("b", changelog=["cb"])
    life.expire()

    assert first.id == 1
    assert json.loads((life.root / "changelog" / "changelog-1").read_text()) == data
    assert hints(life) == ["1", "1"]
    assert life.files() == {"a", "ca", "b", "cb"}
    life.check()


def test_changelogs_are_counted_together_with_snapshots(tmp_path: Path) -> None:
    life = with_changelogs(tmp_path)
    assert expire_changelogs(life.metadata) == 1  # five of the six stay
    assert list_changelog_ids(life.metadata) == [2, 3, 4, 5]
    assert hints(life) == ["2", "5"]
    assert life.files() == {*"abcdef", "cb", "cc", "cd", "ce", "cf"}
    life.check()


def test_the_newest_stays(tmp_path: Path) -> None:
    life = with_changelogs(tmp_path)
    result = expire_changelogs(life.metadata, retain_max=1)
    assert (result, result.left, result.kept_by) == (4, 1, "the newest changelog stays")
    assert list_changelog_ids(life.metadata) == [5]
    assert expire_changelogs(life.metadata, retain_max=1) == 0


def test_unless_all_are_removed(tmp_path: Path) -> None:
    life = with_changelogs(tmp_path)
    assert expire_all_changelogs(life.metadata) == 5
    assert list((life.root / "changelog").iterdir()) == []
    assert life.files() == {*"abcdef", "cf"}
    assert expire_all_changelogs(life.metadata) == 0
    life.check()


def test_consumers_keep_changelogs(tmp_path: Path) -> None:
    life = with_changelogs(tmp_path)
    Consumers(life.metadata).record("job", 3)
    result = expire_changelogs(life.metadata, retain_max=1)
    assert (result, result.left, result.kept_by) == (2, 3, "consumer 'job' needs 3")
    assert expire_changelogs(life.metadata, retain_max=1, max_deletes=1) == 0


def test_without_changelog_files_the_written_files_stay(tmp_path: Path) -> None:
    """With ``changelog-producer = none``, streams read files that writers added and skip compacted files."""
    life = Life(tmp_path, DECOUPLED)
    life.write("a")
    life.write("b")
    life.compact("a", "b", into="ab")
    life.write("c")
    life.compact("ab", "c", into="abc")
    assert life.expire(retain_min=1) == 4
    assert life.files() == {"a", "b", "c", "abc"}
    life.check()

    assert expire_changelogs(life.metadata, retain_max=3) == 2
    assert list_changelog_ids(life.metadata) == [3, 4]
    life.check()
    assert expire_all_changelogs(life.metadata) == 2
    assert life.files() == {"abc"}
    life.check()


def test_written_files_go_at_last_when_their_compaction_does(tmp_path: Path) -> None:
    life = Life(tmp_path, DECOUPLED)
    life.write("a")
    life.compact("a", into="b")
    life.write("c")
    assert life.expire(retain_min=1) == 2
    assert expire_all_changelogs(life.metadata) == 2
    assert life.files() == {"b", "c"}
    life.check()


@pytest.mark.parametrize("first", ["tag", "changelogs"])
def test_a_tag_and_changelogs_may_share_files(tmp_path: Path, first: str) -> None:
    life = Life(tmp_path, DECOUPLED)
    life.write("a")
    life.tag("t")
    life.compact("a", into="b")
    life.write("c")
    life.expire(retain_min=1)
    removals = {
        "tag": lambda: delete_tag(life.metadata, "t"),
        "changelogs": lambda: expire_all_changelogs(life.metadata),
    }
    removals.pop(first)()
    assert life.files() == {"a", "b", "c"}
    life.check()
    delete_tag(life.metadata, "t", ignore_if_not_exists=True)
    expire_all_changelogs(life.metadata)
    assert life.files() == {"b", "c"}
    life.check()


def test_changelogs_stay_when_they_are_no_longer_decoupled(tmp_path: Path) -> None:
    life = Life(tmp_path, DECOUPLED)
    life.write("a")
    life.write("b")
    life.expire(retain_min=1)
    schema = life.root / "schema" / "schema-0"
    node = json.loads(schema.read_text())
    node["options"] = {"bucket": "1", "write-only": "true"}
    schema.write_text(json.dumps(node))
    life.compact("a", "b", into="ab")
    life.write("c")

    assert life.expire(retain_min=1) == 2
    assert list_changelog_ids(life.metadata) == [1]
    assert life.files() == {"a", "ab", "c"}  # changelog 1 says that "a" was written
