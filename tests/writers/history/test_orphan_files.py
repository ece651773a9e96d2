"""Removal of orphan files, and purging whole tables."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.io.store import FileStatus, Walk
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history import orphan_files
from morrow.writers.history.branches import create_branch
from morrow.writers.history.orphan_files import OrphanFiles, Purged, list_roots, purge_table, remove_orphan_files
from morrow.writers.history.snapshot_expiry import expire_snapshots
from morrow.writers.history.tags import create_tag
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.s3_server import client_of, s3_server
from tests.support.written import data_files, new_table, rows, with_packed_blobs

LONG_AGO = 1_500_000_000
"""Seconds since 1970, in July 2017."""


def old(path: Path, data: bytes = b"123") -> Path:
    """Write a file with a modification time long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def aged(folder: Path) -> None:
    """Set the modification time of everything in a folder to long ago."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (LONG_AGO, LONG_AGO))


def found(table: morrow.Table, folder: Path, *, dry_run: bool = True) -> set[str]:
    """List the orphan files older than a day, relative to the table's folder."""
    result = remove_orphan_files(table._metadata, dry_run=dry_run)
    assert result.count == len(result.paths)
    return {str(Path(path).relative_to(folder)) for path in result.paths}


def place(table: morrow.Table) -> Path:
    return Path(table._metadata.root)


def partitioned(folder: Path) -> morrow.Table:
    table = new_table(folder, "dt STRING, v INT", by=["dt"])
    table.append(pl.DataFrame({"dt": ["a", "b"], "v": [1, 2]}, schema_overrides={"v": pl.Int32}))
    return table


ORPHANS = (
    *("manifest/manifest-x", "manifest/index-manifest-x", "manifest/manifest-list-x", "manifest/.x.tmp"),
    *("index/index-x", "index/btree-global-index-x.index", "statistics/stat-x", "dt=a/bucket-0/data-x.parquet"),
    *("dt=a/bucket-7/x.orc", "dt=gone/bucket-postpone/x.csv.gz", "dt=a/bucket-0/data-x.vector.lance"),
    *("dt=a/bucket-0/data-x.blob", "dt=a/bucket-0/data-x.parquet.blobref", "dt=a/bucket-0/data-x.parquet.index"),
    *("dt=a/bucket-0/.data-x.parquet.crc", "snapshot/.snapshot-9.tmp", "changelog/.x"),
    *("branch/branch-b/snapshot/.x", "branch/branch-b/changelog/.x"),
    *("schema/.schema-1.0123456789abcdef0123456789abcdef.tmp", "tag/.tag-x.0123456789abcdef0123456789abcdef.tmp"),
)

NOT_LOOKED_AT = (
    *("notes.txt", "mine/bucket-0/x.orc", "dt=a/x.orc", "dt=a/bucket-0/sub/x.orc", "dt=a/bucket-x/x.orc"),
    *("other=a/bucket-0/x.orc", "bucket-0/x.orc", "manifest/sub/manifest-x", "schema/x", "tag/x", "consumer/x"),
    *("service/x", "snapshot/retired-snapshot-1", "snapshot/snapshot-x", "changelog/changelog-x", "snapshot/EARLIEST"),
    *("branch/branch-b/tag/x", "branch/x/y", "metadata/v1.metadata.json", "tag-success-file/x_SUCCESS"),
)
"""Files at other places in a table's folder, and files with which maintenance completes killed runs."""

OTHER_KINDS = (
    *("dt=a/bucket-0/data-x-0.managed.blob", "dt=gone/bucket-7/.data-x-0.managed.blob", "dt=a/bucket-0/_SUCCESS"),
    *("dt=a/bucket-0/data-x", "dt=a/bucket-0/data-x.parquet.of.a.kind", "dt=a/bucket-0/notes.md", "manifest/x"),
    *("manifest/notes.txt", "index/x", "index/x.index", "statistics/x", "snapshot/old", "changelog/x"),
    *("branch/branch-b/snapshot/old", "dt=a/bucket-0/.hidden"),
)
"""Files of kinds that manifests never name, or that Morrow does not know: others may still use them."""


