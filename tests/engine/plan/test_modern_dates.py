"""Which DATE columns of ORC files hold no date before 1583, as statistics tell."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.plan import entries
from tests.support.table_factory import TableFactory

FIELDS = [("d", "DATE"), ("id", "INT"), ("e", "DATE")]
NEW, OLD = date(1583, 1, 1), date(1582, 12, 31)


@pytest.mark.parametrize("worth_outlines", [0, 1 << 20])
@pytest.mark.parametrize("filter", [None, "id > 0"])
@pytest.mark.parametrize(
    ("format", "d", "e", "modern"),
    [
        ("orc", [NEW, None, date(2024, 2, 29)], [NEW] * 3, ("d", "e")),
        ("orc", [NEW, OLD, NEW], [date(9999, 12, 31)] * 3, ("e",)),
        ("orc", [None] * 3, [date(1, 1, 1)] * 3, ("d",)),
        ("orc", [OLD] * 3, [OLD] * 3, ()),
        ("parquet", [NEW] * 3, [NEW] * 3, ()),
    ],
)
def test_columns_of_each_file(
    tmp_path: Path,
    format: str,
    d: list[date | None],
    e: list[date],
    modern: tuple[str, ...],
    filter: str | None,
    worth_outlines: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "WORTH_OUTLINES", worth_outlines)
    table = TableFactory(tmp_path / "t", FIELDS, (), options={"bucket": "-1"})
    days = {"d": pa.array(d, pa.date32()), "e": pa.array(e, pa.date32())}
    table.write_file(pa.table({"id": [1, 2, 3], **days}), format=format)
    table.write_file(pa.table({"id": [4], "d": [NEW], "e": [NEW]}), format="parquet")
    table.commit()
    files = morrow.open(table.path).scan(filter=filter).plan.files
    assert [file.modern_dates for file in files] == [modern, ()]


def test_without_statistics_nothing_is_known(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema="d DATE, e DATE", options={"file.format": "orc", "fields.e.stats-mode": "none"}
    )
    table.append({"d": [NEW], "e": [NEW]})
    assert [file.modern_dates for file in table.scan().plan.files] == [("d",)]
