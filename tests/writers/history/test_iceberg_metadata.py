"""Iceberg metadata beside a table's own: what Iceberg readers find after each commit and change of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.io.local import LocalStore
from tests.support.iceberg import (
    find_snapshot,
    list_unused,
    load_entries,
    load_manifests,
    load_metadata,
    read_by_pyiceberg,
    read_rows,
)
from tests.support.written import new_table

STORAGE = "metadata.iceberg.storage"
VERSION = "metadata.iceberg.format-version"
VECTORS = {VERSION: 3, "deletion-vectors.enabled": True, "deletion-vectors.bitmap64": True}
A, B, C = ({"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 3, "v": None})


def make(folder: Path, schema: str = "k INT, v STRING", **more: Any) -> morrow.Table:
    options = {STORAGE: "table-location", **more.pop("options", {})}
    return new_table(folder, schema, options=options, **more)


def keyed(folder: Path, **options: object) -> morrow.Table:
    return make(folder, "k INT NOT NULL, v STRING", keys=["k"], options={"bucket": 1, **options})


def place(table: morrow.Table) -> Path:
    return Path(table.path) / "metadata"


def summary(table: morrow.Table) -> Mapping[str, str]:
    found: Mapping[str, str] = find_snapshot(load_metadata(place(table)))["summary"]
    return found


def statuses(table: morrow.Table) -> list[tuple[int, int]]:
    """Return the status and the snapshot of each entry of the newest snapshot."""
    entries = load_entries(find_snapshot(load_metadata(place(table))))
    return sorted((each["status"], each["snapshot_id"]) for each in entries)


def check(table: morrow.Table) -> None:
    """Compare what an Iceberg reader sees with the table's rows; check that no other files are left."""
    assert read_rows(place(table)) == sorted(table.to_arrow().to_pylist(), key=str)
    assert list_unused(place(table)) == set()


# --- commits ---


def test_each_commit_has_an_iceberg_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path)

    table.append([A, B])
    table.append([C])

    assert read_rows(place(table)) == [A, B, C]
    assert read_rows(place(table), snapshot_id=1) == [A, B]
    assert statuses(table) == [(1, 1), (1, 2)]
    assert {name: summary(table)[name] for name in ("operation", "added-records", "total-records")} == {
        "operation": "append",
        "added-records": "1",
        "total-records": "3",
    }
    check(table)


def test_removed_files_are_entries_of_the_snapshot_that_removed_them(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])
    table.append([B])

    table.overwrite([C])

    assert read_rows(place(table)) == [C]
    assert statuses(table) == [(1, 3), (2, 3), (2, 3)]
    assert summary(table)["operation"] == "overwrite"
    table.append([A])
    assert read_rows(place(table)) == [A, C]
    check(table)


def test_rows_that_are_deleted_updated_and_truncated(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A, B, C])

    table.delete("k = 1")
    check(table)
    table.update({"v": "'new'"}, "k = 3")
    check(table)
    table.truncate()

    assert read_rows(place(table)) == []
    check(table)


def test_a_compaction_replaces_files(tmp_path: Path) -> None:
    table = make(tmp_path, options={"bucket": -1})
    for row in (A, B, C):
        table.append([row])

    table.compact(full=True)

    assert summary(table)["operation"] == "replace"
    assert statuses(table) == [(1, 4), (2, 4), (2, 4), (2, 4)]
    check(table)


def test_a_table_with_a_primary_key_shows_its_fully_compacted_files(tmp_path: Path) -> None:
    table = keyed(tmp_path, **{"write-only": True})

    table.upsert([A, B])
    assert read_rows(place(table)) == []
    table.with_options({"write-only": False}).compact(full=True)
    assert read_rows(place(table)) == [A, B]
    table.upsert([{"k": 1, "v": "new"}])
    assert read_rows(place(table)) == [A, B]
    table.with_options({"write-only": False}).compact(full=True)

    assert read_rows(place(table)) == [{"k": 1, "v": "new"}, B]
    check(table)


