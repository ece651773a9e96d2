"""Files that vanish while a plan is read raise `SnapshotExpired`, never another error, and never give wrong rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import FileMissing, MorrowError, SnapshotExpired
from tests.support.s3_server import BUCKET, client_of, s3_server

FACES: dict[str, Callable[[morrow.Scan], object]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "polars": lambda scan: scan.to_polars(),
    "pandas": lambda scan: scan.to_pandas(),
    "batches": lambda scan: list(scan.to_batches()),
    "reader": lambda scan: scan.to_reader().read_all(),
    "dataset": lambda scan: scan.dataset().to_table(),
    "lazy": lambda scan: scan.lazy().collect(),
    "filtered count": lambda scan: scan.narrowed(filter="v > 0").count(),
    "verify": lambda scan: scan.verify(),
}
KINDS: dict[str, dict[str, str]] = {
    "append": {"bucket": "-1"},
    "merge on read": {"bucket": "1", "write-only": "true"},
    "merged values": {
        "bucket": "1",
        "write-only": "true",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "changelog": {"bucket": "1", "changelog-producer": "input"},
}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": pa.array([10, 20, 30], pa.int32())})
GONE = r"snapshot \d+ was removed while it was read \(.* is gone\); plan the read again"
CHANGES_GONE = r"snapshot 2 was removed while its changes were read \(.* is gone\); read the table as a whole"


Make = Callable[..., morrow.Table]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Make a table of a kind with two commits of the same three keys, once per kind."""

    @cache
    def make(kind: str, form: str) -> morrow.Table:
        catalog = morrow.Catalog(tmp_path_factory.mktemp("made"))
        keys = [] if kind == "append" else ["id"]
        options = {"file.format": form, **KINDS[kind]}
        table = catalog.create_table("db.t", schema="id INT, v INT", primary_keys=keys, options=options)
        table.append(ROWS)
        table.append(ROWS)
        return table

    return make


@pytest.fixture
def make(made: Make, tmp_path: Path) -> Make:
    """Copy such a table, so that the test may damage it."""

    def copied(kind: str, form: str = "parquet") -> morrow.Table:
        return morrow.open(shutil.copytree(made(kind, form).path, tmp_path / "t"))

    return copied


def drop_data(table: morrow.Table) -> None:
    for folder in Path(table.path).glob("bucket-*"):
        shutil.rmtree(folder)


def drop_snapshot(table: morrow.Table, snapshot: int | None) -> None:
    (Path(table.path) / f"snapshot/snapshot-{snapshot}").unlink()


def announce_expiry(table: morrow.Table, snapshot: int | None) -> None:
    """Begin an expiry: the snapshot still exists, but the table's earliest snapshot is after it."""
    assert snapshot is not None
    folder = Path(table.path) / "snapshot"
    shutil.copy(folder / f"snapshot-{snapshot}", folder / f"snapshot-{snapshot + 1}")
    (folder / "EARLIEST").write_text(str(snapshot + 1))


def roll_back(table: morrow.Table, snapshot: int | None) -> None:
    """Give the snapshot's id to another commit."""
    path = Path(table.path) / f"snapshot/snapshot-{snapshot}"
    path.write_text(path.read_text().replace("manifest-list-", "manifest-list-of-another-commit-"))


def drop_table(table: morrow.Table, _snapshot: int | None) -> None:
    shutil.rmtree(table.path)


REMOVALS = [drop_snapshot, announce_expiry, roll_back, drop_table]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_whose_snapshot_is_gone(kind: str, face: str, make: Make) -> None:
    table = make(kind)
    scan = table.scan()
    assert scan.plan.files
    drop_data(table)
    drop_snapshot(table, scan.snapshot_id)

    with pytest.raises(SnapshotExpired, match=GONE):
        FACES[face](scan)


@pytest.mark.parametrize("form", ["orc", "avro"])
@pytest.mark.parametrize("kind", ["append", "merge on read", "merged values"])
def test_files_of_every_format(kind: str, form: str, make: Make) -> None:
    table = make(kind, form)
    scan = table.scan()
    assert scan.plan.files
    drop_data(table)
    drop_snapshot(table, scan.snapshot_id)

    for face in ("arrow", "polars", "batches", "filtered count"):
        with pytest.raises(SnapshotExpired, match=GONE):
            FACES[face](scan)


@pytest.mark.parametrize("removal", REMOVALS)
def test_whatever_removed_the_snapshot(removal: Any, make: Make) -> None:
    table = make("append")
    scan = table.scan()
    assert scan.plan.files
    drop_data(table)
    removal(table, scan.snapshot_id)

    with pytest.raises(SnapshotExpired, match=GONE):
        scan.to_arrow()


@pytest.mark.parametrize("removal", REMOVALS)
def test_manifests_that_go_before_the_plan_is_made(removal: Any, make: Make) -> None:
    table = make("append")
    scan = table.scan()
    shutil.rmtree(Path(table.path) / "manifest")
    removal(table, scan.snapshot_id)
    morrow.clear_caches()

    with pytest.raises(SnapshotExpired, match=GONE):
        scan.to_arrow()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_missing_from_a_living_snapshot_is_damage(kind: str, make: Make) -> None:
    table = make(kind)
    scan = table.scan()
    drop_data(table)

    with pytest.raises(FileMissing, match=r"/data-.*: no such file"):
        scan.to_arrow()


