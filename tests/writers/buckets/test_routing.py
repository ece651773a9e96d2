"""Rows go to the same bucket as in Java, in every bucket mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.buckets import compute_buckets, decode_hash_index
from morrow.engine.format.types import BigIntType
from morrow.writers.commit.table_commit import TableCommit
from tests.support.written import new_table, rows

IDS = pl.DataFrame({"id": range(20)})


def buckets(table: morrow.Table) -> dict[str, int]:
    """Count the data files in each bucket folder."""
    root = Path(table.path)
    found: dict[str, int] = {}
    for path in root.rglob("bucket-*/*"):
        folder = path.parent.relative_to(root).as_posix()
        found[folder] = found.get(folder, 0) + 1
    return dict(sorted(found.items()))


def test_append_tables_without_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, p STRING", by=["p"])
    table.append({"id": [1, 2, 3], "p": ["b", None, "b"]})
    assert buckets(table) == {"p=__DEFAULT_PARTITION__/bucket-0": 1, "p=b/bucket-0": 1}


@pytest.mark.parametrize("function", ["default", "mod", "hive"])
def test_fixed_buckets(tmp_path: Path, function: str) -> None:
    options = {"bucket": 4, "bucket-key": "id", "bucket-function.type": function}
    table = new_table(tmp_path, "id BIGINT", options=options)
    table.append(IDS)
    expected = compute_buckets([IDS["id"]], [BigIntType()], 4, function)
    for section in table.scan().plan.sections:
        assert section.row_count == int((expected == section.bucket).sum())
    for number in range(20):
        assert rows(table, filter=f"id = {number}") == [(number,)]


def test_the_bucket_key_of_a_keyed_table_may_be_part_of_its_key(tmp_path: Path) -> None:
    options = {"bucket": 3, "bucket-key": "a"}
    table = new_table(tmp_path, "a INT, b INT, v INT", keys=["a", "b"], options=options)
    table.upsert({"a": [1, 1, 1], "b": [1, 2, 3], "v": [1, 2, 3]})
    assert len(buckets(table)) == 1


def test_postponed_rows_wait(tmp_path: Path) -> None:
    options = {"bucket": -2, "postpone.batch-write-fixed-bucket": False}
    table = new_table(tmp_path, "id BIGINT", keys=["id"], options=options)
    table.upsert(IDS)
    assert buckets(table) == {"bucket-postpone": 1}
    assert rows(table) == []
    table.compact()
    assert rows(table) == [(number,) for number in range(20)]


def test_dynamic_buckets_and_their_hash_indexes(tmp_path: Path) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 8}
    table = new_table(tmp_path, "id BIGINT, v INT", keys=["id"], options=options)
    table.upsert(IDS.with_columns(v=0))
    assert buckets(table) == {"bucket-0": 1, "bucket-1": 1, "bucket-2": 1}
    table.upsert({"id": [0, 19, 20], "v": [1, 1, 1]})
    assert buckets(table) == {"bucket-0": 2, "bucket-1": 1, "bucket-2": 2}
    assert rows(table) == [(n, int(n in (0, 19, 20))) for n in range(21)]
    indexes = [decode_hash_index(path.read_bytes(), where=str(path)) for path in Path(table.path, "index").iterdir()]
    assert sorted(map(len, indexes)) == [4, 5, 8, 8]
    assert len(np.unique(np.concatenate(indexes))) == 21


def test_two_writers_of_dynamic_buckets_do_not_give_one_key_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 2, "commit.min-retry-wait": "1 ms"}
    table = new_table(tmp_path, "id INT, v STRING", keys=["id"], options=options)
    commit, races = TableCommit.commit, [{"id": [3, 4, 1], "v": ["theirs"] * 3}]

    def raced(self: TableCommit, *arguments: Any, **named: Any) -> Any:
        if races:
            table.upsert(races.pop())
        return commit(self, *arguments, **named)

    monkeypatch.setattr(TableCommit, "commit", raced)
    table.upsert({"id": [1, 2, 3], "v": ["mine"] * 3})
    assert rows(table) == [(1, "mine"), (2, "mine"), (3, "mine"), (4, "theirs")]


def test_dynamic_buckets_of_several_assigners(tmp_path: Path) -> None:
    options = {"bucket": -1, "dynamic-bucket.initial-buckets": 3, "dynamic-bucket.max-buckets": 4}
    table = new_table(tmp_path, "id BIGINT, p INT", keys=["id", "p"], by=["p"], options=options)
    data = IDS.with_columns(p=pl.lit(1))
    table.upsert(data)
    assert buckets(table) == {"p=1/bucket-0": 1, "p=1/bucket-1": 1, "p=1/bucket-2": 1}
    table.upsert(data)
    assert rows(table) == data.rows()


def test_a_dynamic_table_is_overwritten_from_bucket_0(tmp_path: Path) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 8}
    table = new_table(tmp_path, "id BIGINT", keys=["id"], options=options)
    table.upsert(IDS)
    table.overwrite(IDS.tail(4))
    assert {section.bucket for section in table.scan().plan.sections} == {0}
    table.upsert(IDS)
    assert rows(table) == IDS.rows()


def test_other_buckets_need_an_overwrite(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, p INT", keys=["id", "p"], by=["p"], options={"bucket": 2})
    table.upsert({"id": [1, 2], "p": [1, 2]})
    table.alter.set_options({"bucket": 3})
    with pytest.raises(InvalidArgument, match=r"the partition p=1 was written with 2 buckets and .*'bucket' is 3 now"):
        table.upsert({"id": [9], "p": [1]})
    table.upsert({"id": [9], "p": [3]})
    table.overwrite(table.scan(filter="p = 1"))
    table.upsert({"id": [9], "p": [1]})
    assert rows(table) == [(1, 1), (2, 2), (9, 1), (9, 3)]


def test_memory_is_bounded_over_all_buckets(tmp_path: Path) -> None:
    options: dict[str, Any] = {"bucket": 4, "write-buffer-size": "64 kb", "write-only": True}
    table = new_table(tmp_path, "id BIGINT, v STRING", keys=["id"], options=options)
    data = pl.DataFrame({"id": range(20_000), "v": ["x" * 20] * 20_000})
    with table.writer() as writer:
        for part in data.iter_slices(1_000):
            writer.write(part)
    assert rows(table) == data.rows()
