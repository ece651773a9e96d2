"""Counts and bounds from metadata equal the rows' own, and inexact ones are not used."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.plan import entries
from morrow.readers.execution.statistics import Summary, Summing, summarize

COLUMNS = "`p p` STRING, g BOOLEAN, v BIGINT, d DATE, x DECIMAL(20, 3), s STRING, f DOUBLE, a ARRAY<INT>"
ROWS = pa.table(
    {
        "p p": ["a", "a", None, "b"],
        "g": [True, None, False, True],
        "v": pa.array([1, None, 3, -5], pa.int64()),
        "d": [None, None, None, dt.date(2020, 1, 1)],
        "x": pa.array([Decimal("1.5"), None, None, Decimal(-2)], pa.decimal128(20, 3)),
        "s": ["x", None, "y", "z" * 30],
        "f": [1.0, float("nan"), None, -0.0],
        "a": [[1], None, [], [2]],
    }
)
KEYED = pa.table({"id": [1, 2, 3], "v": [10, 20, 30]})


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    return morrow.Catalog(tmp_path).create_table("db.t", schema=COLUMNS, partition_keys=["p p"])


def keyed(warehouse: Path, name: str, **options: str) -> morrow.Table:
    options = {"bucket": "1", **options}
    return morrow.Catalog(warehouse).create_table(name, schema="id INT, v INT", primary_keys=["id"], options=options)


def told(
    table: morrow.Table, *asked: str, by: tuple[str, ...] = (), filter: str | None = None, **at: Any
) -> list[tuple[Any, ...]] | None:
    """Compute ``count``, ``count v``, ``min v`` or ``max v`` from metadata; return None if that is impossible."""
    scan = table.scan(filter=filter, **at)
    parts = (each.split(" ", 1) for each in asked)
    summaries = [Summary(Summing(function), *column) for function, *column in parts]
    found = summarize(table._metadata, scan.request, summaries, by)
    return None if found is None else sorted(found.rows(), key=str)


def test_metadata_tells_counts_and_bounds(table: morrow.Table) -> None:
    assert told(table, "count", "count v", "min v", "max p p") == [(0, 0, None, None)]
    assert told(table, "count", by=("p p",)) == []
    table.append(ROWS)
    table.append(ROWS)
    assert told(table, "count", "count v", "min v", "max v", "max d", "min x", "max x") == [
        (8, 6, -5, 3, dt.date(2020, 1, 1), Decimal(-2), Decimal("1.5"))
    ]
    assert told(table, "count s", "count f", "min g", "max g", "count p p", "min p p", "max p p") == [
        (6, 6, False, True, 6, "a", "b")
    ]
    assert told(table, "count", "max d", by=("p p",)) == [
        ("a", 4, None),
        ("b", 2, dt.date(2020, 1, 1)),
        (None, 2, None),
    ]


def test_bounds_of_very_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of very many files cache no statistics while they decode manifests."""
    monkeypatch.setattr(entries, "MAX_CACHED_ENTRIES", 0)
    table = keyed(tmp_path, "db.many")
    table.append(KEYED)
    morrow.clear_caches()

    assert told(table, "count", "min v", "max v") == [(3, 10, 30)]
    assert table.count() == 3


CONDITIONS = (
    """ "p p" = 'a' """,
    """ "p p" IS NULL """,
    """ "p p" <> 'a' """,
    """ "p p" LIKE 'b%' AND "p p" > 'a' """,
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_of_whole_partitions_too(table: morrow.Table, condition: str) -> None:
    table.append(ROWS)
    assert told(table, "count", filter=condition) == [(table.scan(filter=condition).to_arrow().num_rows,)]
    assert table.scan(filter=condition).count() == table.scan(filter=condition).to_arrow().num_rows


def test_what_is_not_exact_is_not_told(table: morrow.Table) -> None:
    table.append(ROWS)
    for asked in ("min s", "max s", "max f", "min f", "count a", "min a"):
        assert told(table, asked) is None, asked  # cut to 16 characters; NaN; nested
    assert told(table, "count", filter="v > 0") is None
    assert told(table, "count", filter='length("p p") = 1') is None
    assert told(table, "count", by=("v",)) is None


def test_statistics_that_were_not_collected_tell_nothing(tmp_path: Path) -> None:
    options = {"metadata.stats-mode": "counts", "fields.w.stats-mode": "none"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="v INT, w INT", options=options)
    table.append(pa.table({"v": [1, None], "w": [1, 2]}))
    assert told(table, "count", "count v") == [(2, 1)]
    assert told(table, "max v") is told(table, "count w") is told(table, "max w") is None


def test_columns_that_have_changed_are_not_told(table: morrow.Table) -> None:
    table.append(ROWS)
    table.alter.add_column("n", "INT")
    table.alter.rename_column("d", "day")
    assert told(table, "max day") == [(dt.date(2020, 1, 1),)]
    assert told(table, "max n") is told(table, "count n") is None


def test_rows_that_vectors_leave_out_count_but_have_no_bounds(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, v INT", options=options)
    table.append(pa.table({"id": [1, 2], "v": [10, 20]}))
    before = table.snapshots()[-1].id
    table.delete("id = 2")
    assert told(table, "count") == [(1,)]
    assert told(table, "max v") is told(table, "count v") is None
    assert told(table, "count", "max v", snapshot=before) == [(2, 20)]


def test_of_keys_only_where_each_is_in_one_file(tmp_path: Path) -> None:
    table = keyed(tmp_path, "db.t")
    table.upsert(KEYED)
    assert told(table, "count", "max v") == [(3, 30)]
    table.upsert(pa.table({"id": [7], "v": [5]}))
    assert told(table, "count", "min v") == [(4, 5)]
    table.upsert(pa.table({"id": [3], "v": [0]}))
    assert told(table, "count") is told(table, "max v") is None
    table.compact(full=True)
    assert told(table, "count", "max v") == [(4, 20)]
    table.delete("id = 7")
    assert told(table, "count") is None
