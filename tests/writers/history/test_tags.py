"""Creating, renaming, moving and deleting tags, also while snapshots expire."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    StorageError,
    TagNotFound,
    UnclearOutcome,
)
from morrow.engine.format.snapshot import Tag
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.history.tags import (
    check_tag_name,
    create_tag,
    delete_tag,
    delete_tags,
    find_first_since,
    list_tag_files,
    rename_tag,
    replace_tag,
    write_success,
)
from morrow.writers.history.tombstones import finish_removals
from tests.support.commits import names
from tests.support.recording_store import RecordingStore
from tests.support.tags import expire, millis, moment, table, tags
from tests.support.written import new_table, rows

TIMES = ("2024-05-14T09:00", "2024-05-14T10:00", "2024-05-14T11:00")


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    return table(tmp_path, *TIMES)


def now() -> dt.datetime:
    return moment("2024-05-14T12:30:15.5")


def test_a_tag_is_a_copy_of_its_snapshot(metadata: TableMetadata) -> None:
    assert create_tag(metadata, "v1") == Tag("v1", metadata.snapshot(3))
    assert metadata.tag("v1") == Tag("v1", metadata.snapshot(3))
    assert Path(metadata.paths.tag("v1")).read_bytes() == Path(metadata.paths.snapshot(3)).read_bytes()


def test_one_that_has_an_end_says_when_it_was_made(metadata: TableMetadata) -> None:
    made = create_tag(metadata, "v1", 2, time_retained=dt.timedelta(days=1), clock=now)

    assert made == metadata.tag("v1")
    assert made.create_time == now().astimezone().replace(tzinfo=None)
    assert Path(metadata.paths.tag("v1")).read_text().endswith('"tagTimeRetained" : 86400.000000000\n}')


def test_the_table_may_say_how_long_tags_stay(tmp_path: Path) -> None:
    metadata = table(tmp_path, *TIMES, options={"tag.default-time-retained": "7 d"})

    assert create_tag(metadata, "v1").time_retained == dt.timedelta(days=7)
    assert create_tag(metadata, "v2", time_retained=dt.timedelta(hours=1)).time_retained == dt.timedelta(hours=1)


def test_a_name_is_given_once(metadata: TableMetadata) -> None:
    first = create_tag(metadata, "v1", 1)

    with pytest.raises(AlreadyExists, match="there is a tag 'v1' already"):
        create_tag(metadata, "v1", 2)
    assert create_tag(metadata, "v1", 2, ignore_if_exists=True) == first


def test_of_two_at_once_one_makes_the_tag(tmp_path: Path) -> None:
    racing = _Hooked()
    metadata = table(tmp_path, *TIMES, store=racing)
    racing.before = lambda: create_tag(table_beside(metadata), "v1", 1)

    with pytest.raises(AlreadyExists):
        create_tag(metadata, "v1", 2)
    assert tags(metadata) == {"v1": 1}


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "success-file"])
def test_a_name_that_no_tag_can_have(metadata: TableMetadata, name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be called"):
        create_tag(metadata, name)


@pytest.mark.parametrize("snapshot", ["1", True, 1.0])
def test_what_is_no_snapshot(metadata: TableMetadata, snapshot: object) -> None:
    with pytest.raises(InvalidArgument, match="a snapshot is given as its id"):
        create_tag(metadata, "v1", snapshot)  # type: ignore[arg-type]


def test_a_time_that_is_over_at_once(metadata: TableMetadata) -> None:
    with pytest.raises(InvalidArgument, match="cannot be retained for 0 seconds"):
        create_tag(metadata, "v1", time_retained=dt.timedelta())


# Tagged snapshots


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFound, match="the table has no snapshot to tag"):
        create_tag(table(tmp_path), "v1")


def test_a_snapshot_that_was_never_made(metadata: TableMetadata) -> None:
    with pytest.raises(SnapshotNotFound, match="there is no snapshot 9"):
        create_tag(metadata, "v1", 9)


def test_a_snapshot_that_has_expired(metadata: TableMetadata) -> None:
    gone = metadata.snapshot(1)
    expire(metadata, 1)

    for snapshot in (1, gone):
        with pytest.raises(SnapshotExpired, match="snapshot 1 has expired"):
            create_tag(metadata, "v1", snapshot)
    assert metadata.tag_names() == []


def test_unless_a_tag_keeps_it(metadata: TableMetadata) -> None:
    create_tag(metadata, "v1", 1)
    expire(metadata, 1)

    create_tag(metadata, "v2", 1)

    assert tags(metadata) == {"v1": 1, "v2": 1}


def test_a_snapshot_that_is_announced_as_expired(metadata: TableMetadata) -> None:
    metadata.store.write(f"{metadata.paths.snapshot_dir}/EARLIEST", b"3")

    with pytest.raises(SnapshotExpired, match="snapshot 2 has expired"):
        create_tag(metadata, "v1", 2)


def test_a_snapshot_that_was_rolled_back(metadata: TableMetadata) -> None:
    other = replace(metadata.snapshot(3), delta_manifest_list="of-another-time")

    with pytest.raises(SnapshotExpired):
        create_tag(metadata, "v1", other)


# Concurrent expiry


@dataclass
class _Hooked(LocalStore):
    """A store that calls a function just before or after a file is created."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None
    unclear: bool = False

    def create(self, path: str, data: bytes) -> bool:
        if self.before is not None:
            before, self.before = self.before, None
            before()
        created = super().create(path, data)
        if self.after is not None:
            self.after()
        if self.unclear:
            raise UnclearOutcome("a timeout")
        return created


