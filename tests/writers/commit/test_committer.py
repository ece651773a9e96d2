"""`Table.compact_manifests`: small manifests are merged in a snapshot that changes no rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import CommitConflict
from morrow.engine.plan.manifests import list_manifests
from morrow.writers.commit import snapshot_metadata
from tests.support.written import new_table, rows


def manifests(table: morrow.Table) -> int:
    latest = table._metadata.latest_snapshot()
    return 0 if latest is None else list_manifests(table._metadata, latest).height


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    made = new_table(tmp_path, "id BIGINT, p STRING", by=["p"], options={"commit.min-retry-wait": "1 ms"})
    for number in range(4):
        made.append({"id": [number], "p": ["a"]}, properties={"step": str(number)})
    made.drop_partition({"p": "a"})
    made.append({"id": [7], "p": ["b"]}, properties={"step": "last"})
    return made


def test_one_manifest_is_left(table: morrow.Table) -> None:
    assert manifests(table) == 6
    before = table.snapshots()[-1]
    done = table.compact_manifests()
    assert done is not None
    assert (done.commit_kind, done.delta_record_count, done.total_record_count) == ("COMPACT", 0, 1)
    assert done.properties == {"step": "last"}
    assert before.properties["step"] == "last"
    assert manifests(table) == 1
    assert rows(table) == [(7, "b")]
    assert table.compact_manifests() is None
    assert table.snapshots()[-1] == done
    table.append({"id": [8], "p": ["b"]})
    assert table.changes(from_snapshot=before.id).to_arrow().num_rows == 1
    assert table.expire_snapshots(retain_max=1, retain_min=1) == 7
    assert rows(table) == [(7, "b"), (8, "b")]


def test_an_empty_table_has_nothing_to_merge(tmp_path: Path) -> None:
    assert new_table(tmp_path, "id BIGINT").compact_manifests() is None


def test_a_commit_meanwhile_is_kept(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    merged, files = snapshot_metadata.merge_manifests, Path(table.path) / "manifest"

    def disturbed(*arguments: Any) -> Any:
        found = merged(*arguments)
        monkeypatch.undo()
        table.append({"id": [9], "p": ["b"]})
        return found

    monkeypatch.setattr(snapshot_metadata, "merge_manifests", disturbed)
    table.compact_manifests()
    assert rows(table) == [(7, "b"), (9, "b")]
    assert manifests(table) == 1
    assert table.snapshots()[-1].properties == {}  # copied from the snapshot before

    def always(*arguments: Any) -> Any:
        found = merged(*arguments)
        with monkeypatch.context() as inner:
            inner.setattr(snapshot_metadata, "merge_manifests", merged)
            table.append({"id": [9], "p": ["b"]})
        there.append({path.name for path in files.iterdir()})
        return found

    there: list[set[str]] = []
    table.alter.set_options({"commit.max-retries": "0"})
    table.append({"id": [9], "p": ["b"]})
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_metadata, "merge_manifests", always)
        with pytest.raises(CommitConflict):
            table.compact_manifests()
    kept = {path.name for path in files.iterdir()}
    assert kept < there[-1]  # the manifests of the failed attempts are gone
    assert table.compact_manifests() is not None
