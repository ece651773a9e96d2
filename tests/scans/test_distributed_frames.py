"""Scans as datasets of Ray, Dask and Daft, and writes from Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import MorrowError


@pytest.fixture(params=["append", "merged when read"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    keyed = request.param != "append"
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema="id INT NOT NULL, word STRING, at TIMESTAMP(6)",
        primary_keys=["id"] if keyed else [],
        options={"bucket": 2, "write-only": True} if keyed else {},
    )
    for start in (0, 5) if keyed else (0, 10):
        ids = [*range(start, start + 10)]
        table.append({"id": ids, "word": [str(i) for i in ids], "at": [None] * 10})
    return table


def rows(found: Any) -> list[tuple[int, str]]:
    return sorted((row["id"], row["word"]) for row in found)


def expected(table: morrow.Table, filter: str | None = None) -> list[tuple[int, str]]:
    return rows(table.to_arrow(filter=filter).to_pylist())


def test_dask_reads_splits(table: morrow.Table) -> None:
    pytest.importorskip("dask.dataframe", reason="run: pip install 'morrow[dask]'")
    frame = table.scan(filter="id > 3").to_dask(3)
    assert frame.npartitions > 1
    assert rows(frame.compute(scheduler="threads").to_dict("records")) == expected(table, "id > 3")
    assert list(frame.columns) == ["id", "word", "at"]
    assert frame["id"].sum().compute(scheduler="threads") == sum(i for i, _ in expected(table, "id > 3"))
    assert len(table.scan(filter="id > 99").to_dask().compute(scheduler="threads")) == 0


def test_daft_reads_splits(table: morrow.Table) -> None:
    daft = pytest.importorskip("daft", reason="run: pip install 'morrow[daft]'")
    frame = table.scan().to_daft(3)
    assert rows(frame.to_pylist()) == expected(table)
    assert rows(frame.where(daft.col("id") > 5).select("word", "id").limit(99).to_pylist()) == expected(table, "id > 5")
    assert table.scan(filter="id > 99").to_daft().to_pylist() == []


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="run: pip install 'morrow[ray]'")
    pytest.importorskip("ray.data", reason="run: pip install 'morrow[ray]'")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_ray_reads_splits_and_writes(ray: Any, table: morrow.Table, tmp_path: Path) -> None:
    dataset = table.scan().to_ray(3)
    assert rows(dataset.take_all()) == expected(table)
    assert dataset.count() == table.count()
    assert table.scan(filter="id > 99").to_ray().count() == 0

    copy = morrow.Catalog(tmp_path).create_table("db.copy", schema=table.schema, primary_keys=table.primary_keys)
    snapshot = copy.write_ray(dataset)
    assert snapshot is not None
    assert expected(copy) == expected(table)
    assert copy.count() == len(expected(table))
    added: Callable[[Any], Any] = lambda batch: batch.slice(0, 1)  # noqa: E731  # Ray pickles it
    copy.write_ray(dataset.map_batches(added, batch_format="pyarrow", batch_size=None), overwrite=True)
    assert 0 < copy.count() < len(expected(table))
    before = copy.count()
    with pytest.raises((MorrowError, ray.exceptions.RayError)):
        copy.write_ray(ray.data.from_items([{"other": 1}]))
    assert copy.count() == before