def table_beside(metadata: TableMetadata) -> TableMetadata:
    """Open the same table as another process would."""
    return TableMetadata(LocalStore(), metadata.root)


@pytest.mark.parametrize("step", ["announced", "gone"])
def test_a_tag_that_comes_too_late_is_taken_back(tmp_path: Path, step: str) -> None:
    store = _Hooked()
    metadata = table(tmp_path, *TIMES, store=store)

    def expire_first() -> None:
        store.write(f"{metadata.paths.snapshot_dir}/EARLIEST", b"2")
        if step == "gone":
            expire(metadata, 1)

    store.before = expire_first
    with pytest.raises(SnapshotExpired, match="snapshot 1 has expired while the tag 'v1' was made"):
        create_tag(metadata, "v1", 1)
    assert metadata.tag_names() == []


def test_a_hint_that_means_nothing_expires_nothing(metadata: TableMetadata) -> None:
    metadata.store.write(f"{metadata.paths.snapshot_dir}/EARLIEST", b"9")

    create_tag(metadata, "v1", 1)


def test_a_store_that_does_not_answer_is_asked_whether_it_is_there(tmp_path: Path) -> None:
    store = _Hooked()
    metadata = table(tmp_path, *TIMES, store=store)
    store.unclear = True

    create_tag(metadata, "v1", 1)

    assert tags(metadata) == {"v1": 1}


def test_a_tag_of_another_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    store = _Hooked()
    metadata = table(tmp_path, *TIMES, store=store)
    store.unclear, store.before = True, lambda: create_tag(table_beside(metadata), "v1", 2)

    with pytest.raises(StorageError, match="a timeout"):
        create_tag(metadata, "v1", 1)


# By time


@pytest.mark.parametrize(
    ("time", "snapshot"),
    [("2024-05-14T00:00", 1), ("2024-05-14T09:00", 1), ("2024-05-14T09:00:01", 2), ("2024-05-14T11:00", 3)],
)
def test_the_first_snapshot_since_a_time(metadata: TableMetadata, time: str, snapshot: int) -> None:
    assert find_first_since(metadata, millis(time)).id == snapshot


def test_it_may_have_expired_while_a_tag_keeps_it(metadata: TableMetadata) -> None:
    create_tag(metadata, "v1", 1)
    expire(metadata, 1, 2)

    assert [find_first_since(metadata, millis(time)).id for time in ("2024-05-14T08:00", "2024-05-14T10:00")] == [1, 3]


def test_there_is_none_since(metadata: TableMetadata) -> None:
    with pytest.raises(
        SnapshotNotFound, match=r"no snapshot was committed at or after .*; the newest is of 2024-05-14T11:00"
    ):
        find_first_since(metadata, millis("2024-05-14T11:01"))


# Success files


