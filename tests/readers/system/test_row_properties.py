"""In random tables, ``$audit_log`` has the table's rows and at most one deletion for each deleted key."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.random_merging_tables import random_merging_tables
from tests.support.random_tables import RandomTable, random_tables

LIVING = "rowkind IN ('+I', '+U')"


@settings(max_examples=settings().max_examples // 4)
@given(table=st.one_of(random_tables(), random_merging_tables()))
def test_rows_and_deletions(table: RandomTable) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        table.write(path)
        opened = morrow.open(path)
        log = opened.system("audit_log")
        told = log.to_arrow()

        def same(rows: pa.Table, others: pa.Table) -> None:
            values: list[list[list[Any]]] = [rows_of(part.select(names), table.fields) for part in (rows, others)]
            assert_same_rows(*values, table.fields, table.set_columns)

        names = [field.name for field in table.fields]
        scanned = opened.scan().to_arrow()
        same(told.filter(pc.is_in(told["rowkind"], pa.array(["+I", "+U"]))), scanned)
        same(opened.system("audit_log", filter=LIVING).to_arrow(), scanned)
        morrow.clear_caches()
        same(pa.Table.from_batches(log.to_batches(7), log.schema), told)
        assert opened.system("audit_log", filter=LIVING).count() == scanned.num_rows
        assert log.count() == told.num_rows

        keys = pl.DataFrame(pl.from_arrow(told.select(list(table.primary_keys))))
        if not any(dtype.is_float() for dtype in keys.dtypes):
            assert keys.height == keys.unique().height
