"""Manifests that an earlier process decoded are taken from the cache folder, without requests or decoding."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.io import cache_folder
from morrow.engine.io.cache_folder import CacheFolder
from morrow.engine.plan import manifests
from morrow.engine.plan.manifests import list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import TableFactory


def manifests_read(table: TableFactory) -> int:
    """Count the manifests and lists that a new process reads."""
    cache_folder.wait_for_writes()
    morrow.clear_caches()
    store = RecordingStore()
    metadata = TableMetadata(store, str(table.path))
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    assert len(read_manifest_entries(metadata, list_manifests(metadata, snapshot))) == 2
    return sum("manifest" in name for name in store.reads)


def test_manifests_are_decoded_once_and_damage_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.SWITCH, "on")
    monkeypatch.setenv(cache_folder.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setattr(manifests, "MIN_STORED_BYTES", 0)
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"])
    for number in range(2):
        table.write_file(pa.table({"id": [number]}))
        table.commit()
    first = manifests_read(table)
    assert first == 4
    assert manifests_read(table) == 0
    folder = CacheFolder(tmp_path / "cache", 1 << 30)
    for place in list((tmp_path / "cache").glob("*/*.entry")):
        folder.put(bytes.fromhex(place.parent.name + place.name.removesuffix(".entry")), b"ARROW1 not")
    assert manifests_read(table) == first
    assert morrow.open(table.path).scan().count() == 2