def test_a_success_file_tells_that_a_tag_is_there(tmp_path: Path) -> None:
    metadata = table(tmp_path, *TIMES, options={"tag.create-success-file": "true"})

    create_tag(metadata, "v1", clock=now)

    success = Path(metadata.paths.tag_dir) / "tag-success-file" / "v1_SUCCESS"
    assert success.read_text() == '{\n  "creationTime" : 1715689815500,\n  "modificationTime" : 1715689815500\n}'
    assert metadata.tag_names() == ["v1"]


@pytest.mark.parametrize(
    "name",
    [
        "v1",
        "a b",
        "tag-tag",
        "x.y_z-1",
        "ünï",
        "日本",
        "2024-05-14",
        "dt=2024-05-14",
        "1.0",
        "...",
        "123",
        " 123 ",
        "-1",
        "\uff11\uff12",
    ],
)
def test_names_of_tags_are_free(name: str) -> None:
    check_tag_name(name, "/t")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "give it a name"),
        (" \t", "give it a name"),
        (None, "give it a name"),
        ("a/b", "it would be a path"),
        ("a\\b", "it would be a path"),
        ("a\0", "without NUL"),
        ("..", "it would be a path"),
        ("success-file", "where success files are kept"),
    ],
)
def test_some_names_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: a tag cannot be called .*{why}"):
        check_tag_name(name, "/t")


# Tags that are renamed or moved.

DAY = dt.timedelta(days=1)


@pytest.fixture
def metadata_changing(tmp_path: Path) -> TableMetadata:
    """Make three snapshots, and the tag v1 on the first one."""
    made = table(tmp_path, "2024-05-14", "2024-05-15", "2024-05-16", options={"tag.create-success-file": "true"})
    create_tag(made, "v1", 1, time_retained=DAY, clock=lambda: moment("2024-05-17"))
    return made


# Names


def test_numbers_are_names_as_in_java(metadata_changing: TableMetadata) -> None:
    create_tag(metadata_changing, "3", 2)
    rename_tag(metadata_changing, "v1", "2024")
    assert tags(metadata_changing) == {"3": 2, "2024": 1}


def test_a_tag_keeps_everything_but_its_name(metadata_changing: TableMetadata) -> None:
    before = Path(metadata_changing.paths.tag("v1")).read_bytes()

    renamed = rename_tag(metadata_changing, "v1", "release", clock=lambda: moment("2024-05-18"))

    assert (renamed.name, renamed.time_retained) == ("release", DAY)
    assert Path(metadata_changing.paths.tag("release")).read_bytes() == before
    assert names(metadata_changing.paths.tag_dir) == ["tag-release", "tag-success-file"]
    assert names(f"{metadata_changing.paths.tag_dir}/tag-success-file") == ["release_SUCCESS"]


def test_a_name_that_is_taken(metadata_changing: TableMetadata) -> None:
    create_tag(metadata_changing, "v2", 2)

    for name in ("v1", "v2"):
        with pytest.raises(AlreadyExists, match=f"there is a tag '{name}' already"):
            rename_tag(metadata_changing, "v1", name)
    assert tags(metadata_changing) == {"v1": 1, "v2": 2}


def test_names_that_cannot_be_given_or_are_not_there(metadata_changing: TableMetadata) -> None:
    with pytest.raises(InvalidArgument, match="it would be a path"):
        rename_tag(metadata_changing, "v1", "20/24")
    with pytest.raises(TagNotFound):
        rename_tag(metadata_changing, "v2", "v3")


def test_the_same_under_another_name_is_another_tag(metadata_changing: TableMetadata) -> None:
    Path(metadata_changing.paths.tag("same")).write_bytes(Path(metadata_changing.paths.tag("v1")).read_bytes())

    with pytest.raises(AlreadyExists):
        rename_tag(metadata_changing, "v1", "same")


class _Killed(LocalStore):
    """A store that is killed when it renames a file."""

    def move(self, source: str, target: str) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def test_who_is_killed_leaves_both_names_and_the_next_completes_it(metadata_changing: TableMetadata) -> None:
    before = Path(metadata_changing.paths.tag("v1")).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        rename_tag(TableMetadata(_Killed(), metadata_changing.root), "v1", "v2")
    assert tags(metadata_changing) == {"v1": 1, "v2": 1}

    rename_tag(metadata_changing, "v1", "v2")

    assert tags(metadata_changing) == {"v2": 1}
    assert Path(metadata_changing.paths.tag("v2")).read_bytes() == before


