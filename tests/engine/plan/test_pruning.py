"""Which files a filter leaves: by bucket, key, statistics and file index, and where nothing may be concluded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, UnsafePath
from morrow.engine.format import types as t
from morrow.engine.format.bucket import bucket_of
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Op, Or, Predicate, columns
from morrow.engine.plan.pruning import projected
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace
from tests.support.predicates import matching, predicates, rows
from tests.support.table_factory import DataFile, TableFactory

FIELDS = [("id", "INT"), ("v", "INT"), ("s", "STRING")]


def make(path: Path, keys: Sequence[str] = ("id",), **options: str) -> TableFactory:
    raw = {key.replace("_", "-"): value for key, value in options.items()}
    return TableFactory(path, FIELDS, keys, options={"bucket": "1"} | raw)


def write(table: TableFactory, ids: Sequence[int], **arguments: Any) -> DataFile:
    """Writes a file of these ids, with v = 10 id and s = the id as text."""
    columns = {"id": ids, "v": [10 * i for i in ids], "s": [str(i) for i in ids]}
    return table.write_file(pa.table(columns, schema=pa.schema({"id": "i4", "v": "i4", "s": "string"})), **arguments)


def plan(table: TableFactory, filter: str) -> ScanPlan:
    return morrow.open(table.path).scan(filter=filter).plan


def kept(table: TableFactory, filter: str) -> set[str]:
    return {Path(file.path).name for file in plan(table, filter).files}


# --- what a filter says about some columns ---


A, B = Leaf("a", Op.EQ, (1,)), Leaf("b", Op.EQ, (2,))


@pytest.mark.parametrize(
    ("predicate", "on_a"),
    [(A, A), (B, ALWAYS), (And((A, B)), A), (Or((A, B)), ALWAYS), (Or((And((A, B)), A)), Or((A, A)))],
)
def test_what_a_filter_says_about_one_column(predicate: Predicate, on_a: Predicate) -> None:
    assert projected(predicate, frozenset({"a"})) == on_a


@given(predicate=predicates(), rows=rows(), data=st.data())
def test_every_row_that_is_kept_is_kept_by_the_part(
    predicate: Predicate, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    some = frozenset(data.draw(st.sets(st.sampled_from(sorted(columns(predicate) | {"x"})))))
    part = projected(predicate, some)

    assert columns(part) <= some
    assert [row for row in matching(predicate, rows) if row not in matching(part, rows)] == []


# --- buckets ---

IDS = range(40)


def bucketed(path: Path, function: str, total: int) -> TableFactory:
    """Makes an append table with a file per bucket, that holds the ids of the bucket."""
    table = make(path, (), bucket=str(total), bucket_key="id") if function == "default" else make(path, ())
    table.alter(options={"bucket": str(total), "bucket-key": "id", "bucket-function.type": function})
    fill(table, function, total)
    return table


def fill(table: TableFactory, function: str, total: int) -> None:
    buckets = bucket_of([pa.array(IDS, pa.int32())], [t.IntType()], total, function)
    for bucket in range(total):
        ids = [i for i, b in zip(IDS, buckets, strict=True) if b == bucket]
        if ids:
            write(table, ids, bucket=bucket, value_stats=False)
    table.commit()


@pytest.mark.parametrize("function", ["default", "mod", "hive"])
@pytest.mark.parametrize("total", [1, 4, 7])
def test_equality_of_the_bucket_key_reads_one_bucket(tmp_path: Path, function: str, total: int) -> None:
    table = bucketed(tmp_path, function, total)
    for i in (0, 7, 39):
        found = plan(table, f"id = {i}")
        assert len(found.files) == 1
        assert morrow.open(tmp_path).scan(["id"], f"id = {i}").to_arrow().to_pylist() == [{"id": i}]


def test_in_reads_the_buckets_of_its_values(tmp_path: Path) -> None:
    table = bucketed(tmp_path, "mod", 4)

    assert {section.bucket for section in plan(table, "id IN (1, 5, 6)").sections} == {1, 2}
    assert {section.bucket for section in plan(table, "id = 3 AND v > 0").sections} == {3}


@pytest.mark.parametrize("filter", ["id > 3", "id = 3 OR v = 1", "v = 30", "id != 3", "id IS NOT NULL"])
def test_other_filters_read_all_buckets(tmp_path: Path, filter: str) -> None:
    assert len(plan(bucketed(tmp_path, "mod", 4), filter).sections) == 4


def test_a_long_in_list_is_not_hashed(tmp_path: Path) -> None:
    values = ", ".join(str(4 * i) for i in range(1001))
    assert len(plan(bucketed(tmp_path, "mod", 4), f"id IN ({values})").sections) == 4


def test_files_from_before_a_rescale_keep_the_count_they_were_written_with(tmp_path: Path) -> None:
    table = bucketed(tmp_path, "mod", 3)
    table.alter(options=dict(table.options) | {"bucket": "5"})
    fill(table, "mod", 5)

    found = morrow.open(tmp_path).scan(["id"], "id = 7")
    assert sorted(section.bucket for section in found.plan.sections) == [7 % 3, 7 % 5]
    assert found.to_arrow().to_pylist() == [{"id": 7}, {"id": 7}]


# --- keys and statistics ---


def test_a_key_range_leaves_all_versions_of_its_keys(tmp_path: Path) -> None:
    table = make(tmp_path)
    old, new = write(table, [1, 2, 3], level=5), write(table, [3, 4])
    write(table, [7, 8], level=5)
    table.commit()

    assert kept(table, "id = 3") == {old.name, new.name}
    assert kept(table, "id BETWEEN 4 AND 6") == {new.name}
    assert kept(table, "id < 0") == set()


def test_values_prune_only_files_that_nothing_is_merged_with(tmp_path: Path) -> None:
    table = make(tmp_path)
    old, new = write(table, [1, 2], level=5), write(table, [2, 3])
    alone = write(table, [7, 8], level=5)
    table.commit()

    # v = 10 is only in the old file, but the new one may hide a row of it; v = 20 cannot be in the file alone.
    assert kept(table, "v = 10") == {old.name, new.name}
    assert kept(table, "v = 70") == {old.name, new.name, alone.name}


@pytest.mark.parametrize(("filter", "files"), [("v = 20", 1), ("v > 25", 1), ("s = '9'", 0), ("v = 20 OR s = '3'", 2)])
def test_values_prune_files_of_append_tables(tmp_path: Path, filter: str, files: int) -> None:
    table = make(tmp_path, (), bucket="-1")
    write(table, [1, 2])
    write(table, [3, 4])
    table.commit()

    assert len(kept(table, filter)) == files


@pytest.mark.parametrize(("shown", "files"), [(True, 0), (["v"], 0), (["s"], 1), (False, 1)])
def test_nothing_is_concluded_from_absent_statistics(tmp_path: Path, shown: bool | list[str], files: int) -> None:
    table = make(tmp_path, (), bucket="-1")
    write(table, [1, 2], value_stats=shown)
    table.commit()

    assert len(kept(table, "v = 99")) == files


def test_columns_are_known_by_their_id(tmp_path: Path) -> None:
    table = make(tmp_path, (), bucket="-1")
    old = write(table, [1, 2])
    table.commit()
    table.alter(fields=[t.DataField(0, "v", t.IntType()), t.DataField(9, "added", t.IntType())])

    assert kept(table, "v = 1") == {old.name}
    assert kept(table, "v = 10") == set()
    assert kept(table, "added = 1") == set()
    assert kept(table, "added IS NULL") == {old.name}


# --- file indexes ---


def with_extra(table: TableFactory, file: DataFile, **members: Any) -> None:
    """Replaces a pending file by one with other members of its entry."""
    table._pending.pop()
    table._add(replace(file, record={**file.record, **members}))


JAVA_INDEXES = json.loads((Path(__file__).parents[1] / "format/file_index/java_indexes.json").read_text())
BITMAP = next(bytes.fromhex(i["bytes"]) for i in JAVA_INDEXES if (i["type"], i["index"]) == ("INT", "bitmap 1"))
"""A bitmap index by Java of the column c, values 7, -7, null, 2147483647, -2147483648, 0, 7, 1000000, null."""


@pytest.mark.parametrize(
    ("filter", "files"), [("c = 7", 1), ("c = 8", 0), ("c IN (8, 9)", 0), ("c IN (8, 0)", 1), ("c = 8 OR d = 1", 1)]
)
@pytest.mark.parametrize("beside", [False, True])
def test_a_file_index_knows_the_values(tmp_path: Path, filter: str, files: int, beside: bool) -> None:
    table = TableFactory(tmp_path, [("c", "INT"), ("d", "INT")], options={"bucket": "-1"})
    file = table.write_file(pa.table({"c": [7] * 9, "d": [1] * 9}), value_stats=False)
    if beside:
        (table.folder((), 0) / f"{file.name}.index").write_bytes(BITMAP)
        with_extra(table, file, _EXTRA_FILES=[f"{file.name}.index"])
    else:
        with_extra(table, file, _EMBEDDED_FILE_INDEX=BITMAP)
    table.commit()

    assert len(kept(table, filter)) == files


def test_a_damaged_index_names_its_file(tmp_path: Path) -> None:
    table = make(tmp_path, (), bucket="-1")
    file = write(table, [1, 2])
    with_extra(table, file, _EMBEDDED_FILE_INDEX=b"no index")
    table.commit()

    with pytest.raises(CorruptFile, match=rf"{file.name} \(embedded index\): "):
        kept(table, "v = 10")


def test_an_index_beside_the_file_is_looked_for_there(tmp_path: Path) -> None:
    table = make(tmp_path, (), bucket="-1")
    file = write(table, [1, 2])
    with_extra(table, file, _EXTRA_FILES=[f"{file.name}.index"])
    table.commit()

    with pytest.raises(FileMissing, match=rf"bucket-0/{file.name}.index: no such file"):
        kept(table, "v = 10")
    table.alter(options=dict(table.options) | {"file-index.read.enabled": "false"})
    assert kept(table, "v = 10") == {file.name}


def test_the_name_of_an_index_leads_nowhere_else(tmp_path: Path) -> None:
    table = make(tmp_path, (), bucket="-1")
    with_extra(table, write(table, [1, 2]), _EXTRA_FILES=["../../x.index"])
    table.commit()

    with pytest.raises(UnsafePath, match="not a single path segment"):
        kept(table, "v = 10")
