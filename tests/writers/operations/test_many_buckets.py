"""Files of many buckets are written in parallel; if one fails, none of them remains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import morrow
from morrow.engine.errors import StorageError
from morrow.writers.append.writer import AppendWriter
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.keyed.writer import MergeTreeWriter
from morrow.writers.operations import table_writer
from tests.support.profile import every
from tests.support.written import data_files, new_table, rows


@pytest.mark.parametrize(("writer", "keys"), [(AppendWriter, []), (MergeTreeWriter, ["id", "p"])])
def test_what_others_finished_goes_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: type[AppendWriter | MergeTreeWriter], keys: list[str]
) -> None:
    options = {"bucket": "1"} if keys else {}
    table = new_table(tmp_path, "id INT, p INT", keys=keys, by=["p"], options=options)
    table.append({"id": [1], "p": [0]})
    before = data_files(Path(table.path))
    finish = writer.prepare_commit
    calls: list[CommitMessage] = []

    def failing(self: Any, *, wait_compaction: bool = True) -> CommitMessage:
        calls.append(finish(self, wait_compaction=wait_compaction))
        if len(calls) == 20:
            raise StorageError("the disk is gone")
        return calls[-1]

    monkeypatch.setattr(writer, "prepare_commit", failing)
    with pytest.raises(StorageError, match="the disk is gone"):
        table.append({"id": list(range(40)), "p": list(range(40))})
    left = data_files(Path(table.path)) - before
    assert left <= {path for path in left if calls[19].new_files[0].file_name in path.name}
    assert rows(table) == [(1, 0)]


ZERO, NAN = 0.0, float("nan")
PARTITIONS = [ZERO, -ZERO, NAN, -NAN, None, *(i / 3 for i in range(40))]
NAMES = ["*", "^p$", "group", "0"]


def facts(table: morrow.Table) -> list[tuple[object, ...]]:
    """List the metadata of the files, except for names and times."""
    unlike = {"file_path", "creation_time"}
    files = table.system("files").to_polars()
    return sorted(files.select(pl.exclude(unlike)).rows(), key=repr)


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "group"}, {"file.format": "avro"}])
def test_files_made_together_are_those_made_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """The partitions include equal and unequal floats and null, and column names are regular expressions."""
    names = ["a", "p", "group", "b"] if "file.format" in options else NAMES
    count = 12 * len(PARTITIONS)
    data = pl.DataFrame(
        {
            names[0]: [f"text of {i}" if i % 5 else None for i in range(count)],
            names[1]: pl.Series([PARTITIONS[i % len(PARTITIONS)] for i in range(count)], dtype=pl.Float64),
            names[2]: [i * 7919 % 1000 for i in range(count)],
            names[3]: [(ZERO, -ZERO, NAN, None, 1.5)[i % 5] for i in range(count)],
        }
    )
    schema = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, ["STRING", "DOUBLE", "BIGINT", "DOUBLE"]))
    catalog = morrow.Catalog(tmp_path)
    tables = {}
    for many in (8, 10**9):
        monkeypatch.setattr(table_writer, "MIN_PARALLEL_BUCKETS", many)
        tables[many] = catalog.create_table(f"db.t{many}", schema=schema, partition_keys=[names[1]], options=options)
        for half in (data[: count // 2], data[count // 2 :]):
            tables[many].append(half)
    together, one_by_one = tables.values()
    assert facts(together) == facts(one_by_one)
    found, expected = (table.scan().to_polars() for table in (together, one_by_one))
    assert_frame_equal(found, expected, check_row_order=False, check_exact=True)
    assert found.height == count


KEYED: list[dict[str, str]] = [
    {"bucket": "2"},
    {"bucket": "1", "deletion-vectors.enabled": "true"},
    {"bucket": "1", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "2"},
    {"bucket": "1", "changelog-producer": "input", "file.format": "orc"},
    {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {"bucket": "1", "merge-engine": "first-row"},
]


@pytest.mark.parametrize("options", every(2, KEYED), ids=str)
def test_buckets_with_keys_finished_together_are_those_finished_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    found = []
    for many in (8, 10**9):
        monkeypatch.setattr(table_writer, "MIN_PARALLEL_BUCKETS", many)
        table = new_table(
            tmp_path, "id INT, p INT, v INT", keys=["id", "p"], by=["p"], options=options, name=f"t{many}"
        )
        for round in range(3):
            ids = list(range(round * 5, 60 + round * 5))
            ids += ids[::3]  # several versions in one commit
            table.upsert({"id": ids, "p": [id % 9 for id in ids], "v": [id * 10 + round for id in ids]})
        table.compact(full=True)
        kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
        found.append(
            (
                rows(table),
                facts(table),
                kinds,
                table.changes(0, mode="auto" if "changelog-producer" in options else "raw").to_polars().height,
            )
        )
    assert found[0] == found[1]
    assert len(found[0][0]) == 70
