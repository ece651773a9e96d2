"""Polars expressions have the form that scans push into Parquet files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from morrow.engine.errors import ColumnNotFound
from morrow.engine.plan.predicate import And, Leaf, Op
from morrow.readers.expressions import polars
from tests.support.predicates import COLUMNS, COMPARISONS, FIELDS, edge_rows, table


@pytest.mark.parametrize("name", list(COLUMNS))
def test_no_comparison_casts_a_column(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame(table(edge_rows())).write_parquet(path)
    for op in COMPARISONS:
        predicate = And((Leaf(name, op, (COLUMNS[name][1][0],)), Leaf(name, Op.IN, tuple(COLUMNS[name][1][:2]))))
        plan = pl.scan_parquet(path).filter(polars.compile(predicate, FIELDS)).explain()
        assert "SELECTION:" in plan
        assert "FILTER" not in plan
        assert ".cast(" not in plan


def test_dtypes_of_the_scan_may_be_given_instead_of_fields() -> None:
    frame = pl.DataFrame({"ts": [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)]}, schema={"ts": pl.Datetime("ns")})
    leaf = Leaf("ts", Op.GT, (dt.datetime(2024, 1, 1),))
    assert frame.filter(polars.compile(leaf, frame.schema)).height == 1


def test_a_column_that_is_not_read_is_an_error() -> None:
    with pytest.raises(ColumnNotFound, match="'y' is not among the columns read: x"):
        polars.compile(Leaf("y", Op.EQ, (1,)), {"x": pl.Int32()})
