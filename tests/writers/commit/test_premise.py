"""Operations whose base snapshot expires while they read, after others have replaced its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CommitConflict, FileMissing, SnapshotExpired
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.append.row_level import RowChanges
from morrow.writers.append.writer import AppendWriter
from morrow.writers.commit.premise import guard_compaction, guard_read
from morrow.writers.operations.write_session import WriteSession

VECTORS = {"deletion-vectors.enabled": "true"}
NO_BUCKETS, ONE_BUCKET = {"bucket": "-1"}, {"bucket": "1", "bucket-key": "id"}


def table(folder: Path, options: Mapping[str, str]) -> morrow.Table:
    made = morrow.Catalog(folder).create_table("db.t", schema="id BIGINT, n BIGINT", options={**VECTORS, **options})
    made.append({"id": [1, 2, 3], "n": [10, 20, 30]})
    made.delete("id = 1")
    return made


def overtake(table: morrow.Table) -> None:
    """Replace the deletion vectors and files of the table by another writer, and expire the older snapshots."""
    other = morrow.open(table.path)
    other.append({"id": [4], "n": [40]})
    other.delete("id = 3")
    other.compact(full=True)
    other.expire_snapshots(retain_max=1, retain_min=1)


def once_before(patched: type, name: str, action: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Call `action` before the first call of a method."""
    original, waiting = getattr(patched, name), [action]

    def method(self: object, *args: object, **named: object) -> object:
        if waiting:
            waiting.pop()()
        return original(self, *args, **named)

    monkeypatch.setattr(patched, name, method)


def rows(table: morrow.Table) -> list[tuple[object, ...]]:
    return sorted(table.scan().to_polars().rows())


@pytest.mark.parametrize("buckets", [NO_BUCKETS, ONE_BUCKET], ids=["none", "fixed"])
@pytest.mark.parametrize("method", ["matching", "messages"])
def test_an_update_begins_anew_where_others_removed_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: dict[str, str], method: str
) -> None:
    overtaken = table(tmp_path, buckets)
    once_before(RowChanges, method, lambda: overtake(overtaken), monkeypatch)
    overtaken.update({"n": "n + 1"}, "id IN (2, 4)")
    assert rows(overtaken) == [(2, 21), (4, 41)]


@pytest.mark.parametrize("method", ["matching", "messages"])
def test_a_deletion_begins_anew_where_others_removed_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    overtaken = table(tmp_path, NO_BUCKETS)
    once_before(RowChanges, method, lambda: overtake(overtaken), monkeypatch)
    overtaken.delete("id = 2 OR id = 4")
    assert rows(overtaken) == []


def test_rows_are_committed_where_others_removed_the_files_to_compact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken = table(tmp_path, {**ONE_BUCKET, "compaction.min.file-num": "2"})
    once_before(AppendWriter, "prepare_commit", lambda: overtake(overtaken), monkeypatch)
    overtaken.append({"id": [5], "n": [50]})
    assert rows(overtaken) == [(2, 20), (4, 40), (5, 50)]


@pytest.mark.parametrize("option", [VECTORS, {"changelog-producer": "lookup"}, {"merge-engine": "first-row"}])
def test_rows_are_written_anew_where_others_removed_the_files_to_look_keys_up_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: dict[str, str]
) -> None:
    options = {"bucket": "1", "commit.min-retry-wait": "1 ms", **option}
    catalog = morrow.Catalog(tmp_path)
    keyed = catalog.create_table("db.t", schema="id BIGINT, n BIGINT", primary_keys="id", options=options)
    keyed.upsert({"id": [1], "n": [10]})
    others = iter([2, 4])

    def overtake_keys() -> None:
        other = morrow.open(keyed.path)
        other.upsert({"id": [next(others)], "n": [20]})
        other.compact(full=True)
        other.expire_snapshots(retain_max=1, retain_min=1)

    once_before(WriteSession, "commit", overtake_keys, monkeypatch)
    keyed.upsert({"id": [1, 3], "n": [11, 30]})
    assert rows(keyed) == [(1, 10 if "merge-engine" in option else 11), (2, 20), (3, 30)]
    once_before(WriteSession, "commit", overtake_keys, monkeypatch)
    with pytest.raises(CommitConflict, match="write them with a new writer"):  # a stream can only be read once
        keyed.upsert(iter(pa.table({"id": [1], "n": [40]}).to_batches()))
    assert dict(rows(keyed))[1] != 40


def expired_base(folder: Path) -> tuple[morrow.Table, Snapshot | None]:
    overtaken = table(folder, NO_BUCKETS)
    base = overtaken._metadata.latest_snapshot()
    overtake(overtaken)
    return overtaken, base


def test_files_that_went_with_their_snapshot_are_a_conflict(tmp_path: Path) -> None:
    overtaken, base = expired_base(tmp_path)
    with (
        pytest.raises(CommitConflict, match="expired while it was compacted"),
        guard_compaction(overtaken._metadata, base),
    ):
        raise FileMissing("data-1.parquet")
    with pytest.raises(CommitConflict, match="expired while it was read"), guard_read(overtaken._metadata, base):
        raise SnapshotExpired("gone")


@pytest.mark.parametrize("doing", [guard_compaction, guard_read])
def test_files_of_a_living_snapshot_are_missing(tmp_path: Path, doing: Callable[..., object]) -> None:
    """The table is damaged, so a second attempt would not help."""
    living = table(tmp_path, NO_BUCKETS)._metadata
    with pytest.raises(FileMissing), doing(living, living.latest_snapshot()):  # type: ignore[attr-defined]  # contexts
        raise FileMissing("data-1.parquet")
