"""Tags renamed and moved."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from morrow.engine.errors import AlreadyExists, InvalidArgument, SnapshotExpired, TagNotFound
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.tags.changing import rename_tag, replace_tag
from morrow.writers.history.tags.creation import create_tag
from tests.support.commits import names
from tests.support.tags import expire, moment, table, tags

DAY = dt.timedelta(days=1)


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Three snapshots, the tag v1 of the first one."""
    made = table(tmp_path, "2024-05-14", "2024-05-15", "2024-05-16", options={"tag.create-success-file": "true"})
    create_tag(made, "v1", 1, time_retained=DAY, clock=lambda: moment("2024-05-17"))
    return made


# Names


def test_a_tag_keeps_everything_but_its_name(metadata: TableMetadata) -> None:
    before = Path(metadata.paths.tag("v1")).read_bytes()

    renamed = rename_tag(metadata, "v1", "release", clock=lambda: moment("2024-05-18"))

    assert (renamed.name, renamed.time_retained) == ("release", DAY)
    assert Path(metadata.paths.tag("release")).read_bytes() == before
    assert names(metadata.paths.tag_dir) == ["tag-release", "tag-success-file"]
    assert names(f"{metadata.paths.tag_dir}/tag-success-file") == ["release_SUCCESS"]


def test_a_name_that_is_taken(metadata: TableMetadata) -> None:
    create_tag(metadata, "v2", 2)

    for name in ("v1", "v2"):
        with pytest.raises(AlreadyExists, match=f"there is a tag '{name}' already"):
            rename_tag(metadata, "v1", name)
    assert tags(metadata) == {"v1": 1, "v2": 2}


def test_names_that_cannot_be_given_or_are_not_there(metadata: TableMetadata) -> None:
    with pytest.raises(InvalidArgument, match="a number means a snapshot"):
        rename_tag(metadata, "v1", "2024")
    with pytest.raises(TagNotFound):
        rename_tag(metadata, "v2", "v3")


def test_the_same_under_another_name_is_another_tag(metadata: TableMetadata) -> None:
    Path(metadata.paths.tag("same")).write_bytes(Path(metadata.paths.tag("v1")).read_bytes())

    with pytest.raises(AlreadyExists):
        rename_tag(metadata, "v1", "same")


class _Killed(LocalStore):
    """Nothing gets another name any more."""

    def move(self, source: str, target: str) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def test_who_is_killed_leaves_both_names_and_the_next_completes_it(metadata: TableMetadata) -> None:
    before = Path(metadata.paths.tag("v1")).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        rename_tag(TableMetadata(_Killed(), metadata.root), "v1", "v2")
    assert tags(metadata) == {"v1": 1, "v2": 1}

    rename_tag(metadata, "v1", "v2")

    assert tags(metadata) == {"v2": 1}
    assert Path(metadata.paths.tag("v2")).read_bytes() == before


class _DeletedMeanwhile(LocalStore):
    """Somebody deletes the tag just before its new name is given."""

    def create(self, path: str, data: bytes) -> bool:
        (Path(path).parent / "tag-v1").unlink()
        return super().create(path, data)


def test_a_tag_that_is_deleted_meanwhile_does_not_come_back(metadata: TableMetadata) -> None:
    with pytest.raises(TagNotFound, match="'v1' was deleted while it was renamed"):
        rename_tag(TableMetadata(_DeletedMeanwhile(), metadata.root), "v1", "v2")
    assert tags(metadata) == {}


# Snapshots


def test_a_tag_is_moved_to_the_newest_snapshot(metadata: TableMetadata) -> None:
    moved = replace_tag(metadata, "v1")

    assert (moved.snapshot.id, moved.create_time, moved.time_retained) == (3, None, None)
    assert metadata.tag("v1") == moved


def test_or_to_any_other(metadata: TableMetadata) -> None:
    replace_tag(metadata, "v1", 2, time_retained=2 * DAY, clock=lambda: moment("2024-05-18"))

    assert tags(metadata) == {"v1": 2}
    assert json.loads(Path(metadata.paths.tag("v1")).read_bytes())["tagTimeRetained"] == 172800


def test_it_may_stay_where_it_is_for_another_time(metadata: TableMetadata) -> None:
    expire(metadata, 1)

    replace_tag(metadata, "v1", 1)

    assert (metadata.tag("v1").snapshot.id, metadata.tag("v1").time_retained) == (1, None)


def test_a_tag_that_is_not_there(metadata: TableMetadata) -> None:
    with pytest.raises(TagNotFound):
        replace_tag(metadata, "v2")


class _ExpiredMeanwhile(LocalStore):
    """Snapshot 2 expires when the tag is being written."""

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        (Path(path).parents[1] / "snapshot" / "snapshot-2").unlink(missing_ok=True)


def test_a_tag_stays_where_it_was_when_expiry_is_faster(metadata: TableMetadata) -> None:
    before = metadata.tag("v1")

    with pytest.raises(SnapshotExpired, match="snapshot 2 has expired while the tag 'v1' was made"):
        replace_tag(TableMetadata(_ExpiredMeanwhile(), metadata.root), "v1", 2)
    assert metadata.tag("v1") == before
