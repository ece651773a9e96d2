"""Searches for snapshots by time and watermark: Java's results, with few reads, also while the table changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from morrow.engine.errors import FileMissing
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import find_first_reaching, find_last_until
from tests.support.recording_store import RecordingStore

HERE = Path(__file__).parent
MANY = 10_000


def write_snapshots(root: Path, first: int, times: Sequence[int], watermarks: Mapping[int, int | None]) -> None:
    """Write snapshots of consecutive ids from `first` on; watermarks are given by id."""
    folder = root / "snapshot"
    folder.mkdir(parents=True)
    for snapshot_id, millis in enumerate(times, first):
        members = {
            "version": 3,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": "base",
            "deltaManifestList": "delta",
            "commitUser": "user",
            "commitIdentifier": snapshot_id,
            "commitKind": "APPEND",
            "timeMillis": millis,
            "watermark": watermarks.get(snapshot_id),
        }
        (folder / f"snapshot-{snapshot_id}").write_text(json.dumps(members))
    (folder / "EARLIEST").write_text(str(first))
    (folder / "LATEST").write_text(str(first + len(times) - 1))


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make snapshots 1 to 100, each with the millisecond and watermark 10 * id. Copy the folder to change it."""
    root = tmp_path_factory.mktemp("hundred")
    write_snapshots(root, 1, range(10, 1001, 10), {i: 10 * i for i in range(1, 101)})
    return root


@pytest.fixture
def table(hundred: Path, tmp_path: Path) -> Path:
    shutil.copytree(hundred, tmp_path / "t")
    return tmp_path / "t"


def by_time(store: LocalStore, table: Path, millis: int) -> int | None:
    found = find_last_until(TableMetadata(store, str(table)), millis)
    return None if found is None else found.id


def by_watermark(store: LocalStore, table: Path, watermark: int) -> int | None:
    found = find_first_reaching(TableMetadata(store, str(table)), watermark)
    return None if found is None else found.id


def test_the_same_snapshots_as_java(tmp_path: Path) -> None:
    """Equal times and watermarks, clocks set back, and snapshots before the first watermark (JavaSearches.java)."""
    cases = [json.loads(line) for line in (HERE / "java_searches.jsonl").read_text().splitlines()]
    for number, case in enumerate(cases):
        root = tmp_path / str(number)
        write_snapshots(root, case["first"], case["times"], dict(enumerate(case["watermarks"], case["first"])))
        times = {text: by_time(LocalStore(), root, int(text)) for text in case["by_time"]}
        watermarks = {text: by_watermark(LocalStore(), root, int(text)) for text in case["by_watermark"]}

        assert times == case["by_time"], case
        assert watermarks == case["by_watermark"], case


def test_among_ten_thousand_few_are_read_and_none_is_listed(tmp_path: Path) -> None:
    class Unlisted(RecordingStore):
        def list(self, folder: str) -> list[FileStatus]:
            raise AssertionError(f"{folder} was listed")

    ids = range(5, MANY + 5)
    write_snapshots(tmp_path, 5, [10 * i for i in ids], {i: 10 * i for i in ids})
    for search in (by_time, by_watermark):
        for at in (5, 6, 7_777, MANY + 4):
            store = Unlisted()
            assert search(store, tmp_path, 10 * at) == at
            assert len(store.reads) < 20


@pytest.mark.parametrize(("millis", "snapshot"), [(9, None), (10, 1), (509, 49), (515, 49), (520, 52), (9_999, 100)])
def test_snapshots_that_are_lost_are_passed_over(table: Path, millis: int, snapshot: int | None) -> None:
    for lost in (50, 51):
        (table / f"snapshot/snapshot-{lost}").unlink()

    assert by_time(LocalStore(), table, millis) == snapshot
    assert by_watermark(LocalStore(), table, 500) == 52


def test_what_expiry_has_announced_is_not_found(table: Path) -> None:
    (table / "snapshot/EARLIEST").write_text("40")

    assert by_time(LocalStore(), table, 399) is None
    assert by_time(LocalStore(), table, 400) == 40
    assert by_watermark(LocalStore(), table, 10) == 40


@pytest.mark.parametrize(("millis", "snapshot"), [(300, None), (700, None), (950, 95), (1_000, 100)])
def test_snapshots_that_expire_during_the_search(table: Path, millis: int, snapshot: int | None) -> None:
    class Expiring(LocalStore):
        """A store that expires fifteen snapshots after each read of a snapshot."""

        earliest = 1

        def read(self, path: str) -> bytes:
            data = super().read(path)
            if Path(path).name.startswith("snapshot-") and self.earliest < 90:
                for i in range(self.earliest, self.earliest + 15):
                    (table / f"snapshot/snapshot-{i}").unlink()
                self.earliest += 15
                (table / "snapshot/EARLIEST").write_text(str(self.earliest))
            return data

    assert by_time(Expiring(), table, millis) == snapshot


def test_a_snapshot_that_is_listed_but_not_there_is_missing(table: Path) -> None:
    class Losing(LocalStore):
        def read(self, path: str) -> bytes:
            if path.endswith("snapshot-50"):
                raise FileMissing(path)
            return super().read(path)

    with pytest.raises(FileMissing, match="snapshot-50"):
        by_time(Losing(), table, 500)
