"""Avro containers to columns, against fastavro's dicts (decision 20 in docs/decisions)."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed
from morrow.engine.format.avro import decode_frame
from morrow.engine.format.manifest import decode_manifest

SECTION = "Avro"
ROWS, FILES = 200_000, 3_000


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create `db.rows`, with one Avro data file, and `db.files`, with one manifest."""
    folder = tmp_path_factory.mktemp("avro")
    catalog = morrow.Catalog(folder)
    rows = catalog.create_table("db.rows", schema="id BIGINT, v STRING, x DOUBLE", options={"file.format": "avro"})
    numbers = np.arange(ROWS)
    rows.append({"id": numbers, "v": [f"value {i % 1000}" for i in range(ROWS)], "x": np.sqrt(numbers)})
    files = catalog.create_table("db.files", schema="id BIGINT, k INT", partition_keys="k")
    files.append({"id": numbers[:FILES], "k": numbers[:FILES].astype(np.int32)})
    return folder


def dicts(data: bytes) -> list[object]:
    return list(fastavro.reader(io.BytesIO(data)))


def test_a_data_file(benchmark: BenchmarkFixture, warehouse: Path) -> None:
    data = next(warehouse.rglob("rows/bucket-0/data-*.avro")).read_bytes()
    compare(
        benchmark,
        SECTION,
        f"data file of {ROWS:,} rows to columns",
        lambda: decode_frame(data, where="data file"),
        baseline=("fastavro to dicts", timed(lambda: dicts(data))),
        bound=Bound(3, faster=True),
        rounds=5,
    )


def test_a_manifest(benchmark: BenchmarkFixture, warehouse: Path) -> None:
    (data,) = (p.read_bytes() for p in warehouse.rglob("files/manifest/manifest-*") if "-list-" not in p.name)
    compare(
        benchmark,
        SECTION,
        f"manifest of {FILES:,} entries to checked columns",
        lambda: decode_manifest(data, "manifest"),
        baseline=("fastavro to dicts", timed(lambda: dicts(data))),
        bound=Bound(2, faster=True),
        rounds=5,
    )