def test_ledgers_of_killed_jobs_go_when_nothing_in_them_is_young(tmp_path: Path) -> None:
    """One job was killed long ago and left a file; another began long ago and still runs."""
    table = partitioned(tmp_path)
    root = place(table)
    left = [".morrow-write-killed/open", ".morrow-write-killed/1.0.7-0", "dt=a/bucket-0/data-x.parquet"]
    for name in (*left, ".morrow-write-long/open", ".morrow-write-long/1.0.7-0"):
        old(root / name)
    (root / ".morrow-write-long/1.0.7-1").write_bytes(b"dt=a/bucket-0/data-y.parquet")
    (root / ".morrow-write-new").mkdir()
    old(root / ".morrow-write-mine")  # a file, not a folder

    assert found(table, root) == set(left)
    assert found(table, root, dry_run=False) == set(left)
    assert {path.name for path in root.glob(".morrow-*")} == {
        f".morrow-write-{name}" for name in ("long", "new", "mine")
    }
    assert len(list((root / ".morrow-write-long").iterdir())) == 3
    assert rows(table) == [("a", 1), ("b", 2)]


def test_old_files_that_nothing_names_are_removed(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    root = place(table)
    shutil.copytree(root / "schema", root / "branch/branch-b/schema")
    for name in (*ORPHANS, *NOT_LOOKED_AT, *OTHER_KINDS):
        old(root / name)
    young = root / "dt=a/bucket-0/being-written.parquet"
    young.write_bytes(b"1")

    assert found(table, root) == set(ORPHANS)
    assert all((root / name).exists() for name in ORPHANS)  # the call above was a dry run

    assert found(table, root, dry_run=False) == set(ORPHANS)
    assert not any((root / name).exists() for name in ORPHANS)
    assert young.exists()
    assert all((root / name).exists() for name in (*NOT_LOOKED_AT, *OTHER_KINDS))
    assert rows(table) == [("a", 1), ("b", 2)]
    assert found(table, root) == set()


def test_the_result_prints(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    assert repr(remove_orphan_files(table._metadata)) == "OrphanFiles: 0 files, 0 bytes, found, none removed"
    path = old(place(table) / "manifest/manifest-left", b"x" * 2000)
    result = remove_orphan_files(table._metadata, dry_run=False)
    assert repr(result) == f"OrphanFiles: 1 files, 2,000 bytes, removed\n  {path}"
    assert result == OrphanFiles((str(path),), 2000, removed=True)


def test_files_of_age_that_snapshots_tags_changelogs_and_branches_name_stay(golden_root: Path, tmp_path: Path) -> None:
    for case in ("branches", "tags_append_expired", "changelog_decoupled_expire", "dv_pk_index_in_data_dir", "blob"):
        root = tmp_path / case
        shutil.copytree(golden_root / "public" / case / "warehouse/db.db/t", root)
        aged(root)
        before = sorted(root.rglob("*"))
        assert found(morrow.open(root), root, dry_run=False) == set()
        assert sorted(root.rglob("*")) == before


def test_what_java_leaves_after_a_rollback_is_found(golden_root: Path, tmp_path: Path) -> None:
    """Java's own cleanup finds the same files in all golden tables; it left these manifests of this table."""
    root = tmp_path / "t"
    shutil.copytree(golden_root / "public/rollback_tag/warehouse/db.db/t", root)
    aged(root)
    table = morrow.open(root)
    before = table.scan().count()
    kinds = [name.partition("/")[0] for name in found(table, root, dry_run=False)]
    assert (kinds.count("manifest"), len(kinds)) == (7, 11)
    assert table.scan().count() == before


def test_folders_left_empty_go_and_so_do_old_empty_ones(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    root = place(table)
    old(root / "dt=orphan/bucket-0/x.orc")
    for folder in ("dt=old/bucket-0", "dt=none", "mine/empty"):
        (root / folder).mkdir(parents=True)
        aged(root / folder.partition("/")[0])
    (root / "dt=young/bucket-0").mkdir(parents=True)

    found(table, root, dry_run=False)

    assert sorted(path.name for path in root.glob("dt=*")) == ["dt=a", "dt=b", "dt=young"]
    assert (root / "mine/empty").is_dir()


def test_data_folders_and_external_paths_are_looked_at(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    table = new_table(tmp_path, "dt STRING", by=["dt"], options={"data-file.path-directory": "data"})
    table.alter.set_options({"data-file.external-paths": f"file://{outside},s3://elsewhere/x"})
    root = place(table)
    inside, external = old(root / "data/dt=a/bucket-0/x.orc"), old(outside / "dt=a/bucket-0/x.orc")
    old(root / "dt=a/bucket-0/x.orc")
    old(outside / "manifest/manifest-x")
    alone = remove_orphan_files(table._metadata)
    assert alone.paths == (str(inside),)
    assert alone.not_looked_at == (f"file://{outside}", "s3://elsewhere/x")

    trusted = morrow.open(root, allowed_roots=[outside]).remove_orphan_files()
    assert trusted.paths == tuple(sorted([str(inside), str(external)]))
    assert trusted.not_looked_at == ("s3://elsewhere/x",)


def test_younger_files_on_demand_but_none_of_the_future(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    (place(table) / "manifest/manifest-x").write_bytes(b"1")
    assert remove_orphan_files(table._metadata).count == 0
    in_a_second = int(time.time() * 1000) + 1000
    with pytest.raises(InvalidArgument, match="must be past"):
        remove_orphan_files(table._metadata, older_than_millis=in_a_second)
    time.sleep(0.01)
    assert remove_orphan_files(table._metadata, older_than_millis=int(time.time() * 1000)).count == 1


@pytest.mark.parametrize(
    ("damaged", "error"),
    [("manifest-list", FileMissing), ("manifest-", FileMissing), ("snapshot", CorruptFile), ("branch", Unsupported)],
)
def test_nothing_is_removed_when_metadata_cannot_be_read(
    damaged: str, error: type[MorrowError], tmp_path: Path
) -> None:
    table = partitioned(tmp_path)
    root = place(table)
    orphan = old(root / "manifest/manifest-x")
    match damaged:
        case "snapshot":
            (root / "snapshot/snapshot-1").write_text("{}")
        case "branch":
            (root / "branch/branch-b").mkdir(parents=True)
        case _:
            next(path for path in sorted((root / "manifest").iterdir()) if path.name.startswith(damaged)).unlink()
    morrow.clear_caches()
    with pytest.raises(error):
        remove_orphan_files(table._metadata, dry_run=False)
    assert orphan.exists()


def test_a_killed_expiry_has_left_snapshots_that_may_lack_files(tmp_path: Path) -> None:
    """Expiry deletes the remaining files of snapshots before EARLIEST, and their missing files are not damage."""
    table = partitioned(tmp_path)
    table.overwrite(pl.DataFrame({"dt": ["c"], "v": [3]}, schema_overrides={"v": pl.Int32}), dynamic=False)
    root = place(table)
    first = table._metadata.snapshot(1)
    (root / "snapshot/EARLIEST").write_text("2")
    (root / "manifest" / first.delta_manifest_list).unlink()
    aged(root)
    morrow.clear_caches()
    assert found(table, root) == set()  # the deletions of snapshot 2 still name the files of snapshot 1
    assert rows(table) == [("c", 3)]


def test_a_file_that_is_committed_during_the_run_stays(tmp_path: Path) -> None:
    """A writer takes longer than the age limit and commits after the roots were read."""
    table = partitioned(tmp_path)
    root = place(table)
    writer = table.writer("slow")
    writer.write(pl.DataFrame({"dt": ["a"], "v": [9]}, schema_overrides={"v": pl.Int32}))
    messages = writer.prepare()
    for path in root.glob("dt=a/bucket-*/*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    walks = 0

    class Store(LocalStore):
        def walk(self, folder: str) -> Walk:
            nonlocal walks
            walks += 1
            if walks == 2:
                table.committer("slow").commit(messages, 1)
            return super().walk(folder)

    slow = TableMetadata(Store(), table._metadata.root)
    assert remove_orphan_files(slow, dry_run=False).count == 0
    assert walks == 2
    assert rows(table) == [("a", 1), ("a", 9), ("b", 2)]


def test_a_snapshot_that_expires_while_it_is_read_is_no_damage(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.append(pl.DataFrame({"dt": ["a"], "v": [3]}, schema_overrides={"v": pl.Int32}))
    orphan = old(place(table) / "manifest/manifest-x")

    class Store(LocalStore):
        def read(self, path: str) -> bytes:
            if Path(path).name.startswith("manifest-list-"):  # by now all snapshots have been read
                expire_snapshots(table._metadata, retain_max=1)
            return super().read(path)

    morrow.clear_caches()
    racing = TableMetadata(Store(), table._metadata.root)
    assert remove_orphan_files(racing, dry_run=False).paths == (str(orphan),)
    assert table._metadata.snapshot_ids() == [2]
    assert rows(table) == [("a", 1), ("a", 3), ("b", 2)]


def test_an_interrupted_run_is_completed_by_the_next(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    orphans = [old(place(table) / f"manifest/manifest-{name}") for name in "abcdef"]

    class Store(LocalStore):
        def delete_many(self, paths: Sequence[str]) -> None:
            super().delete_many(paths[:3])
            raise StorageError("the disk went away")

    with pytest.raises(StorageError, match="went away"):
        remove_orphan_files(TableMetadata(Store(), table._metadata.root), dry_run=False)
    assert remove_orphan_files(table._metadata, dry_run=False).paths == tuple(map(str, orphans[3:]))
    assert rows(table) == [("a", 1), ("b", 2)]


def test_an_object_store_is_cleaned_alike() -> None:
    with s3_server() as options:
        catalog = morrow.Catalog("s3://lake/house", storage_options=options)
        table = catalog.create_table("db.t", schema="dt STRING, v INT", partition_keys=["dt"])
        table.append(pl.DataFrame({"dt": ["a"], "v": [1]}, schema_overrides={"v": pl.Int32}))
        for name in ("dt=a/bucket-0/left.orc", "manifest/manifest-left", "notes"):
            client_of(options).put_object(Bucket="lake", Key=f"house/db.db/t/{name}", Body=b"123")
        assert remove_orphan_files(table._metadata).count == 0
        time.sleep(1.1)  # S3 rounds times to whole seconds
        now = int(time.time() * 1000)
        result = remove_orphan_files(table._metadata, older_than_millis=now, dry_run=False)
        assert result.paths == tuple(
            f"{table.path}/{left}" for left in ("dt=a/bucket-0/left.orc", "manifest/manifest-left")
        )
        assert rows(table) == [("a", 1)]
        assert table._metadata.store.exists("house/db.db/t/notes")


def test_more_files_than_are_removed_at_once(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    root = place(table)
    for number in range(1500):
        old(root / f"dt=a/bucket-0/left-{number}.orc")
    result = remove_orphan_files(table._metadata, dry_run=False)
    assert (result.count, result.bytes) == (1500, 4500)
    assert rows(table) == [("a", 1), ("b", 2)]


def test_a_file_that_is_committed_between_deletions_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roots are read once for all remaining files, and again if the last read is too long ago."""
    table = partitioned(tmp_path)
    writer = table.writer("slow")
    writer.write(pl.DataFrame({"dt": ["a"], "v": [9]}, schema_overrides={"v": pl.Int32}))
    messages = writer.prepare()
    aged(place(table) / "dt=a")
    for number in range(5):
        old(place(table) / f"dt=a/bucket-0/a-{number}.orc")  # sorts before data-...
        old(place(table) / f"dt=b/bucket-0/a-{number}.orc")
    deleted: list[int] = []

    class Store(LocalStore):
        def delete_many(self, paths: Sequence[str]) -> None:
            super().delete_many(paths)
            deleted.append(len(paths))
            if len(deleted) == 1:
                table.committer("slow").commit(messages, 1)

    monkeypatch.setattr(orphan_files, "MAX_DELETIONS_AT_ONCE", 2)
    monkeypatch.setattr(orphan_files, "MAX_ROOTS_AGE_SECONDS", 0)
    assert remove_orphan_files(TableMetadata(Store(), table._metadata.root), dry_run=False).count == 10
    assert deleted == [2, 2, 2, 2, 2]
    assert rows(table) == [("a", 1), ("a", 9), ("b", 2)]

    for number in range(5):
        old(place(table) / f"dt=a/bucket-0/a-{number}.orc")
    asked: list[object] = []
    monkeypatch.setattr(orphan_files, "list_roots", lambda of: asked.append(of) or list_roots(of))
    monkeypatch.setattr(orphan_files, "MAX_ROOTS_AGE_SECONDS", 60)
    assert remove_orphan_files(table._metadata, dry_run=False).count == 5
    assert len(asked) == 2  # once after each walk


def test_a_branch_that_is_deleted_while_files_are_looked_at(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    table.branches.create("short")
    orphan = old(place(table) / "manifest" / "manifest-x")

    class Store(LocalStore):
        def list(self, folder: str) -> list[FileStatus]:
            listed = super().list(folder)
            if folder.endswith("/branch") and "short" in table.branches:
                table.branches.delete("short")
            return listed

    racing = TableMetadata(Store(), table._metadata.root)
    assert remove_orphan_files(racing, dry_run=False).paths == (str(orphan),)


def test_a_branch_without_schema_may_need_anything(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    orphan = old(place(table) / "manifest" / "manifest-x")
    (place(table) / "branch" / "branch-b").mkdir(parents=True)

    with pytest.raises(Unsupported, match="a branch without a schema"):
        remove_orphan_files(table._metadata, dry_run=False)
    assert orphan.exists()


def full(folder: Path, **options: str) -> morrow.Table:
    """Make a table with a history: snapshots, a tag, a branch and a consumer."""
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
    assert purge_table(table._metadata) == Purged(
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
    purged = purge_table(table._metadata)
    assert purged.changelogs == purged.snapshots > 0
    assert list((Path(table._metadata.root) / "changelog").iterdir()) == []


def test_a_writer_that_has_not_committed_keeps_its_files(tmp_path: Path) -> None:
    table = full(tmp_path)
    old, young = (Path(table._metadata.root) / "bucket-0" / name for name in ("old.orc", "young.orc"))
    for path in (old, young):
        path.write_bytes(b"1")
    os.utime(old, (0, 0))
    assert purge_table(table._metadata).orphans.paths == (str(old),)
    assert young.exists()


def test_packs_of_blobs_stay_and_rows_that_name_none_are_not_read(tmp_path: Path) -> None:
    table, pack = with_packed_blobs(tmp_path)
    reads: tuple[Callable[[], object], ...] = (
        table.scan().to_arrow,
        table.scan(["photo"], "k = 1", tag="t").to_polars,
        lambda: table.changes(0, 1).to_arrow(),
        lambda: next(table.stream(wait=0)).to_arrow(),
        lambda: table.system("audit_log").to_arrow(),
    )
    for read in reads:
        with pytest.raises(CorruptFile, match=r"column photo: .* is not a descriptor of a blob"):
            read()
    assert table.remove_orphan_files(dt.timedelta(0), dry_run=False).paths == ()
    assert purge_table(table._metadata, older_than_millis=int(time.time() * 1000)).orphans.paths == ()
    assert pack.exists()


def test_twice_and_on_an_empty_table(tmp_path: Path) -> None:
    empty = new_table(tmp_path, "v INT", name="empty")
    assert purge_table(empty._metadata) == Purged((), (), (), 0, 0, NONE)
    table = full(tmp_path)
    purge_table(table._metadata)
    assert purge_table(table._metadata) == Purged((), (), (), 0, 1, NONE)


def test_an_interrupted_purge_is_completed_by_the_next(tmp_path: Path) -> None:
    with disable_fsync():
        pristine = Path(full(tmp_path)._metadata.root)
        whole = FaultyStore(LocalStore())
        purge_table(TableMetadata(whole, str(shutil.copytree(pristine, tmp_path / "whole"))))
        for at in range(0, len(whole.asked), len(whole.asked) // 12):
            root = shutil.copytree(pristine, tmp_path / f"broken-{at}")
            store = FaultyStore(LocalStore(), Fault(at, FaultKind.BAD_DISK, lasting=True))
            with suppress(MorrowError):  # an unwritable hint does not stop it
                purge_table(TableMetadata(store, str(root)))
            assert store.failed
            purge_table(TableMetadata(LocalStore(), str(root)))
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
    """Other writers store any options. The case without options passes a time in the future."""
    table = full(tmp_path)
    path = Path(table._metadata.paths.schema(0))
    schema = json.loads(path.read_text())
    path.write_text(json.dumps({**schema, "options": {**schema["options"], **options}}))
    to_come = None if options else int(time.time() * 1000) + 60_000

    with pytest.raises((InvalidArgument, Unsupported)):
        purge_table(TableMetadata(LocalStore(), table.path), older_than_millis=to_come)

    assert (table.tags.names, list(table.branches), table.consumers.all()) == (("monday",), ["dev"], {"reader": 2})


def test_only_on_the_main_branch(tmp_path: Path) -> None:
    table = full(tmp_path)
    with pytest.raises(InvalidArgument, match="main branch"):
        purge_table(table.on_branch("dev")._metadata)
