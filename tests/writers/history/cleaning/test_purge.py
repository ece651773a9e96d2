from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.branches.creation import create_branch
from morrow.writers.history.cleaning.orphans import OrphanFiles
from morrow.writers.history.cleaning.purge import Purged, purge
from morrow.writers.history.tags.creation import create_tag
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import data_files, new_table, rows, with_packed_blobs


def full(folder: Path, **options: str) -> morrow.Table:
    """Makes a table with history: snapshots, a tag, a branch and a consumer."""
    table = new_table(folder, "k INT NOT NULL, v INT", keys=["k"], options={"bucket": "1", **options})
    for value in range(3):
        table.upsert([{"k": 1, "v": value}])
    create_tag(table._metadata, "monday", snapshot=1)
    create_branch(table._metadata, "dev", tag="monday")
    Consumers(table._metadata).record("reader", 2)
    return table


def test_rows_and_history_go_schema_stays(tmp_path: Path) -> None:
    table = full(tmp_path)
    count = len(list(table._metadata.snapshots()))
    assert purge(table._metadata) == Purged(
        branches=("dev",), tags=("monday",), consumers=("reader",), changelogs=0, snapshots=count, orphans=NONE
    )
    assert rows(table) == []
    assert [snapshot.commit_kind for snapshot in table._metadata.snapshots()] == ["OVERWRITE"]
    assert not [path for path in data_files(Path(table._metadata.root)) if path.suffix == ".parquet"]

    table.upsert([{"k": 2, "v": 7}])
    assert rows(table) == [(2, 7)]


NONE = OrphanFiles((), 0, removed=True)


def test_changelogs_go_too(tmp_path: Path) -> None:
    table = full(tmp_path, **{"changelog-producer": "input", "changelog.time-retained": "2 d"})
    purged = purge(table._metadata)
    assert purged.changelogs == purged.snapshots > 0
    assert list((Path(table._metadata.root) / "changelog").iterdir()) == []


def test_a_writer_that_has_not_committed_keeps_its_files(tmp_path: Path) -> None:
    table = full(tmp_path)
    old, young = (Path(table._metadata.root) / "bucket-0" / name for name in ("old.orc", "young.orc"))
    for path in (old, young):
        path.write_bytes(b"1")
    os.utime(old, (0, 0))
    assert purge(table._metadata).orphans.paths == (str(old),)
    assert young.exists()


def test_packs_of_blobs_stay_and_rows_that_name_them_are_not_read(tmp_path: Path) -> None:
    table, pack = with_packed_blobs(tmp_path)
    reads: tuple[Callable[[], object], ...] = (
        table.scan().to_arrow,
        table.scan(["photo"], "k = 1", tag="t").to_polars,
        lambda: table.changes(0, 1).to_arrow(),
        lambda: next(table.stream(wait=0)),
        lambda: table.system("audit_log").to_arrow(),
    )
    for read in reads:
        with pytest.raises(Unsupported, match="the BLOB column 'photo' of a table with a primary key"):
            read()
    assert table.remove_orphan_files(dt.timedelta(0), dry_run=False).paths == ()
    assert purge(table._metadata, older_than_millis=int(time.time() * 1000)).orphans.paths == ()
    assert pack.exists()


def test_twice_and_on_an_empty_table(tmp_path: Path) -> None:
    empty = new_table(tmp_path, "v INT", name="empty")
    assert purge(empty._metadata) == Purged((), (), (), 0, 0, NONE)
    table = full(tmp_path)
    purge(table._metadata)
    assert purge(table._metadata) == Purged((), (), (), 0, 1, NONE)


def test_an_interrupted_purge_is_completed_by_the_next(tmp_path: Path) -> None:
    with fsync_disabled():
        pristine = Path(full(tmp_path)._metadata.root)
        whole = FaultyStore(LocalStore())
        purge(TableMetadata(whole, str(shutil.copytree(pristine, tmp_path / "whole"))))
        for at in range(0, len(whole.asked), len(whole.asked) // 12):
            root = shutil.copytree(pristine, tmp_path / f"broken-{at}")
            store = FaultyStore(LocalStore(), Fault(at, FaultKind.BAD_DISK, lasting=True))
            with suppress(MorrowError):  # a hint that cannot be written stops nothing
                purge(TableMetadata(store, str(root)))
            assert store.failed
            purge(TableMetadata(LocalStore(), str(root)))
            table = morrow.open(root)
            assert rows(table) == []
            assert len(table._metadata.snapshot_ids()) == 1
            assert not list(root.rglob("*.parquet"))
            assert not list(root.glob("tag/*")) + list(root.glob("branch/*")) + list(root.glob("consumer/*"))


@pytest.mark.parametrize(
    "options",
    [{"scan.fallback-branch": "dev"}, {"snapshot.num-retained.max": "many"}, {"tag.callbacks": "org.x.Told"}, {}],
    ids=str,
)
def test_what_would_end_it_half_way_is_seen_before_anything_goes(tmp_path: Path, options: dict[str, str]) -> None:
    """Other writers store what they like. Without options: a moment that is to come."""
    table = full(tmp_path)
    path = Path(table._metadata.paths.schema(0))
    schema = json.loads(path.read_text())
    path.write_text(json.dumps({**schema, "options": {**schema["options"], **options}}))
    to_come = None if options else int(time.time() * 1000) + 60_000

    with pytest.raises((InvalidArgument, Unsupported)):
        purge(TableMetadata(LocalStore(), table.path), older_than_millis=to_come)

    assert (table.tags.names, list(table.branches), table.consumers.all()) == (("monday",), ["dev"], {"reader": 2})


def test_only_on_the_main_branch(tmp_path: Path) -> None:
    table = full(tmp_path)
    with pytest.raises(InvalidArgument, match="main branch"):
        purge(table.on_branch("dev")._metadata)
