"""The whole way of a plan: which files a batch read sees, and how they become sections."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from tests.support.table_factory import DataFile, TableFactory


def make(path: Path, **options: str) -> TableFactory:
    raw = {"bucket": "2"} | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return TableFactory(path, [("dt", "STRING"), ("id", "INT")], ["dt", "id"], ["dt"], raw)


def write(table: TableFactory, ids: Sequence[int], *, day: str = "a", **arguments: Any) -> DataFile:
    return table.write_file(pa.table({"id": ids}), partition={"dt": day}, **arguments)


def plan(table: TableFactory, **arguments: Any) -> ScanPlan:
    return morrow.open(table.path).scan(**arguments).plan


def shape(plan: ScanPlan) -> list[tuple[str, str, int, set[str]]]:
    """Lists kind, partition, bucket and file names of each section."""
    return sorted(
        (s.kind.value, str(s.partition[0]), s.bucket, {Path(f.path).name for f in s.files}) for s in plan.sections
    )


def test_files_that_overlap_are_merged_and_the_others_of_a_bucket_read_together(tmp_path: Path) -> None:
    table = make(tmp_path)
    base, more = write(table, [1, 5], level=5), write(table, [8, 9], level=5)
    new = write(table, [5, 6])
    late = write(table, [20])
    other = write(table, [5], bucket=1)
    elsewhere = write(table, [5], day="b")
    table.commit()

    assert shape(plan(table)) == [
        ("merge", "a", 0, {base.name, new.name}),
        ("raw", "a", 0, {more.name, late.name}),
        ("raw", "a", 1, {other.name}),
        ("raw", "b", 0, {elsewhere.name}),
    ]
    (merge,) = (section for section in plan(table).sections if section.kind is SectionKind.MERGE)
    assert (merge.key_low, merge.key_high) == ((1,), (6,))


@pytest.mark.parametrize("option", [{"deletion_vectors__enabled": "true"}, {"merge_engine": "first-row"}])
def test_tables_that_hide_level_zero_merge_nothing(tmp_path: Path, option: dict[str, str]) -> None:
    table = make(tmp_path, **option)
    base = write(table, [1, 5], level=5)
    upper = write(table, [2, 3], level=4)
    write(table, [5, 6], level=0)
    table.commit()

    assert shape(plan(table)) == [("raw", "a", 0, {base.name, upper.name})]


def test_postponed_rows_wait_for_compaction(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="-2")
    write(table, [1], bucket=-2)
    seen = write(table, [2], bucket=0)
    table.commit()

    assert shape(plan(table)) == [("raw", "a", 0, {seen.name})]


def test_a_partition_filter_reads_its_partitions_only(tmp_path: Path) -> None:
    table = make(tmp_path)
    files = {day: write(table, [1], day=day) for day in "abc"}
    table.commit()

    found = plan(table, filter="dt > 'a' AND id > 0")
    assert shape(found) == [("raw", day, 0, {files[day].name}) for day in "bc"]
    assert [str(step.name) for step in found.steps][:2] == ["manifests by partition", "files visible to batch reads"]


def test_an_empty_table_has_an_empty_plan(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert (plan(table).snapshot, plan(table).sections) == (None, ())

    table.commit()
    assert (plan(table).sections, plan(table, filter="id = 1").sections) == ((), ())


def test_columns_are_those_of_the_schema_a_file_was_written_with(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], options={"bucket": "-1"})
    table.write_file(pa.table({"id": [1]}))
    table.alter(fields=[t.DataField(0, "id", t.BigIntType()), t.DataField(1, "v", t.VarCharType())])
    table.write_file(pa.table({"id": [2], "v": ["x"]}))
    table.commit()

    assert {i: [f"{f.name} {f.type}" for f in fields] for i, fields in plan(table).file_fields.items()} == {
        0: ["id INT"],
        1: ["id BIGINT", "v STRING"],
    }


def test_a_key_whose_type_was_changed_is_refused(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1]}))
    table.alter(fields=[("id", "BIGINT")])
    table.commit()

    with pytest.raises(Unsupported, match=r"a primary key column whose type was changed \('id'\)"):
        plan(table)


def test_a_merge_engine_that_is_not_known_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    table = make(tmp_path, merge_engine="last-wins")
    table.commit()

    with pytest.raises(Unsupported, match="'merge-engine' = 'last-wins'"):
        plan(table)


def test_a_plan_of_many_files_and_partitions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, [("p", "INT"), ("id", "INT")], ["p", "id"], ["p"], {"bucket": "4"})
    count, parts = 4_000, 100
    number = np.arange(count)
    low = pa.table({"p": number % parts, "id": number // parts * 10})
    high = pa.table({"p": number % parts, "id": number // parts * 10 + 9})
    table.fake_files(low, high, partitions=[{"p": int(i % parts)} for i in number], buckets=number // parts % 4)
    table.commit(entries_per_manifest=500)

    assert (len(plan(table).files), len(plan(table).sections)) == (count, parts * 4)
    one = plan(table, filter="p = 42")
    assert {section.partition for section in one.sections} == {(42,)}
    assert len(one.files) == count // parts
    assert len(plan(table, filter="p = 42 AND id BETWEEN 15 AND 21").files) == 2
