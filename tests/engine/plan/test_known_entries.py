"""Live entries after commits: what earlier manifests leave alive is not resolved again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.plan import entries
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import TableMetadata
from tests.support.table_factory import TableFactory


def live(path: Path) -> list[str]:
    """Returns the names of the live files, without clearing caches."""
    metadata = TableMetadata(LocalStore(), str(path))
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    return (
        live_entries(metadata, snapshot, metadata.latest_schema(), columns=["_FILE_NAME"]).frame["_FILE_NAME"].to_list()
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of manifests whose entries are put together, each time."""
    found: list[int] = []
    whole = entries.manifest_entries

    def counted(metadata: TableMetadata, kept: pl.DataFrame, *, outlines: bool = False) -> list[pl.DataFrame]:
        found.append(kept.height)
        return whole(metadata, kept, outlines=outlines)

    monkeypatch.setattr(entries, "manifest_entries", counted)
    return found


def test_a_commit_adds_its_own_manifest_to_what_is_known(tmp_path: Path, read: list[int]) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], primary_keys=["id"])
    files = []
    for i in range(4):
        files.append(table.write_file(pa.table({"id": [i]})))
        table.commit()
        assert live(table.path) == [file.name for file in files]

    assert live(table.path) == [file.name for file in files]
    assert read == [1, 1, 1, 1]


@pytest.mark.parametrize("few", [0, 256])
def test_files_come_and_go_as_if_all_manifests_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(entries, "FEW", few)
    table = morrow.Catalog(str(tmp_path)).create_table("db.t", schema="id BIGINT, v INT", primary_keys=["id"])
    path = tmp_path / "db.db" / "t"
    for i in range(12):
        table.upsert(pa.table({"id": [i % 5, 7], "v": pa.array([i, i], pa.int32())}))
        if i % 4 == 3:
            table.compact()
        if i == 9:
            table.rollback(6)
        known = live(path)
        morrow.clear_caches()
        assert known == live(path)


def test_a_lost_entry_is_noticed_after_what_is_known(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], primary_keys=["id"])
    table.write_file(pa.table({"id": [1]}))
    table.commit()
    assert len(live(table.path)) == 1
    table.write_file(pa.table({"id": [2]}))
    table.commit()
    snapshot = table.path / "snapshot" / "snapshot-2"
    snapshot.write_text(snapshot.read_text().replace('"totalRecordCount": 2', '"totalRecordCount": 3'))

    with pytest.raises(Unsupported, match="2 rows where it says 3"):
        live(table.path)