def test_deletion_vectors_of_format_version_3(tmp_path: Path) -> None:
    table = keyed(tmp_path, **VECTORS)
    table.upsert([{"k": k, "v": str(k)} for k in range(50)])
    check(table)

    table.upsert([{"k": 7, "v": "new"}])
    check(table)
    (vector,) = load_entries(find_snapshot(load_metadata(place(table))), 1)
    assert (vector["data_file"]["file_format"], vector["data_file"]["record_count"]) == ("puffin", 1)
    table.delete("k < 3")
    check(table)
    table.compact(full=True)

    assert list(load_entries(find_snapshot(load_metadata(place(table))), 1)) == []
    check(table)


def test_deletion_vectors_of_append_tables(tmp_path: Path) -> None:
    table = make(tmp_path, options=VECTORS)
    table.append([A, B, C])
    table.append([{"k": 4, "v": "d"}])

    table.delete("k = 2")

    assert len(read_rows(place(table))) == 3
    check(table)
    table.append([B])
    check(table)


def test_row_ids_of_format_version_3_stay(tmp_path: Path) -> None:
    table = make(tmp_path, "k INT, p INT", by=["p"], options={VERSION: 3, "manifest.target-file-size": "1 mb"})
    table.append([{"k": 1, "p": 1}, {"k": 2, "p": 2}])
    table.append([{"k": 3, "p": 1}])

    first = load_metadata(place(table))
    table.overwrite([{"k": 4, "p": 2}], partition={"p": 2})

    metadata = load_metadata(place(table))
    # A manifest that is written again gets ids for its existing rows, too, although these rows keep theirs.
    assert (first["next-row-id"], metadata["next-row-id"]) == (3, 5)
    assert (find_snapshot(metadata)["first-row-id"], find_snapshot(metadata)["added-rows"]) == (3, 2)
    ids: dict[int, int | None] = {}
    for manifest in load_manifests(find_snapshot(metadata)):
        assert manifest["first_row_id"] is not None
    for entry in load_entries(find_snapshot(metadata)):
        if entry["status"] == 0:
            ids[entry["data_file"]["partition"]["p"]] = entry["data_file"]["first_row_id"]
    assert ids in ({1: 0}, {1: 1})


# --- history ---


def test_expired_snapshots_and_their_manifests_go(tmp_path: Path) -> None:
    table = make(tmp_path, options={"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2})

    for number in range(5):
        table.append([{"k": number, "v": None}])

    assert [each["snapshot-id"] for each in load_metadata(place(table))["snapshots"]] == [4, 5]
    check(table)


def test_many_small_manifests_are_merged(tmp_path: Path) -> None:
    limits = {f"metadata.iceberg.compaction.{end}.file-num": count for end, count in (("min", 2), ("max", 3))}
    table = make(tmp_path, options=limits)

    counts = []
    for number in range(6):
        table.append([{"k": number, "v": None}])
        counts.append(len(load_manifests(find_snapshot(load_metadata(place(table))))))

    assert counts == [1, 2, 1, 2, 1, 2]
    table.delete("k = 0")
    check(table)


def test_tags_are_references(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])
    table.tags.create("one")

    assert load_metadata(place(table))["refs"] == {
        "one": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 2**63 - 1}
    }
    table.append([B])
    table.tags.create("two")
    table.tags.rename("one", "first")
    assert {name: ref["snapshot-id"] for name, ref in load_metadata(place(table))["refs"].items()} == {
        "first": 1,
        "two": 2,
    }
    table.tags.delete("first")
    assert list(load_metadata(place(table))["refs"]) == ["two"]


def test_a_rollback_is_published_and_ids_are_used_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    for row in (A, B, C):
        table.append([row])
    before = load_metadata(place(table))

    table.rollback(1)

    assert read_rows(place(table)) == [A]
    check(table)
    table.append([C])
    assert read_rows(place(table)) == [A, C]
    assert load_metadata(place(table))["table-uuid"] == before["table-uuid"]
    check(table)


