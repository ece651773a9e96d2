"""Changelogs that outlive their snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morrow.engine.plan.changelogs import changelog_ids
from morrow.engine.plan.consumers import Consumers
from morrow.writers.history.expiry.changelogs import expire_all_changelogs, expire_changelogs
from morrow.writers.history.tags.deletion import delete_tag
from tests.writers.history.expiry.lives import Life

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
    """Makes six snapshots of which the last lives; the others are changelogs with a file each."""
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
    assert expire_changelogs(life.metadata) == 1  # five of six stay
    assert changelog_ids(life.metadata) == [2, 3, 4, 5]
    assert hints(life) == ["2", "5"]
    assert life.files() == {*"abcdef", "cb", "cc", "cd", "ce", "cf"}
    life.check()


def test_the_newest_stays(tmp_path: Path) -> None:
    life = with_changelogs(tmp_path)
    result = expire_changelogs(life.metadata, retain_max=1)
    assert (result, result.left, result.kept_by) == (4, 1, "the newest changelog stays")
    assert changelog_ids(life.metadata) == [5]
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
    """``changelog-producer = none``: streams read what writers added; what compaction made is for no stream."""
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
    assert changelog_ids(life.metadata) == [3, 4]
    life.check()
    assert expire_all_changelogs(life.metadata) == 2
    # Snapshot 5 lives, and its changelog will have removed it.
    assert life.files() == {"c", "abc"}


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
    assert changelog_ids(life.metadata) == [1]
    assert life.files() == {"a", "ab", "c"}  # "a" is what changelog 1 says was written
