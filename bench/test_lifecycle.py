"""Expiry, and time travel through a long history, for growing tables and growing changes.

The tables hold metadata and data files of a few bytes each, since no rows are read. They are in bench/.data/lifecycle,
and every round of an expiry works on a copy.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import compare, timed
from bench.tables import HOME
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.snapshot import format_snapshot
from morrow.engine.io.local import disable_fsync
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.target import WriteTarget

EXPIRED = 1_000
LIVE_FILES = (1_000, 10_000, 100_000)
SNAPSHOTS = (100, 1_000, 10_000)
QUICK = 10
SECOND = 1_000
"""One second in milliseconds."""
ROUNDS = 5
NO_PARTITION = bytes(12)
"""The BinaryRow of no columns: arity 0, then 8 bytes of header."""

TABLE = {
    "bucket": "1",
    "bucket-key": "id",
    "write-only": "true",
    # Manifests of the live files are not merged, since only expiry is measured.
    "manifest.full-compaction-threshold-size": "1 gb",
}


@pytest.fixture
def home() -> Iterator[Path]:
    folder = HOME / "lifecycle"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def scale(request: pytest.FixtureRequest) -> int:
    return QUICK if request.config.getoption("--quick") else 1


@pytest.mark.parametrize("live", LIVE_FILES)
def test_a_growing_table(benchmark: BenchmarkFixture, home: Path, scale: int, live: int) -> None:
    expiry(benchmark, "Expiring 1,000 snapshots: a growing table", home, live // scale, 10, EXPIRED // scale)
    benchmark.extra_info["curve"] = {"at": live // scale, "axis": "live files", "each": "live file"}


@pytest.mark.parametrize("changed", [2, 10, 50])
def test_growing_changes(benchmark: BenchmarkFixture, home: Path, scale: int, changed: int) -> None:
    snapshots = EXPIRED // scale
    expiry(benchmark, "Expiring 1,000 snapshots: growing changes", home, 10_000 // scale, changed, snapshots)
    benchmark.extra_info["curve"] = {"at": changed * snapshots, "axis": "files removed", "each": "file"}


def expiry(benchmark: BenchmarkFixture, section: str, home: Path, live: int, changed: int, snapshots: int) -> None:
    made = replaced_files(home, live, changed, snapshots)
    work = home / "work"

    def before() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(made, work, copy_function=os.link)
        morrow.clear_caches()

    def unlink_the_same() -> float:
        before()
        files = [path for path in (work / "bucket-0").iterdir() if not path.name.startswith(f"{snapshots - 1}-")]
        return timed(lambda: [path.unlink() for path in files])()

    compare(
        benchmark,
        section,
        f"{snapshots:,} snapshots that replaced {changed} files each, {live:,} live files",
        lambda: morrow.open(work).expire_snapshots(retain_max=1, retain_min=1, max_deletes=snapshots),
        baseline=("unlink the same data files", unlink_the_same),
        before=before,
        rounds=ROUNDS,
        warmup=False,
    )

    assert len(morrow.open(work).snapshots()) == 1
    assert len(list((work / "bucket-0").iterdir())) == changed


def replaced_files(home: Path, live: int, changed: int, snapshots: int) -> Path:
    """Make a table of `live` files, and a history whose snapshots each replace `changed` small ones."""
    table = morrow.Catalog(home).create_table("db.t", schema="id BIGINT", options=TABLE)
    folder = Path(table.path)
    (folder / "bucket-0").mkdir()
    commits = TableCommit(WriteTarget.of(metadata_of(folder)))
    replaced: tuple[DataFileMeta, ...] = ()
    with disable_fsync():
        commits.commit([message(new_files=tuple(data_file(f"base-{n}.parquet") for n in range(live)))])
        for number in range(snapshots):
            files = tuple(data_file(f"{number}-{n}.parquet") for n in range(changed))
            for file in files:
                (folder / "bucket-0" / file.file_name).write_bytes(b"x")
            commits.commit([message(new_files=files, deleted_files=replaced)])
            replaced = files
    return folder


def message(**files: tuple[DataFileMeta, ...]) -> CommitMessage:
    return CommitMessage(partition=NO_PARTITION, bucket=0, total_buckets=1, **files)


def data_file(name: str) -> DataFileMeta:
    return DataFileMeta(
        file_name=name,
        file_size=1,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=0,
        creation_time=0,
    )


@pytest.mark.parametrize("count", SNAPSHOTS)
def test_listing_snapshots(benchmark: BenchmarkFixture, home: Path, scale: int, count: int) -> None:
    table = long_history(home, count // scale)
    files = sorted((Path(table.path) / "snapshot").glob("snapshot-*"))
    compare(
        benchmark,
        "Listing snapshots",
        f"{count // scale:,} snapshots",
        lambda: table.snapshots(),
        baseline=("json.loads of the files", timed(lambda: [json.loads(file.read_bytes()) for file in files])),
        rounds=ROUNDS,
    )
    benchmark.extra_info["curve"] = {"at": count // scale, "axis": "snapshots", "each": "snapshot"}

    assert len(table.snapshots()) == count // scale


@pytest.mark.parametrize("count", SNAPSHOTS)
def test_travel_by_time(benchmark: BenchmarkFixture, home: Path, scale: int, count: int) -> None:
    count //= scale
    table = long_history(home, count)
    wanted = count // 3
    compare(
        benchmark,
        "Time travel by timestamp",
        f"a scan among {count:,} snapshots",
        lambda: table.scan(timestamp=wanted * SECOND + SECOND // 2),
        baseline=("list the snapshot folder", timed(lambda: list((Path(table.path) / "snapshot").iterdir()))),
        rounds=ROUNDS,
    )
    benchmark.extra_info["curve"] = {"at": count, "axis": "snapshots", "each": "snapshot"}

    assert table.scan(timestamp=wanted * SECOND + SECOND // 2).snapshot_id == wanted


def long_history(home: Path, count: int) -> morrow.Table:
    """Make a table with `count` snapshots, a second apart."""
    table = morrow.Catalog(home).create_table("db.t", schema="id BIGINT")
    first = table.append({"id": [1]})
    assert first is not None
    folder = Path(table.path) / "snapshot"
    for number in range(1, count + 1):
        snapshot = format_snapshot(replace(first, id=number, time_millis=number * SECOND))
        (folder / f"snapshot-{number}").write_bytes(snapshot)
    (folder / "LATEST").write_text(str(count))
    return table


def metadata_of(folder: Path) -> TableMetadata:
    store, root = resolve(str(folder), None)
    return TableMetadata(store, root)
