"""Random tables that are written file by file read the same in Morrow and in the row-wise oracle, also with filters."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.format import types as t
from morrow.readers.execution import strategy
from morrow.readers.masks import section_keys
from morrow.readers.merges import sections
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.hostile_names import quoted
from tests.support.one_duckdb import one_duckdb
from tests.support.random_merging_tables import random_merging_tables
from tests.support.random_tables import RandomTable, random_tables
from tests.support.value_pools import POOLS

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM")


OUTPUTS: dict[str, Callable[[Any], pa.Table]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "polars": lambda scan: scan.to_polars().to_arrow(),
    "duckdb": lambda scan: scan.to_duckdb(one_duckdb()).to_arrow_table(),
}


def literal(value: Any) -> str:
    """Write the value as SQL of DuckDB."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}::DOUBLE"
    if isinstance(value, bytes):
        return f"'{''.join(f'{chr(92)}x{b:02X}' for b in value)}'::BLOB"
    if isinstance(value, dt.datetime):
        return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.time):
        return f"TIME '{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


@st.composite
def conditions(draw: st.DrawFn, table: RandomTable) -> str:
    """Draw a WHERE clause over the plain columns: comparisons, IN, null checks, AND, OR, NOT.

    Columns are placeholders for `named`, such as ``{0}`` for the first one.
    """
    plain = [(i, f) for i, f in enumerate(table.fields) if str(f.type.with_nullable(True)) in POOLS]

    def leaf() -> st.SearchStrategy[str]:
        return st.sampled_from(plain).flatmap(comparison)

    def comparison(column: tuple[int, t.DataField]) -> st.SearchStrategy[str]:
        f, name = column[1], f"{{{column[0]}}}"
        # Not all parsers accept a zero character in SQL text.
        pool = [v for v in POOLS[str(f.type.with_nullable(True))] if not (isinstance(v, str) and "\0" in v)]
        value = st.sampled_from(pool).map(literal).map(lambda text: text.replace("{", "{{").replace("}", "}}"))
        return st.one_of(
            st.tuples(st.sampled_from(OPERATORS), value).map(lambda p: f"{name} {p[0]} {p[1]}"),
            st.lists(value, min_size=1, max_size=3).map(lambda vs: f"{name} IN ({', '.join(vs)})"),
            st.sampled_from((f"{name} IS NULL", f"{name} IS NOT NULL")),
        )

    tree = st.recursive(
        leaf(),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda p: f"({p[0]} AND {p[1]})"),
            st.tuples(inner, inner).map(lambda p: f"({p[0]} OR {p[1]})"),
            inner.map(lambda c: f"NOT ({c})"),
        ),
        max_leaves=4,
    )
    return draw(tree)


def named(condition: str, names: Iterable[str]) -> str:
    """Insert the names of columns into the condition."""
    return condition.format(*map(quoted, names))


def filtered(rows: pa.Table, condition: str) -> pa.Table:
    """Filter with DuckDB, which computes expected results, after renaming columns, since DuckDB ignores case."""
    plain = [f"c{i}" for i in range(rows.num_columns)]
    found = one_duckdb().from_arrow(rows.rename_columns(plain)).filter(named(condition, plain)).to_arrow_table()
    return found.rename_columns(rows.column_names)


@settings(max_examples=settings().max_examples // 2)  # each is a table to write
@given(table=random_tables(), data=st.data())
def test_reads_equal_the_oracle(table: RandomTable, data: st.DataObject) -> None:
    check_reads(table, data)


@pytest.mark.parametrize("in_ranges", [False, True], ids=["at once", "range by range"])
@settings(max_examples=settings().max_examples // 2)
@given(table=random_merging_tables(), data=st.data())
def test_merged_values_equal_the_oracle(in_ranges: bool, table: RandomTable, data: st.DataObject) -> None:
    """Partial-update and aggregation; also as large sections are read, by key ranges and while frames are collected."""
    with pytest.MonkeyPatch.context() as patched:
        if in_ranges:
            patched.setattr(sections, "MAX_SMALL_SECTION_ROWS", 0)
            patched.setattr(sections, "MAX_CACHED_BYTES", data.draw(st.sampled_from((0, 1 << 20)), "cached bytes"))
            patched.setattr(strategy, "MAX_WHOLE_ROWS", 0)
            patched.setattr(section_keys, "MAX_FEW_ROWS", 0)
            patched.setattr(section_keys, "MAX_WHOLE_ROWS", 0)
            patched.setattr(section_keys, "RANGE_ROWS", 2)
            patched.setattr(sections, "MERGED_RANGE_ROWS", 2)
        check_reads(table, data)


def check_reads(table: RandomTable, data: st.DataObject) -> None:
    """Write the table, and compare a random read of it, and its count, with the oracle."""
    folder = Path(tempfile.mkdtemp(prefix="morrow-"))
    try:
        snapshots = table.write(folder / "t")
        snapshot = data.draw(st.integers(1, len(snapshots)), "snapshot")
        expected = table.arrow(table.rows(snapshots[snapshot - 1]))
        event(f"rows: {min(expected.num_rows, 5)}")
        opened = morrow.open(str(folder / "t"))
        condition = data.draw(st.none() | conditions(table), "condition")
        columns = data.draw(st.none() | st.permutations(table.fields).map(lambda fs: fs[: 1 + len(fs) // 2]), "columns")
        output = data.draw(st.sampled_from(sorted(OUTPUTS)), "output")
        if condition is not None:
            expected = filtered(expected, condition)
        fields = table.fields if columns is None else columns
        names = [f.name for f in fields]
        where = None if condition is None else named(condition, expected.column_names)
        scan = opened.scan(None if columns is None else names, where, snapshot=snapshot)
        actual = OUTPUTS[output](scan).rename_columns(names)  # DuckDB renames columns whose names differ in case only
        unordered = [name for name in table.set_columns if name in names]
        assert_same_rows(rows_of(actual, fields), rows_of(expected.select(names), fields), fields, unordered)
        assert scan.count() == expected.num_rows
    finally:
        shutil.rmtree(folder)
