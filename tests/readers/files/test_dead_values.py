"""Values of masked rows need not survive a change of their column's type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import morrow
from morrow.engine.errors import Unsupported
from tests.support.written import new_table, rows

FORMATS = ("parquet", "orc", "avro")


def with_a_dead_row(path: Path, file_format: str, *, keyed: bool) -> morrow.Table:
    """Make a table whose only non-numeric text is in a row that a deletion vector marks as dead."""
    options = {"deletion-vectors.enabled": True, "file.format": file_format, **({"bucket": 1} if keyed else {})}
    table = new_table(path, "id INT NOT NULL, v STRING", keys=["id"] if keyed else [], options=options)
    data: dict[str, list[Any]] = {"id": [1, 2, 3], "v": ["abc", "7", "8"]}
    if keyed:
        table.upsert(data)
        table.compact(full=True)
    else:
        table.append(data)
    table.delete("id = 1")
    table.alter.set_type("v", "INT", lossy=True)
    return table


@pytest.mark.parametrize("keyed", [False, True], ids=["append table", "primary key"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_all_reads_leave_dead_values_alone(tmp_path: Path, file_format: str, keyed: bool) -> None:
    table = with_a_dead_row(tmp_path, file_format, keyed=keyed)
    expected = [(2, 7), (3, 8)]
    assert rows(table) == sorted(table.scan().lazy().collect().rows()) == expected
    assert rows(table, filter="v > 7") == expected[1:]
    assert sum(batch.num_rows for batch in table.scan().to_batches(1)) == 2
    assert sorted(table.scan().to_duckdb(duckdb.connect()).fetchall()) == expected
    assert table.scan().dataset().to_table().num_rows == table.count("v IS NOT NULL") == 2
    assert table.doctor(data=True).healthy


@pytest.mark.parametrize("keyed", [False, True], ids=["append table", "primary key"])
def test_changes_of_rows_and_compaction_leave_dead_values_alone(tmp_path: Path, keyed: bool) -> None:
    table = with_a_dead_row(tmp_path, "parquet", keyed=keyed)
    table.update({"v": "v + 1"}, "id = 2")
    table.compact(full=True)
    assert rows(table) == [(2, 8), (3, 8)]


def test_many_small_files_and_partitions(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": True}
    table = new_table(tmp_path, "p INT NOT NULL, id INT, v STRING", by=["p"], options=options)
    table.append({"p": [*range(10)] * 2, "id": [1] * 10 + [2] * 10, "v": ["abc"] * 10 + ["7"] * 10})
    table.delete("id = 1")
    table.alter.set_type("v", "BIGINT")
    assert rows(table) == [(p, 2, 7) for p in range(10)]
    assert rows(table, columns=["v"], filter="p = 3 AND v = 7") == [(7,)]


def test_live_values_are_still_refused(tmp_path: Path) -> None:
    table = with_a_dead_row(tmp_path, "parquet", keyed=False)
    table.alter.set_type("v", "STRING")
    table.append({"id": [4], "v": ["xyz"]})
    table.alter.set_type("v", "INT", lossy=True)
    with pytest.raises(Unsupported, match="the value 'xyz' of the column 'v'"):
        rows(table)


@pytest.mark.parametrize("buckets", [1, 12])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("read", ["arrow", "lazy", "filter", "compact", "doctor"])
def test_replaced_values_are_cast_by_merges_alone(tmp_path: Path, engine: str, buckets: int, read: str) -> None:
    """Java casts what it returns, and what it combines."""
    options = {"bucket": buckets, "merge-engine": engine, "write-only": "true"}
    table = new_table(tmp_path, "k INT, v STRING", keys=["k"], options=options)
    table.upsert({"k": range(24), "v": ["old"] * 12 + ["5"] * 12})
    table.upsert({"k": range(12), "v": ["7"] * 12})
    table.alter.set_type("v", "INT", lossy=True)
    morrow.clear_caches()
    reads: dict[str, Callable[[], object]] = {
        "arrow": lambda: sum(table.to_arrow()["v"].to_pylist()),
        "lazy": lambda: morrow.scan(table.path).collect()["v"].sum(),
        "filter": lambda: table.scan(filter="v >= 5").to_polars()["v"].sum(),
        "compact": lambda: table.compact(full=True) and sum(table.to_arrow()["v"].to_pylist()),
        "doctor": lambda: table.doctor(data=True).healthy and 144,
    }
    if engine == "deduplicate":
        assert reads[read]() == 12 * 5 + 12 * 7
    elif read == "doctor":
        assert not table.doctor(data=True).healthy
    else:
        with pytest.raises(Unsupported, match="the value 'old' of the column 'v'"):
            reads[read]()


PRODUCERS: dict[str, dict[str, object]] = {
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup and vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("compacted", [False, True], ids=["never compacted", "compacted"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_changelogs_cast_the_values_that_they_report(tmp_path: Path, producer: str, compacted: bool) -> None:
    """Java casts an old row where a changelog has it as -U, and rows in between nowhere."""
    options = {"bucket": 1, "write-only": "true", **PRODUCERS[producer]}
    table = new_table(tmp_path, "k INT, v STRING", keys=["k"], options=options)
    table.upsert({"k": [1, 2], "v": ["old", "5"]})
    if compacted:
        table.compact(full=True)
    table.alter.set_type("v", "INT", lossy=True)
    table.upsert({"k": [1], "v": [7]})
    if compacted and producer != "vectors":
        with pytest.raises(Unsupported, match="the value 'old' of the column 'v'"):
            table.compact(full=True)
        return
    table.compact(full=True)
    assert sorted(rows(table)) == [(1, 7), (2, 5)]
    if producer != "vectors":
        assert sorted(table.changes(1, table.snapshots()[-1].id).to_arrow()["v"].to_pylist()) == [5, 7]


def test_an_older_sequence_replaces_dead_values(tmp_path: Path) -> None:
    """A dead row counts no more, even if its sequence field is the greatest."""
    options = {"bucket": 1, "deletion-vectors.enabled": "true", "sequence.field": "n", "write-only": "true"}
    table = new_table(tmp_path, "k INT, n INT, v STRING", keys=["k"], options=options)
    table.upsert({"k": [1, 2], "n": [9, 1], "v": ["4", "5"]})
    table.compact(full=True)
    table.delete("k = 1")
    table.compact()
    table.alter.set_type("v", "INT")
    table.upsert({"k": [1], "n": [1], "v": [7]})
    table.compact(full=True)
    assert sorted(rows(table)) == [(1, 1, 7), (2, 1, 5)]
