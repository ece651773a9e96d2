"""Tags made: of which snapshots, how they are written, and what happens when expiry is faster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from morrow.engine.errors import (
    AlreadyExists,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    StorageError,
    UnclearOutcome,
)
from morrow.engine.format.snapshot import Tag
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.values import replace
from morrow.writers.history.tags.creation import check_new_name, create_tag, first_since
from tests.support.tags import expire, millis, moment, table, tags

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


@pytest.mark.parametrize("name", ["", " ", "123", "a/b", "..", "success-file"])
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


# Which snapshots


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


# Expiry at the same time


@dataclass
class _Hooked(LocalStore):
    """Somebody does something just before, or after, a file is created."""

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
    """Opens the same table as another process does."""
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
    assert first_since(metadata, millis(time)).id == snapshot


def test_it_may_have_expired_while_a_tag_keeps_it(metadata: TableMetadata) -> None:
    create_tag(metadata, "v1", 1)
    expire(metadata, 1, 2)

    assert [first_since(metadata, millis(time)).id for time in ("2024-05-14T08:00", "2024-05-14T10:00")] == [1, 3]


def test_there_is_none_since(metadata: TableMetadata) -> None:
    with pytest.raises(
        SnapshotNotFound, match=r"no snapshot was committed at or after .*; the newest is of 2024-05-14T11:00"
    ):
        first_since(metadata, millis("2024-05-14T11:01"))


# Success files


def test_a_success_file_tells_that_a_tag_is_there(tmp_path: Path) -> None:
    metadata = table(tmp_path, *TIMES, options={"tag.create-success-file": "true"})

    create_tag(metadata, "v1", clock=now)

    success = Path(metadata.paths.tag_dir) / "tag-success-file" / "v1_SUCCESS"
    assert success.read_text() == '{\n  "creationTime" : 1715689815500,\n  "modificationTime" : 1715689815500\n}'
    assert metadata.tag_names() == ["v1"]


@pytest.mark.parametrize(
    "name", ["v1", "a b", "tag-tag", "x.y_z-1", "ünï", "日本", "2024-05-14", "dt=2024-05-14", "1.0", "..."]
)
def test_names_of_tags_are_free(name: str) -> None:
    check_new_name(name, "/t")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "give it a name"),
        (" \t", "give it a name"),
        (None, "give it a name"),
        ("123", "a number means a snapshot"),
        (" 123 ", "a number means a snapshot"),
        ("-1", "a number means a snapshot"),
        ("\uff11\uff12", "a number means a snapshot"),
        ("a/b", "it would be a path"),
        ("a\\b", "it would be a path"),
        ("a\0", "without NUL"),
        ("..", "it would be a path"),
        ("success-file", "where success files are kept"),
    ],
)
def test_some_names_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: a tag cannot be called .*{why}"):
        check_new_name(name, "/t")
