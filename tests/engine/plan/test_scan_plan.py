"""A plan is data: it compares, hashes and pickles."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from tests.support.table_factory import TableFactory

DAY = dt.date(2024, 5, 14)


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    table = TableFactory(
        tmp_path, [("dt", "DATE"), ("id", "INT"), ("v", "STRING")], ["dt", "id"], ["dt"], {"bucket": "1"}
    )
    for level, rows in ((5, [1, 2, 3]), (0, [2])):
        table.write_file(pa.table({"id": rows, "v": ["x"] * len(rows)}), partition={"dt": DAY}, level=level)
    table.commit()
    return morrow.open(tmp_path)


def plan(table: morrow.Table) -> ScanPlan:
    return table.scan(columns=["v"], filter="id >= 2 AND length(v) = 1", limit=5).plan


def test_two_plans_of_the_same_read_are_equal(table: morrow.Table) -> None:
    assert plan(table) == plan(table)
    assert hash(plan(table)) == hash(plan(table))
    assert plan(table) != table.scan().plan


def test_a_plan_travels_between_processes(table: morrow.Table) -> None:
    sent = pickle.dumps(plan(table))

    assert pickle.loads(sent) == plan(table)
    assert str(pickle.loads(sent).merge) == "deduplicate by (id) ordered by _SEQUENCE_NUMBER"


def test_what_a_plan_says(table: morrow.Table) -> None:
    found = plan(table)
    (section,) = found.sections

    assert section.kind is SectionKind.MERGE
    assert (section.partition, section.bucket, section.key_low, section.key_high) == ((DAY,), 0, (1,), (3,))
    assert (section.row_count, section.size) == (4, sum(file.size for file in found.files))
    assert [file.level for file in found.files] == [5, 0]
    assert found.read_columns == ("v", "id")
    assert [field.name for field in found.fields] == ["v"]
    assert [field.name for field in found.file_fields[0]] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "dt", "id", "v"]
    assert found.parts == (found,)
