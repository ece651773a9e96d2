"""Live entries: the last entry of each file decides, and contradictory metadata is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, UnsafePath, Unsupported
from morrow.engine.format.manifest_entries import STATISTICS
from morrow.engine.io.local import LocalStore
from morrow.engine.plan import entries
from morrow.engine.plan.entries import LiveEntries, read_live_entries
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Op, Or, Predicate
from morrow.engine.structs import replace
from tests.support.table_factory import DataFile, TableFactory


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def changed(file: DataFile, **members: Any) -> DataFile:
    """Change members of a file's manifest entry."""
    return replace(file, record={**file.record, **members})


def live(table: TableFactory, predicate: Predicate = ALWAYS, columns: list[str] | None = None) -> LiveEntries:
    morrow.clear_caches()
    metadata = TableMetadata(LocalStore(), str(table.path))
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    return read_live_entries(metadata, snapshot, metadata.latest_schema(), predicate, columns)


def names(table: TableFactory, predicate: Predicate = ALWAYS) -> list[str]:
    return live(table, predicate).frame["_FILE_NAME"].to_list()


@pytest.fixture
def table(tmp_path: Path) -> TableFactory:
    return TableFactory(tmp_path / "t", [("id", "INT")], primary_keys=["id"])


def test_files_of_all_commits_in_their_order(table: TableFactory) -> None:
    files = []
    for i in range(3):
        files.append(table.write_file(rows(i)))
        table.commit()

    assert names(table) == [file.name for file in files]
    assert (live(table).manifests, live(table).manifests_read, live(table).files) == (3, 3, 3)


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_very_many_entries_are_decoded_piece_by_piece(
    table: TableFactory, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(entries, "MAX_CACHED_ENTRIES", 1)
    monkeypatch.setattr(entries, "MAX_DECODED_ENTRIES", at_once)
    files = []
    for i in range(5):
        files.append(table.write_file(rows(i)))
        table.commit()
    table.delete_file(files[1])
    table.commit("COMPACT")
    found = live(table, columns=["_MIN_KEY"])

    assert found.frame["_FILE_NAME"].to_list() == [file.name for file in files if file is not files[1]]
    assert set(found.frame.columns) == {*entries.RESOLVED, "_MIN_KEY"}


def test_statistics_are_passed_over_where_nobody_asks(table: TableFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MIN_OUTLINE_BYTES", 0)
    first, second = table.write_file(rows(1)), table.write_file(rows(2))
    table.commit()
    table.delete_file(first)
    table.commit("COMPACT")
    outline, whole = live(table, columns=["_MIN_KEY"]).frame, live(table).frame

    assert not {*STATISTICS} & set(outline.columns)
    assert outline.equals(whole.select(outline.columns))
    assert outline["_FILE_NAME"].to_list() == [second.name]
    assert live(table, columns=["_VALUE_STATS"]).frame["_VALUE_STATS"].equals(whole["_VALUE_STATS"])


def test_a_deleted_file_is_gone(table: TableFactory) -> None:
    first, second = table.write_file(rows(1)), table.write_file(rows(2))
    table.commit()
    table.delete_file(first)
    table.commit("COMPACT")

    assert names(table) == [second.name]


def test_everything_deleted(table: TableFactory) -> None:
    file = table.write_file(rows(1))
    table.commit()
    table.delete_file(file)
    table.commit("COMPACT")

    assert names(table) == []


def test_a_file_upgraded_to_another_level_is_there_once(table: TableFactory) -> None:
    file = table.write_file(rows(1), level=0)
    table.commit()
    table.delete_file(file)
    table._add(changed(file, _LEVEL=5))
    table.commit("COMPACT")

    assert live(table).frame.select("_FILE_NAME", "_LEVEL").rows() == [(file.name, 5)]


def test_a_file_that_got_an_index_later_is_there_once(table: TableFactory) -> None:
    file = table.write_file(rows(1))
    table.commit()
    table.delete_file(file)
    table._add(changed(file, _EXTRA_FILES=[f"{file.name}.index"]))
    table.commit()
    table.delete_file(changed(file, _EXTRA_FILES=[f"{file.name}.index"]))
    table._add(changed(file, _EMBEDDED_FILE_INDEX=b"index"))
    table.commit()

    assert live(table).frame.select("_EXTRA_FILES", "_EMBEDDED_FILE_INDEX").rows() == [([], b"index")]


def test_a_file_that_comes_back(table: TableFactory) -> None:
    file = table.write_file(rows(1))
    table.commit()
    table.delete_file(file)
    table.commit()
    table._add(file)
    table.commit()

    assert names(table) == [file.name]


def test_a_file_that_is_there_twice(table: TableFactory) -> None:
    file = table.write_file(rows(1))
    table._add(file)
    table.commit()

    with pytest.raises(Unsupported, match=f"whose manifests add the file {file.name} twice"):
        names(table)


@pytest.mark.parametrize("name", ["../../other", "/etc/passwd", "", "..", "a\\b"])
def test_a_name_that_leads_elsewhere(table: TableFactory, name: str) -> None:
    table._add(changed(table.write_file(rows(1)), _FILE_NAME=name))
    table.commit()

    with pytest.raises(UnsafePath, match="not a single path segment"):
        names(table)


# --- partitions ---

DAYS = [None, "a", "b", "c"]


@pytest.fixture
def parted(tmp_path: Path) -> TableFactory:
    """Build a table with two manifests: one with the partitions null and a, one with b and c."""
    table = TableFactory(tmp_path / "p", [("dt", "STRING"), ("id", "INT")], partition_keys=["dt"])
    for days in (DAYS[:2], DAYS[2:]):
        for day in days:
            table.write_file(rows(1), partition={"dt": day})
        table.commit()
    return table


@pytest.mark.parametrize(
    ("predicate", "kept", "manifests"),
    [
        (ALWAYS, DAYS, 2),
        (Leaf("dt", Op.EQ, ("b",)), ["b"], 1),
        (Leaf("dt", Op.EQ, ("zz",)), [], 0),
        (Leaf("dt", Op.IN, ("a", "c")), ["a", "c"], 2),
        (Leaf("dt", Op.GT, ("a",)), ["b", "c"], 1),
        (Leaf("dt", Op.NE, ("b",)), ["a", "c"], 2),
        (Leaf("dt", Op.IS_NULL), [None], 1),
        (Leaf("dt", Op.IS_NOT_NULL), ["a", "b", "c"], 2),
        (Or((Leaf("dt", Op.IS_NULL), Leaf("dt", Op.EQ, ("c",)))), [None, "c"], 2),
        (And((Leaf("dt", Op.GE, ("a",)), Leaf("dt", Op.LT, ("b",)))), ["a"], 1),
    ],
)
def test_only_manifests_and_files_of_matching_partitions_are_read(
    parted: TableFactory, predicate: Predicate, kept: list[str | None], manifests: int
) -> None:
    found = live(parted, predicate)
    stored = dict(zip(parted.partitions.rows([(day,) for day in DAYS]), DAYS))

    assert [stored[partition] for partition in found.frame["_PARTITION"]] == kept
    assert (found.manifests_read, found.manifests) == (manifests, 2)


# --- contradictions ---


def only(table: TableFactory, pattern: str) -> Path:
    """Find the only file of the newest commit whose name matches the pattern."""
    return max((table.path / "manifest").glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def test_a_manifest_of_another_size(table: TableFactory) -> None:
    table.write_file(rows(1))
    table.commit()
    path = only(table, "manifest-[!l]*")
    path.write_bytes(path.read_bytes() + b"\0")

    with pytest.raises(CorruptFile, match=rf"{path.name}: \d+ bytes long where its metadata says \d+"):
        names(table)


def test_a_manifest_list_of_another_size(table: TableFactory) -> None:
    table.write_file(rows(1))
    table.commit()
    snapshot = table.path / "snapshot/snapshot-1"
    node = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps(node | {"deltaManifestListSize": 1}))

    with pytest.raises(CorruptFile, match=rf"{node['deltaManifestList']}: \d+ bytes long where its metadata says 1;"):
        names(table)


def test_of_several_manifests_the_damaged_one_is_named(table: TableFactory) -> None:
    for i in range(3):
        table.write_file(rows(i))
        table.commit()
        if i == 1:
            path = only(table, "manifest-[!l]*")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptFile, match=f"{path.name}: the block at byte .* does not end in the sync marker"):
        names(table)


def test_manifests_that_are_known_are_not_read_again(table: TableFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [table.write_file(rows(1))]
    table.commit()
    names(table)
    known = only(table, "manifest-[!l]*")
    files.append(table.write_file(rows(2)))
    table.commit()
    read: list[str] = []
    store = LocalStore()
    monkeypatch.setattr(store, "read", lambda path: (read.append(path), LocalStore().read(path))[1])
    metadata = TableMetadata(store, str(table.path))
    found = read_live_entries(metadata, metadata.snapshot(2), metadata.latest_schema())

    assert found.frame["_FILE_NAME"].to_list() == [file.name for file in files]
    assert str(known) not in read
    assert str(only(table, "manifest-[!l]*")) in read


@pytest.mark.parametrize("counts", [{"_NUM_ADDED_FILES": 2}, {"_NUM_DELETED_FILES": 1}])
def test_a_manifest_with_other_counts(
    table: TableFactory, counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = table._write_manifest
    monkeypatch.setattr(table, "_write_manifest", lambda pending: write(pending) | counts)
    table.write_file(rows(1))
    table.commit()

    with pytest.raises(CorruptFile, match="the counts of added and deleted files differ"):
        names(table)


@pytest.mark.parametrize("pattern", ["manifest-[!l]*", "manifest-list-*"])
def test_a_manifest_that_is_gone(table: TableFactory, pattern: str) -> None:
    table.write_file(rows(1))
    table.commit()
    for path in (table.path / "manifest").glob(pattern):
        path.unlink()

    with pytest.raises(FileMissing, match="the snapshot may have expired while it was read"):
        names(table)


def test_index_files_of_a_snapshot(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], options={"deletion-vectors.enabled": "true"})
    file = table.write_file(rows(1, 2))
    table.commit()
    table.deletion_vector(file, [0])
    table.commit()
    metadata = TableMetadata(LocalStore(), str(tmp_path))
    found = read_index_entries(metadata, metadata.snapshot(2))

    assert read_index_entries(metadata, metadata.snapshot(1)) is None
    assert found is not None
    assert found["_INDEX_TYPE"].to_list() == ["DELETION_VECTORS"]


# Live entries after commits: entries that earlier manifests leave alive are not computed again.


def live_known_entries(path: Path) -> list[str]:
    """Return the names of the live files without clearing caches first."""
    metadata = TableMetadata(LocalStore(), str(path))
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    return (
        read_live_entries(metadata, snapshot, metadata.latest_schema(), columns=["_FILE_NAME"])
        .frame["_FILE_NAME"]
        .to_list()
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives, for every read of entries, the number of manifests."""
    found: list[int] = []
    whole = entries.read_manifest_entries

    def counted(metadata: TableMetadata, kept: pl.DataFrame, *, outlines: bool = False) -> list[pl.DataFrame]:
        found.append(kept.height)
        return whole(metadata, kept, outlines=outlines)

    monkeypatch.setattr(entries, "read_manifest_entries", counted)
    return found


def test_a_commit_adds_its_own_manifest_to_what_is_known(tmp_path: Path, read: list[int]) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], primary_keys=["id"])
    files = []
    for i in range(4):
        files.append(table.write_file(pa.table({"id": [i]})))
        table.commit()
        assert live_known_entries(table.path) == [file.name for file in files]

    assert live_known_entries(table.path) == [file.name for file in files]
    assert read == [1, 1, 1, 1]


@pytest.mark.parametrize("few", [0, 256])
def test_files_come_and_go_as_if_all_manifests_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(entries, "MAX_SMALL_ROWS", few)
    table = morrow.Catalog(str(tmp_path)).create_table("db.t", schema="id BIGINT, v INT", primary_keys=["id"])
    path = tmp_path / "db.db" / "t"
    for i in range(12):
        table.upsert(pa.table({"id": [i % 5, 7], "v": pa.array([i, i], pa.int32())}))
        if i % 4 == 3:
            table.compact()
        if i == 9:
            table.rollback(6)
        known = live_known_entries(path)
        morrow.clear_caches()
        assert known == live_known_entries(path)


def test_a_lost_entry_is_noticed_after_what_is_known(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], primary_keys=["id"])
    table.write_file(pa.table({"id": [1]}))
    table.commit()
    assert len(live_known_entries(table.path)) == 1
    table.write_file(pa.table({"id": [2]}))
    table.commit()
    snapshot = table.path / "snapshot" / "snapshot-2"
    snapshot.write_text(snapshot.read_text().replace('"totalRecordCount": 2', '"totalRecordCount": 3'))

    with pytest.raises(Unsupported, match="2 rows where it says 3"):
        live_known_entries(table.path)
