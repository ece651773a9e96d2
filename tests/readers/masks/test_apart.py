"""Rows that masks choose while files are read, beside columns that are in memory already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.io.local import LocalStore
from morrow.readers.masks import apart
from morrow.readers.masks.apart import rows_apart
from morrow.readers.masks.section_keys import SectionKeys
from tests.support.table_factory import TableFactory

COLUMNS = [("a", "STRING"), ("id", "INT"), ("*", "INT"), ("p", "STRING")]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(apart, "WORTH_ROWS", 0)  # as sections of many rows are read
    morrow.clear_caches()
    yield
    morrow.clear_caches()


def rows(ids: list[int], tag: str) -> pa.Table:
    return pa.table({"a": [f"{tag} {i}" for i in ids], "id": ids, "*": [-i for i in ids]})


@pytest.fixture
def factory(tmp_path: Path) -> TableFactory:
    made = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["p", "id"], partition_keys=["p"])
    made.write_file(rows([1, 2, 3], "old"), partition={"p": "x"}, level=5)
    made.write_file(rows([2, 4], "new"), partition={"p": "x"})
    made.commit()
    return made


def test_several_choices_are_made_in_one_read(factory: TableFactory) -> None:
    plan = morrow.open(factory.path).scan().plan
    keys = SectionKeys.of(plan, plan.sections[0], LocalStore())
    held = [pl.DataFrame({"id": [1, 2, 3]}), pl.DataFrame({"id": [2, 4]})]
    alone, first, all_rows = rows_apart(
        keys,
        [
            (["*", "id", "a", "p"], [pl.Series([True, False, True]), pl.Series([False, True])]),
            (["a"], [pl.Series([True, False, False]), pl.Series([False, False])]),
            (["a", "id"], [None, None]),
        ],
        held,
    )
    assert alone.rows() == [(-1, 1, "old 1", "x"), (-3, 3, "old 3", "x"), (-4, 4, "new 4", "x")]
    assert first.rows() == [("old 1",)]
    assert all_rows.rows() == [("old 1", 1), ("old 2", 2), ("old 3", 3), ("new 2", 2), ("new 4", 4)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, {("old 1", 1, -1, "x"), ("new 2", 2, -2, "x"), ("old 3", 3, -3, "x"), ("new 4", 4, -4, "x")}),
        (["id"], {(1,), (2,), (3,), (4,)}),
        (["*", "id"], {(-1, 1), (-2, 2), (-3, 3), (-4, 4)}),
        (["a"], {("old 1",), ("new 2",), ("old 3",), ("new 4",)}),
        (["p"], {("x",)}),
    ],
)
def test_keys_are_where_they_were_asked_for(
    factory: TableFactory, columns: list[str] | None, expected: set[tuple[object, ...]]
) -> None:
    found = morrow.open(factory.path).scan(columns=columns).to_polars()
    assert (found.height, set(found.rows())) == (4, expected)


def test_files_of_two_schemas_are_scanned_one_by_one(factory: TableFactory) -> None:
    factory.alter(fields=[*COLUMNS, ("b", "DOUBLE")])
    later = rows([3, 5], "newest").append_column("b", pa.array([0.5, 1.5]))
    factory.write_file(later, partition={"p": "x"})
    factory.commit()
    found = morrow.open(factory.path).scan().to_polars()
    assert sorted(found.select("id", "a", "b").rows()) == [
        (1, "old 1", None),
        (2, "new 2", None),
        (3, "newest 3", 0.5),
        (4, "new 4", None),
        (5, "newest 5", 1.5),
    ]


def test_retractions_and_the_greatest_sequence_decide(tmp_path: Path) -> None:
    factory = TableFactory(tmp_path / "t", COLUMNS[:3], primary_keys=["id"], options={"sequence.field": "*"})
    factory.write_file(rows([1, 2, 3], "old"), level=5)
    factory.write_file(
        pa.table({"a": ["late", "gone", "early"], "id": [1, 2, 3], "*": [0, 0, -9]}), kinds=["+U", "-D", "+U"]
    )
    factory.commit()
    found = morrow.open(factory.path).scan(columns=["id", "a"]).to_polars()
    assert sorted(found.rows()) == [(1, "late"), (3, "old 3")]


def test_a_column_of_fewer_rows_than_the_keys_is_an_error(factory: TableFactory) -> None:
    """Both reads see one file; here it loses a row between them."""
    plan = morrow.open(factory.path).scan(columns=["a"]).plan
    keys = SectionKeys.of(plan, plan.sections[0], _Unchecked())
    held = [pl.DataFrame({"id": [1, 2, 3]}), pl.DataFrame({"id": [2, 4]})]
    path = Path(keys.files[0].path)
    pq.write_table(pq.read_table(path).slice(0, 2), path)
    with pytest.raises(CorruptFile):
        rows_apart(keys, [(["a", "id"], [pl.Series([True, False, True]), None])], held)


class _Unchecked(LocalStore):
    """A disk on which sizes of files are not looked at."""

    is_local = False