class _DeletedMeanwhile(LocalStore):
    """A store in which the tag is deleted just before its new name is created."""

    def create(self, path: str, data: bytes) -> bool:
        (Path(path).parent / "tag-v1").unlink()
        return super().create(path, data)


def test_a_tag_that_is_deleted_meanwhile_does_not_come_back(metadata_changing: TableMetadata) -> None:
    with pytest.raises(TagNotFound, match="'v1' was deleted while it was renamed"):
        rename_tag(TableMetadata(_DeletedMeanwhile(), metadata_changing.root), "v1", "v2")
    assert tags(metadata_changing) == {}


# Snapshots


def test_a_tag_is_moved_to_the_newest_snapshot(metadata_changing: TableMetadata) -> None:
    moved = replace_tag(metadata_changing, "v1")

    assert (moved.snapshot.id, moved.create_time, moved.time_retained) == (3, None, None)
    assert metadata_changing.tag("v1") == moved


def test_or_to_any_other(metadata_changing: TableMetadata) -> None:
    replace_tag(metadata_changing, "v1", 2, time_retained=2 * DAY, clock=lambda: moment("2024-05-18"))

    assert tags(metadata_changing) == {"v1": 2}
    assert json.loads(Path(metadata_changing.paths.tag("v1")).read_bytes())["tagTimeRetained"] == 172800


def test_it_may_stay_where_it_is_for_another_time(metadata_changing: TableMetadata) -> None:
    expire(metadata_changing, 1)

    replace_tag(metadata_changing, "v1", 1)

    assert (metadata_changing.tag("v1").snapshot.id, metadata_changing.tag("v1").time_retained) == (1, None)


def test_a_tag_that_is_not_there(metadata_changing: TableMetadata) -> None:
    with pytest.raises(TagNotFound):
        replace_tag(metadata_changing, "v2")


class _ExpiredMeanwhile(LocalStore):
    """A store in which snapshot 2 expires while the tag is written."""

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        (Path(path).parents[1] / "snapshot" / "snapshot-2").unlink(missing_ok=True)


def test_a_tag_stays_where_it_was_when_expiry_is_faster(metadata_changing: TableMetadata) -> None:
    before = metadata_changing.tag("v1")

    with pytest.raises(SnapshotExpired, match="snapshot 2 has expired while the tag 'v1' was made"):
        replace_tag(TableMetadata(_ExpiredMeanwhile(), metadata_changing.root), "v1", 2)
    assert metadata_changing.tag("v1") == before


# Files deleted together with tags. `test_tag_histories` compares them with Java's.

KEEP = {"snapshot.num-retained.min": "10", "tag.create-success-file": "true"}


class Tagged:
    """A table whose rows were replaced twice, so each of its three snapshots has a data file of its own."""

    def __init__(self, folder: Path) -> None:
        self.table = new_table(folder, "a INT", options=KEEP)
        self.path = Path(self.table.path)
        for number in (1, 2, 3):
            self.table.overwrite([{"a": number}])
        self.metadata = TableMetadata(LocalStore(), str(self.path))
        self.data = {number: self._data_of(number) for number in (1, 2, 3)}

    def _data_of(self, snapshot: int) -> str:
        (file,) = self.table.scan(snapshot=snapshot).plan.files
        return Path(file.path).name

    def there(self) -> set[int]:
        """List the snapshots whose data file still exists."""
        files = {path.name for path in self.path.rglob("data-*")}
        return {number for number, name in self.data.items() if name in files}

    def lists(self) -> int:
        return len([name for name in names(f"{self.path}/manifest") if name.startswith("manifest-list")])


@pytest.fixture
def tagged(tmp_path: Path) -> Tagged:
    """Tag snapshots 1 and 2 as v1 and v2, then expire both."""
    made = Tagged(tmp_path)
    create_tag(made.metadata, "v1", 1)
    create_tag(made.metadata, "v2", 2)
    expire(made.metadata, 1, 2)
    return made


