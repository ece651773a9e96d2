"""Masks are computed once for a set of files and cached up to a number of bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.readers.execution import execute
from morrow.readers.masks import section_cache
from morrow.readers.masks.live_rows import mask_bytes
from morrow.readers.masks.section_cache import SECTIONS
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import TableFactory


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    SECTIONS.clear()


@pytest.fixture
def merged(tmp_path: Path) -> TableFactory:
    """Make two ORC files, which are read through the store, with overlapping keys."""
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"])
    table.write_file(pa.table({"id": [1, 2, 3], "v": ["a"] * 3}), format="orc")
    table.write_file(pa.table({"id": [2], "v": ["b"]}), format="orc")
    table.commit()
    return table


def reads(table: TableFactory) -> list[str]:
    """Return the names of the data files that a count opens; only keys have to be read."""
    store = RecordingStore()
    assert execute.count(morrow.open(table.path).scan().plan, store) == 3
    return sorted(store.reads)


def test_the_second_read_computes_nothing(merged: TableFactory) -> None:
    first, second = reads(merged), reads(merged)
    assert len(first) == 2
    assert second == []


def test_clear_caches_starts_cold(merged: TableFactory) -> None:
    first = reads(merged)
    assert SECTIONS.held > 0
    morrow.clear_caches()
    assert SECTIONS.held == 0
    assert reads(merged) == first


def test_another_file_makes_another_set_of_files(merged: TableFactory) -> None:
    reads(merged)
    merged.write_file(pa.table({"id": [3], "v": ["c"]}), format="orc")
    merged.commit()
    assert len(reads(merged)) == 3


def test_deletion_vectors_are_decoded_once(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("x", "INT")], options={"deletion-vectors.enabled": "true"})
    table.deletion_vector(table.write_file(pa.table({"x": range(4)})), [0])
    table.commit()
    plan, store = morrow.open(table.path).scan().plan, RecordingStore()
    assert execute.to_arrow(plan, store).num_rows == 3
    assert execute.to_arrow(plan, store).num_rows == 3
    assert sum(name.startswith("index-") for name in store.reads) == 1


def test_a_mask_costs_a_bit_for_each_row() -> None:
    assert mask_bytes((pl.Series([True] * 8_000), None)) == 1_000 + 3 * section_cache.FILE_BYTES


def test_old_masks_make_room(merged: TableFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    reads(merged)
    monkeypatch.setattr(SECTIONS, "capacity", 2 * SECTIONS.held)
    monkeypatch.setattr(section_cache, "MIN_ROWS_PER_CHANGE", sys.maxsize)  # never derive masks from cached ones
    merged.write_file(pa.table({"id": [3], "v": ["c"]}), format="orc")
    merged.commit()
    reads(merged)
    assert 0 <= SECTIONS.held <= SECTIONS.capacity
    assert execute.count(morrow.open(merged.path).scan(snapshot=1).plan, store := RecordingStore()) == 3
    assert len(store.reads) == 2