def test_schemas_keep_their_ids(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])

    table.alter.rename_column("v", "w").add_column("n", "BIGINT").set_type("k", "BIGINT")
    table.append([{"k": 5, "w": "x", "n": 9}])
    table.alter.drop_column("w")
    table.append([{"k": 6, "n": None}])

    metadata = load_metadata(place(table))
    assert [each["schema-id"] for each in metadata["schemas"]] == list(range(len(metadata["schemas"])))
    assert [each["schema-id"] for each in metadata["snapshots"]] == [0, 3, 4]
    assert (metadata["current-schema-id"], metadata["last-column-id"]) == (4, 2)
    assert read_rows(place(table)) == [{"k": 1, "n": None}, {"k": 5, "n": 9}, {"k": 6, "n": None}]
    check(table)


def test_a_type_that_iceberg_does_not_widen_to_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])

    with pytest.raises(InvalidArgument, match="column 'k' cannot change from INT to STRING beside Iceberg metadata"):
        table.alter.set_type("k", "STRING")


def test_a_branch_is_published_when_main_takes_it_over(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])
    table.tags.create("one")
    table.branches.create("b", tag="one")

    table.on_branch("b").append([B])
    assert read_rows(place(table)) == [A]
    table.branches.fast_forward("b")

    assert read_rows(place(table)) == [A, B]


