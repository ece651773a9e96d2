"""Masks, merged rows and keys in the cache folder are found by later processes, and never for another table."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.io import cache_folder
from morrow.readers.execution.strategy import scan_masks
from morrow.readers.masks import section_cache as masks_folder
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import TableFactory

COLUMNS = [("id", "INT"), ("name", "STRING"), ("n", "INT")]
ENGINES = ["deduplicate", "partial-update"]


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the test's cache folder, which accepts small sections, too."""
    monkeypatch.setenv(cache_folder.SWITCH, "on")
    monkeypatch.setenv(cache_folder.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setattr(masks_folder, "MIN_CACHED_ROWS", 0)
    morrow.clear_caches()
    return tmp_path / "cache"


def as_new() -> None:
    """Drop in-memory caches, as in a new process."""
    cache_folder.wait_for_writes()
    morrow.clear_caches()


def rows(ids: range, n: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{n} {i}" for i in ids], "n": [n] * len(ids)})


def written(path: Path, engine: str, n: int = 1) -> TableFactory:
    table = TableFactory(path, COLUMNS, primary_keys=["id"], options={"merge-engine": engine})
    table.write_file(rows(range(20), 0), level=5, format="orc")
    table.write_file(rows(range(5, 10), n), format="orc")
    table.commit()
    return table


def expected(n: int = 1) -> list[tuple[int, str, int]]:
    return [(i, f"{n if 5 <= i < 10 else 0} {i}", n if 5 <= i < 10 else 0) for i in range(20)]


def read(table: TableFactory) -> list[tuple[int, str, int]]:
    return sorted(morrow.open(table.path).scan().to_polars().rows())


def keys_read(table: TableFactory) -> int:
    """Count the files that are opened for masks."""
    store, plan = RecordingStore(), morrow.open(table.path).scan().plan
    scan_masks(plan, plan.sections[0], store)
    return len(store.reads)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_later_process_reads_no_keys_and_merges_nothing(engine: str, tmp_path: Path) -> None:
    table = written(tmp_path / "t", engine)
    assert read(table) == expected()
    as_new()
    assert (keys_read(table), read(table)) == (0, expected())
    table.write_file(rows(range(7, 9), 2), format="orc")
    table.commit()
    as_new()
    after = [row if row[0] not in (7, 8) else (row[0], f"2 {row[0]}", 2) for row in expected()]
    assert read(table) == after
    assert cache_folder.find_cache_folder().contents().hits > 0  # type: ignore[union-attr]  # there is one
    as_new()
    assert (keys_read(table), read(table)) == (0, after)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_folder_is_not_asked_for_what_follows_from_memory(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    find = cache_folder.CacheFolder.get
    monkeypatch.setattr(cache_folder.CacheFolder, "get", lambda folder, key: [asked.append(key), find(folder, key)][1])
    table = written(tmp_path / "t", engine)
    read(table)
    as_new()
    assert read(table) == expected() and asked
    table.write_file(rows(range(7, 8), 2), format="orc")
    table.commit()
    read(table)  # looks up the keys of each file once
    table.write_file(rows(range(8, 9), 2), format="orc")
    table.commit()
    cache_folder.wait_for_writes()
    asked.clear()
    after = [row if row[0] not in (7, 8) else (row[0], f"2 {row[0]}", 2) for row in expected()]
    assert read(table) == after
    assert len(asked) == 1  # for the keys of the new file


@pytest.mark.parametrize("engine", ENGINES)
def test_damage_costs_the_work_and_nothing_else(engine: str, tmp_path: Path, kept: Path) -> None:
    table = written(tmp_path / "t", engine)

    def with_entries(change: Callable[[bytes], bytes]) -> None:
        read(table)
        as_new()
        entries = list(kept.glob("*/*.entry"))
        assert len(entries) >= 2
        for place in entries:
            place.write_bytes(change(place.read_bytes()))
        assert read(table) == expected()
        as_new()

    with_entries(lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    with_entries(lambda data: data[: len(data) // 2])
    with_entries(lambda _: b"")
    # intact, but of another version:
    folder = cache_folder.CacheFolder(kept, 1 << 30)
    for foreign in (b"\xc0", b"\x91\xc4\x01a", b"ARROW1 or not"):
        read(table)
        as_new()
        for place in list(kept.glob("*/*.entry")):
            folder.put(bytes.fromhex(place.parent.name + place.name.removesuffix(".entry")), foreign)
        assert read(table) == expected()
        as_new()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_made_again_at_the_same_path_is_another(engine: str, tmp_path: Path) -> None:
    """The factory gives the new files the same names and sizes."""
    assert read(written(tmp_path / "t", engine)) == expected()
    shutil.rmtree(tmp_path / "t")
    as_new()
    assert read(written(tmp_path / "t", engine, n=2)) == expected(2)


def test_checked_reads_take_nothing_and_leave_nothing(tmp_path: Path, kept: Path) -> None:
    table = written(tmp_path / "t", "deduplicate")
    assert morrow.open(table.path, verify="pages").count() == 20
    cache_folder.wait_for_writes()
    assert not list(kept.glob("*/*.entry"))
    read(table)
    as_new()
    folder = cache_folder.CacheFolder(kept, 1 << 30)
    before = folder.contents()
    assert morrow.open(table.path, verify="pages").count() == 20
    assert folder.contents() == before


def test_nothing_of_the_table_is_in_names(tmp_path: Path, kept: Path) -> None:
    read(written(tmp_path / "secret", "deduplicate"))
    cache_folder.wait_for_writes()
    names = [str(place.relative_to(kept)) for place in kept.rglob("*")]
    assert names
    assert not [name for name in names if "secret" in name or "data-" in name]


READER = """
import sys, morrow
from morrow.readers.masks import section_cache
section_cache.MIN_CACHED_ROWS = 0
print(sorted(morrow.open(sys.argv[1]).scan().to_polars().rows()))
"""


def test_processes_read_at_once_and_write_before_they_end(tmp_path: Path, kept: Path) -> None:
    table = written(tmp_path / "t", "partial-update")
    command = [sys.executable, "-c", READER, str(table.path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == [str(expected())] * 2
    assert list(kept.glob("*/*.entry"))
    assert not list(kept.glob("*/*.new"))
    assert (keys_read(table), read(table)) == (0, expected())


def test_another_schema_between_commits_is_read_anew(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema={"id": "INT NOT NULL", "v": "INT"}, primary_keys=["id"], options={"bucket": "1"}
    )
    table.upsert(pa.table({"id": pa.array([1, 2, 3], "int32"), "v": pa.array([1, 1, 1], "int32")}))
    table.upsert(pa.table({"id": pa.array([2], "int32"), "v": pa.array([2], "int32")}))
    assert sorted(table.scan().to_polars().rows()) == [(1, 1), (2, 2), (3, 1)]
    more = pa.table({"id": pa.array([3], "int32"), "v": pa.array([5], "int32"), "w": ["x"]})
    table.upsert(more, schema_mode="merge")
    as_new()
    assert sorted(table.scan().to_polars().rows()) == [(1, 1, None), (2, 2, None), (3, 5, "x")]
    table.delete("id = 1")
    assert sorted(table.scan().to_polars().rows()) == [(2, 2, None), (3, 5, "x")]
    table.rollback(snapshot=2)
    assert sorted(table.scan(["id", "v"]).to_polars().rows()) == [(1, 1), (2, 2), (3, 1)]
    table.compact(full=True)
    assert sorted(table.scan(["id", "v"]).to_polars().rows()) == [(1, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize("folder", [True, False])
def test_a_restored_table_that_is_altered_otherwise_is_another(folder: bool, tmp_path: Path) -> None:
    """The table has the same files and the same newest schema id, but other columns."""
    options = {"bucket": "1", "write-only": "true", "sequence.field": "s"}
    schema = {"id": "INT NOT NULL", "s": "INT", "v": "INT"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"], options=options)
    for s in (10, 9):
        table.upsert(pa.table({"id": pa.array([1], "int32"), "s": pa.array([s], "int32"), "v": pa.array([s], "int32")}))
    shutil.copytree(table.path, tmp_path / "backup")
    table.alter.set_type("v", "BIGINT")
    assert table.scan().to_polars().rows() == [(1, 10, 10)]
    shutil.rmtree(table.path)
    shutil.copytree(tmp_path / "backup", table.path)
    table.alter.set_type("s", "STRING")
    if folder:
        as_new()
    assert table.scan().to_polars().rows() == [(1, "9", 9)]