def test_a_file_that_is_missing_from_a_tag_is_damage(make: Make) -> None:
    table = make("append")
    path = Path(table.path)
    (path / "tag").mkdir()
    shutil.copy(path / "snapshot/snapshot-1", path / "tag/tag-kept")
    scan, by_id = table.scan(tag="kept"), table.scan(snapshot=1)
    drop_data(table)
    drop_snapshot(table, 1)

    for tagged in (scan, by_id):
        with pytest.raises(FileMissing):
            tagged.to_arrow()
    (path / "tag/tag-kept").rename(path / "tag/retired-kept")
    for tagged in (scan, by_id):
        with pytest.raises(SnapshotExpired, match=GONE):
            tagged.to_arrow()


def test_what_was_read_before_stays_and_what_comes_after_is_an_error(make: Make) -> None:
    """A stream breaks off in the middle, while a count from metadata is right although the files are gone."""
    table = make("append")
    scan = table.scan()
    batches = scan.to_batches(batch_rows=1)
    rows = next(batches).num_rows
    drop_data(table)
    drop_snapshot(table, scan.snapshot_id)

    assert scan.count() == 6
    try:
        rows += sum(batch.num_rows for batch in batches)
    except SnapshotExpired:
        rows = 6
    assert rows == 6


def test_relations_and_streams_say_why(make: Make) -> None:
    """Relations raise Morrow's errors, and the Arrow stream interface passes on the message only."""
    import duckdb

    table = make("append")
    scan = table.scan()
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        drop_data(table)
        drop_snapshot(table, scan.snapshot_id)

        with pytest.raises(MorrowError, match=f"{GONE}|No files found that match the pattern .*{table.path}"):
            relation.fetchall()
    with pytest.raises(pa.ArrowInvalid, match=GONE):
        pa.table(scan)


# Changes


@pytest.mark.parametrize(("kind", "mode"), [("append", "delta"), ("changelog", "changelog")])
def test_changes_whose_snapshot_is_gone(kind: str, mode: Any, make: Make) -> None:
    table = make(kind)
    changes = table.changes(from_snapshot=1, to_snapshot=2, mode=mode)
    path = Path(table.path)
    drop_data(table)

    with pytest.raises(FileMissing):
        changes.to_arrow()
    drop_snapshot(table, 2)
    for read in (changes.to_arrow, changes.to_polars, changes.count, lambda: list(changes.to_batches())):
        with pytest.raises(SnapshotExpired, match=CHANGES_GONE):
            read()
    # A tag keeps the rows of a snapshot but not its changelog files; a changelog keeps them.
    shutil.copytree(path / "snapshot", path / "tag")
    (path / "tag/snapshot-1").rename(path / "tag/tag-x")
    with pytest.raises(SnapshotExpired, match=CHANGES_GONE):
        changes.to_arrow()


def test_changes_that_a_changelog_keeps(make: Make) -> None:
    table = make("changelog")
    changes = table.changes(from_snapshot=1, to_snapshot=2, mode="changelog")
    (Path(table.path) / "changelog").mkdir()
    (Path(table.path) / "snapshot/snapshot-2").rename(Path(table.path) / "changelog/changelog-2")

    assert changes.count() == 3
    drop_data(table)
    with pytest.raises(FileMissing):
        changes.to_arrow()


def test_differences_whose_snapshot_is_gone(make: Make) -> None:
    table = make("merged values")
    changes = table.changes(from_snapshot=1, to_snapshot=2, mode="diff")
    drop_data(table)
    drop_snapshot(table, 1)

    with pytest.raises(SnapshotExpired, match=r"snapshot 1 was removed"):
        changes.to_arrow()


def test_a_stream_meets_the_expiry_of_what_it_was_handed(make: Make) -> None:
    table = make("append")
    stream = table.stream(from_snapshot=2, wait=0)
    changes = next(stream)
    drop_data(table)
    drop_snapshot(table, 2)

    with pytest.raises(SnapshotExpired, match=CHANGES_GONE):
        changes.to_arrow()


def test_in_an_object_store() -> None:
    with s3_server() as storage:
        catalog = morrow.Catalog(f"s3://{BUCKET}/wh", storage_options=storage)
        table = catalog.create_table("db.t", schema="id INT, v INT", options={"bucket": "-1"})
        table.append(ROWS)
        scan = table.scan()
        assert scan.plan.files
        client = client_of(storage)
        keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
        for key in keys:
            if "/bucket-" in key:
                client.delete_object(Bucket=BUCKET, Key=key)
        with pytest.raises(FileMissing):
            scan.to_arrow()
        client.delete_object(Bucket=BUCKET, Key="wh/db.db/t/snapshot/snapshot-1")
        with pytest.raises(SnapshotExpired, match=GONE):
            scan.to_arrow()