def test_what_only_the_tag_needs_goes_with_it(tagged: Tagged) -> None:
    assert delete_tag(tagged.metadata, "v1")

    assert tagged.there() == {2, 3}
    assert tagged.lists() == 4  # a base list and a delta list for each of the two remaining snapshots
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v2"]
    assert names(f"{tagged.metadata.paths.tag_dir}/tag-success-file") == ["v2_SUCCESS"]
    assert rows(morrow.open(str(tagged.path)), tag="v2") == [(2,)]


def test_what_another_tag_needs_stays(tagged: Tagged) -> None:
    create_tag(tagged.metadata, "too", 1)

    delete_tag(tagged.metadata, "v1")
    assert tagged.there() == {1, 2, 3}

    delete_tag(tagged.metadata, "too")
    assert tagged.there() == {2, 3}


def test_while_the_snapshot_is_alive_nothing_is_removed(tagged: Tagged) -> None:
    create_tag(tagged.metadata, "v3", 3)
    before = tagged.lists()

    delete_tag(tagged.metadata, "v3")

    assert (tagged.there(), tagged.lists()) == ({1, 2, 3}, before)


def test_several_at_once(tagged: Tagged) -> None:
    assert delete_tags(tagged.metadata, ["v1", "nothing", "v2"]) == ["v1", "v2"]
    assert tagged.there() == {3}


def test_a_tag_that_is_not_there_deletion(tagged: Tagged) -> None:
    with pytest.raises(TagNotFound, match="there is no tag 'nothing'; the tags are: v1, v2"):
        delete_tag(tagged.metadata, "nothing")
    assert not delete_tag(tagged.metadata, "nothing", ignore_if_not_exists=True)
    with pytest.raises(InvalidArgument):
        delete_tag(tagged.metadata, "../snapshot/snapshot-3", ignore_if_not_exists=True)


def test_a_numeric_tag_that_java_has_made_can_be_deleted(tagged: Tagged) -> None:
    Path(tagged.metadata.paths.tag("v1")).rename(tagged.metadata.paths.tag("123"))

    assert delete_tag(tagged.metadata, "123")
    assert tagged.there() == {2, 3}


def test_a_tag_that_was_moved_to_another_snapshot_lets_the_old_one_go(tagged: Tagged) -> None:
    replace_tag(tagged.metadata, "v1", 3)

    assert tagged.there() == {2, 3}
    assert tags(tagged.metadata) == {"v2": 2, "v1": 3}
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v1", "tag-v2"]


class _Full(LocalStore):
    """A store that cannot delete files."""

    def delete_many(self, paths: object) -> None:  # noqa: ARG002
        raise StorageError("a bad disk")


def test_the_next_maintenance_removes_what_could_not_be_removed(tagged: Tagged) -> None:
    with pytest.raises(StorageError, match="a bad disk"):
        delete_tag(TableMetadata(_Full(), str(tagged.path)), "v1")
    assert tags(tagged.metadata) == {"v2": 2}
    assert tagged.there() == {1, 2, 3}

    finish_removals(tagged.metadata)

    assert tagged.there() == {2, 3}
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v2"]


# Tags as read after every commit.


def test_tags_are_read_once(tmp_path: Path) -> None:
    store = RecordingStore()
    metadata = table(tmp_path, "2024-05-14", "2024-05-15", store=store)
    create_tag(metadata, "b", 1)
    create_tag(metadata, "a", 1)
    create_tag(metadata, "c", 1)
    write_success(metadata, "a", 0)
    store.reads.clear()

    for _ in range(3):
        assert [file.tag.name for file in list_tag_files(metadata)] == ["a", "b", "c"]
    assert sorted(store.reads) == ["tag-a", "tag-b", "tag-c"]


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-14", "2024-05-15")
    create_tag(metadata, "v1", 1)
    assert [file.tag.snapshot.id for file in list_tag_files(metadata)] == [1]

    path = Path(metadata.paths.tag("v1"))
    path.write_bytes(Path(metadata.paths.snapshot(2)).read_bytes())
    os.utime(path, (1, 1))

    assert [(file.tag.snapshot.id, file.modified_millis) for file in list_tag_files(metadata)] == [(2, 1000)]


def test_a_damaged_tag_is_named(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-14")
    metadata.store.write(metadata.paths.tag("v1"), b"{")

    with pytest.raises(CorruptFile, match="tag-v1"):
        list_tag_files(metadata)