# --- crashes and races ---


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes writes of files with these ends fail."""

    def interrupt(*ends: str) -> None:
        for name in ("write", "create"):
            whole = getattr(LocalStore, name)

            def fail(self: LocalStore, path: str, data: bytes, whole: Any = whole) -> Any:
                if "/metadata/" in path and path.endswith(ends):
                    raise StorageError(f"{path}: no room")
                return whole(self, path, data)

            monkeypatch.setattr(LocalStore, name, fail)

    return interrupt


@pytest.mark.parametrize("ends", [".avro", ".json", ".text"])
def test_the_next_commit_repairs_what_a_crash_left_out(
    tmp_path: Path, interrupted: Any, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.append([A])
    with monkeypatch.context():
        interrupted(ends)
        table.append([B])
        monkeypatch.undo()

    table.append([C])

    assert read_rows(place(table)) == [A, B, C]
    assert [each["snapshot-id"] for each in load_metadata(place(table))["snapshots"]] == [1, 2, 3]
    check(table)


@pytest.mark.parametrize("damage", ["v*.metadata.json", "snap-*.avro", "*-m1.avro", "version-hint.text"])
@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_metadata_that_is_lost_or_damaged_is_made_again(tmp_path: Path, damage: str, how: Any) -> None:
    table = make(tmp_path)
    table.append([A])
    table.append([B])
    for path in place(table).glob(damage):
        how(path)
    morrow.clear_caches()

    table.delete("k = 1")
    table.append([C])

    assert read_rows(place(table)) == [B, C]


def test_commits_that_race_publish_all_snapshots(tmp_path: Path) -> None:
    table = make(tmp_path, options={"bucket": -1})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: morrow.open(table.path).append([{"k": number, "v": None}]), range(12)))

    assert len(read_rows(place(table))) == 12
    # A slow commit may publish a version that a faster one has removed already. The next commit removes it.
    table.append([A])
    check(table)


# --- places, versions and refusals ---


def test_the_warehouse_of_a_hadoop_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "iceberg/db/t/metadata"
    table = new_table(tmp_path, "k INT, v STRING", options={STORAGE: "hadoop-catalog"})
    table.append([A])
    assert read_rows(folder) == [A]

    old = load_metadata(folder)["table-uuid"]
    morrow.Catalog(tmp_path).drop_table("db.t")
    table = new_table(tmp_path, "k INT, v STRING", options={STORAGE: "hadoop-catalog"})
    table.append([B])

    assert read_rows(folder) == [B]
    assert load_metadata(folder)["table-uuid"] != old
    assert list_unused(folder) == set()


def test_old_versions_stay_if_asked(tmp_path: Path) -> None:
    kept = make(tmp_path, options={"metadata.iceberg.previous-versions-max": 2})
    every = make(tmp_path, name="every", options={"metadata.iceberg.delete-after-commit.enabled": False})

    for table in (kept, every):
        for row in (A, B, C, A):
            table.append([row])

    assert sorted(path.name for path in place(kept).glob("v*.json")) == [f"v{i}.metadata.json" for i in (2, 3, 4)]
    assert len(list(place(every).glob("v*.json"))) == 4
    assert read_rows(place(every), version=2) == [A, B]


def test_manifests_of_iceberg_1_4(tmp_path: Path) -> None:
    former = {"metadata.iceberg.manifest-legacy-version": True, "metadata.iceberg.manifest-compression": "zstd"}
    table = make(tmp_path, options=former)
    table.append([A])
    table.append([B])

    (first, _) = load_manifests(find_snapshot(load_metadata(place(table))))
    assert first["added_data_files_count"] == 1
    table.delete("k = 1")
    check(table)


def test_a_new_format_version_begins_anew(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([A])
    table.append([B])

    table.alter.set_options({VERSION: 3})
    table.append([C])

    metadata = load_metadata(place(table))
    assert (metadata["format-version"], metadata["next-row-id"], len(metadata["snapshots"])) == (3, 3, 1)
    check(table)


def test_a_table_gets_iceberg_metadata_later(tmp_path: Path) -> None:
    table = new_table(tmp_path, "k INT, v STRING")
    for _ in range(15):
        table.append([A])

    table.alter.set_options({STORAGE: "table-location"})
    table.append([B])

    assert len(read_rows(place(table))) == 16
    check(table)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({STORAGE: "hive-catalog"}, "hive-catalog"),
        ({STORAGE: "rest-catalog"}, "rest-catalog"),
        ({VERSION: 4}, "set 2 or 3"),
        ({"file.format": "orc"}, "does not go with orc; write parquet"),
        ({"deletion-vectors.enabled": True}, "needs 'metadata.iceberg.format-version' = 3"),
    ],
)
def test_options_that_iceberg_readers_could_not_follow(
    tmp_path: Path, options: Mapping[str, object], problem: str
) -> None:
    with pytest.raises((InvalidArgument, Unsupported), match=problem):
        make(tmp_path, options=options)


@pytest.mark.parametrize("kind", ["VARIANT", "TIMESTAMP(0)", "TIMESTAMP(9)", "TIME(6)", "ARRAY<VARIANT>"])
def test_types_that_iceberg_lacks(tmp_path: Path, kind: str) -> None:
    with pytest.raises(Unsupported, match="beside Iceberg metadata"):
        make(tmp_path, f"k INT, v {kind}")


@pytest.mark.parametrize("kind", ["DECIMAL(10, 2)", "TIME(3)", "TIMESTAMP(3)"])
def test_partition_keys_that_java_stores_otherwise_than_iceberg(tmp_path: Path, kind: str) -> None:
    with pytest.raises(Unsupported, match="the partition key 'p' of type"):
        make(tmp_path, f"k INT, p {kind}", by=["p"])


def test_a_table_of_java_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path, "k INT, v STRING", options={"file.format": "orc"})
    file = Path(table.path) / "schema/schema-0"
    schema = json.loads(file.read_text())
    file.write_text(json.dumps({**schema, "options": {**schema["options"], STORAGE: "table-location"}}))
    morrow.clear_caches()

    with pytest.raises(InvalidArgument, match="write parquet"):
        morrow.open(table.path).append([A])


def test_pyiceberg_reads_the_same_rows(tmp_path: Path) -> None:
    append = make(tmp_path, "k INT, v STRING, p STRING", by=["p"], name="a")
    append.append([{"k": k, "v": str(k), "p": "xyz"[k % 3]} for k in range(9)])
    append.delete("k = 4")
    append.alter.rename_column("v", "w").set_type("k", "BIGINT")
    append.append([{"k": 2**40, "w": None, "p": None}])
    full = keyed(tmp_path)
    full.upsert([A, B, C])
    full.compact(full=True)

    found = read_by_pyiceberg([place(append), place(full)])

    assert found[0] == sorted(append.to_arrow().to_pylist(), key=str)
    assert found[1] == [A, B, C]
