"""Pruning of files by bucket, key, statistics and file index, and cases in which a file must be kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, UnsafePath
from morrow.engine.format import types as t
from morrow.engine.format.buckets import compute_buckets
from morrow.engine.format.manifest_entries import ColumnStats
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate, find_columns
from morrow.engine.plan.pruning import StatsFrame, mask_by_stats, project_predicate
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.structs import replace
from tests.support.predicates import COLUMNS, leaves, matching, ordered, predicates, rows, table
from tests.support.table_factory import DataFile, TableFactory

FIELDS = [("id", "INT"), ("v", "INT"), ("s", "STRING")]


def make(path: Path, keys: Sequence[str] = ("id",), **options: str) -> TableFactory:
    raw = {key.replace("_", "-"): value for key, value in options.items()}
    return TableFactory(path, FIELDS, keys, options={"bucket": "1"} | raw)


def write(table: TableFactory, ids: Sequence[int], **arguments: Any) -> DataFile:
    """Write a file of these ids, with v = 10 * id and s = the id as text."""
    columns = {"id": ids, "v": [10 * i for i in ids], "s": [str(i) for i in ids]}
    return table.write_file(pa.table(columns, schema=pa.schema({"id": "i4", "v": "i4", "s": "string"})), **arguments)


def plan(table: TableFactory, filter: str) -> ScanPlan:
    return morrow.open(table.path).scan(filter=filter).plan


def kept(table: TableFactory, filter: str) -> set[str]:
    return {Path(file.path).name for file in plan(table, filter).files}


# --- the parts of a filter about some columns ---


A, B = Leaf("a", Op.EQ, (1,)), Leaf("b", Op.EQ, (2,))


@pytest.mark.parametrize(
    ("predicate", "on_a"),
    [(A, A), (B, ALWAYS), (And((A, B)), A), (Or((A, B)), ALWAYS), (Or((And((A, B)), A)), Or((A, A)))],
)
def test_what_a_filter_says_about_one_column(predicate: Predicate, on_a: Predicate) -> None:
    assert project_predicate(predicate, frozenset({"a"})) == on_a


@given(predicate=predicates(), rows=rows(), data=st.data())
def test_every_row_that_is_kept_is_kept_by_the_part(
    predicate: Predicate, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    some = frozenset(data.draw(st.sets(st.sampled_from(sorted(find_columns(predicate) | {"x"})))))
    part = project_predicate(predicate, some)

    assert find_columns(part) <= some
    assert [row for row in matching(predicate, rows) if row not in matching(part, rows)] == []


# --- buckets ---

IDS = range(40)


def bucketed(path: Path, function: str, total: int) -> TableFactory:
    """Make an append table with one file per bucket that holds the bucket's ids."""
    table = make(path, (), bucket=str(total), bucket_key="id") if function == "default" else make(path, ())
    table.alter(options={"bucket": str(total), "bucket-key": "id", "bucket-function.type": function})
    fill(table, function, total)
    return table


def fill(table: TableFactory, function: str, total: int) -> None:
    buckets = compute_buckets([pa.array(IDS, pa.int32())], [t.IntType()], total, function)
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

    # v = 10 is only in the old file, but the new one may hide its row; v = 20 is not in the file at all.
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
    """Replace a pending file by one whose manifest entry has other members."""
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


# Statistics rule out a file only if none of its rows can match.

File = list[dict[str, Any]]


def series(name: str, values: Sequence[Any]) -> pl.Series:
    """Return values in the Polars dtype of a column of the test table."""
    dtype = pl.DataFrame(table([])).schema[name]
    return pl.Series(name, values, dtype=dtype)


def bounds(values: Sequence[Any]) -> tuple[Any, Any]:
    """Compute minimum and maximum without NaN, as a careful writer does."""
    numbers = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    return (min(numbers, key=ordered), max(numbers, key=ordered)) if numbers else (None, None)


def truncated(lower: Any, upper: Any, length: int) -> tuple[Any, Any]:
    """Cut strings to `length` characters and increment the maximum; return None if that is impossible."""
    if not isinstance(upper, str) or len(upper) <= length:
        return (lower[:length] if isinstance(lower, str) else lower), upper
    for end in range(length, 0, -1):
        following = ord(upper[end - 1]) + 1
        if following <= 0x10FFFF:
            character = "?" if 0xD800 <= following < 0xE000 else chr(following)
            return lower[:length], upper[: end - 1] + character
    return None, None


def stats_of(files: Sequence[File], *, length: int = 100, hidden: frozenset[str] = frozenset()) -> StatsFrame:
    columns = {}
    for name in COLUMNS.keys() - hidden:
        pairs = [truncated(*bounds([row[name] for row in file]), length) for file in files]
        nulls = [sum(row[name] is None for row in file) for file in files]
        columns[name] = ColumnStats(
            series(name, [lower for lower, _ in pairs]),
            series(name, [upper for _, upper in pairs]),
            pl.Series(nulls, dtype=pl.Int64),
        )
    return StatsFrame(pl.Series([len(file) for file in files], dtype=pl.Int64), columns)


@given(predicate=predicates(), files=st.lists(rows(), max_size=6), length=st.integers(1, 3))
def test_no_matching_row_is_ever_lost(predicate: Predicate, files: list[File], length: int) -> None:
    mask = mask_by_stats(predicate, stats_of(files, length=length))
    assert mask.dtype == np.bool_
    assert all(kept or not matching(predicate, file) for kept, file in zip(mask, files, strict=True))


@given(leaf=leaves(), files=st.lists(rows(), max_size=6), data=st.data())
@settings(max_examples=settings().max_examples // 2)
def test_absent_statistics_prune_less_never_more(leaf: Leaf, files: list[File], data: st.DataObject) -> None:
    known = stats_of(files)
    column = known.columns[leaf.column]
    unknown = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    blank = [None if hidden else True for hidden in unknown]
    holes = pl.Series(blank, dtype=pl.Boolean)
    assert column.minimum is not None
    assert column.maximum is not None
    partly = ColumnStats(
        pl.select(pl.when(holes).then(column.minimum)).to_series(),
        pl.select(pl.when(holes).then(column.maximum)).to_series(),
        None,
    )
    less = mask_by_stats(leaf, StatsFrame(known.row_count, {leaf.column: partly}))
    assert (less >= mask_by_stats(leaf, known)).all()
    assert mask_by_stats(leaf, StatsFrame(known.row_count, {})).all()
    assert mask_by_stats(leaf, StatsFrame(known.row_count, {leaf.column: ColumnStats(None, None, None)})).all()


def integers(pairs: Sequence[tuple[Any, Any]], nulls: Sequence[int | None] = (), rows: int = 10) -> StatsFrame:
    """Return statistics of files with ten rows and an integer column ``x``."""
    counts = pl.Series(nulls or [0] * len(pairs), dtype=pl.Int64)
    lower, upper = (pl.Series([pair[side] for pair in pairs], dtype=pl.Int32) for side in (0, 1))
    return StatsFrame(pl.Series([rows] * len(pairs), dtype=pl.Int64), {"x": ColumnStats(lower, upper, counts)})


@pytest.mark.parametrize(
    ("op", "literals", "kept"),
    [
        (Op.EQ, (15,), [False, True, False, True]),
        (Op.NE, (10,), [True, True, False, True]),
        (Op.LT, (10,), [True, False, False, True]),
        (Op.LE, (10,), [True, True, True, True]),
        (Op.GT, (10,), [False, True, False, True]),
        (Op.GE, (20,), [False, True, False, True]),
        (Op.IN, (5, 30), [True, False, False, True]),
        (Op.IN, (9, 21), [True, False, False, True]),
        (Op.IN, (), [False, False, False, False]),
        (Op.NOT_IN, (7, 10), [True, True, False, True]),
        (Op.IS_NULL, (), [False, False, False, False]),
        (Op.IS_NOT_NULL, (), [True, True, True, True]),
    ],
)
def test_each_operator(op: Op, literals: tuple[int, ...], kept: list[bool]) -> None:
    files = integers([(0, 9), (10, 20), (10, 10), (None, None)])
    assert mask_by_stats(Leaf("x", op, literals), files).tolist() == kept


def test_and_needs_both_or_needs_one() -> None:
    files = integers([(0, 9), (10, 20)])
    low, high = Leaf("x", Op.LT, (5,)), Leaf("x", Op.GT, (15,))
    assert mask_by_stats(And((low, high)), files).tolist() == [False, False]
    assert mask_by_stats(Or((low, high)), files).tolist() == [True, True]
    assert mask_by_stats(ALWAYS, files).tolist() == [True, True]
    assert mask_by_stats(NEVER, files).tolist() == [False, False]


def test_a_file_of_nulls_matches_nothing_but_is_null() -> None:
    files = integers([(None, None)] * 3, nulls=[10, 9, None])
    assert mask_by_stats(Leaf("x", Op.NE, (1,)), files).tolist() == [False, True, True]
    assert mask_by_stats(Leaf("x", Op.IS_NOT_NULL), files).tolist() == [False, True, True]
    assert mask_by_stats(Leaf("x", Op.IS_NULL), files).tolist() == [True, True, True]


def test_bounds_that_contradict_each_other_prove_nothing() -> None:
    assert mask_by_stats(Leaf("x", Op.EQ, (5,)), integers([(9, 0)])).tolist() == [True]


def texts(lower: str | None, upper: str | None) -> StatsFrame:
    return StatsFrame(
        pl.Series([10]),
        {"s": ColumnStats(pl.Series([lower], dtype=pl.String), pl.Series([upper], dtype=pl.String), pl.Series([0]))},
    )


@pytest.mark.parametrize(
    ("op", "literal", "kept"),
    [
        (Op.STARTS_WITH, "ab", True),
        (Op.STARTS_WITH, "a", True),
        (Op.STARTS_WITH, "b", False),
        (Op.STARTS_WITH, "aa", False),
        (Op.STARTS_WITH, "", True),
        (Op.NOT_STARTS_WITH, "ab", False),
        (Op.NOT_STARTS_WITH, "abc", True),
        (Op.GT, "abz", False),
    ],
)
def test_prefixes_by_range(op: Op, literal: str, kept: bool) -> None:
    assert mask_by_stats(Leaf("s", op, (literal,)), texts("aba", "abf")).tolist() == [kept]


def test_the_successor_of_u_d7ff_is_no_upper_bound() -> None:
    """Java cuts "\\ud7ffz" to one character, increments it to a surrogate and writes a question mark."""
    assert mask_by_stats(Leaf("s", Op.EQ, ("\ud7ffz",)), texts("0", "?")).tolist() == [True]
    assert mask_by_stats(Leaf("s", Op.EQ, ("\ue000",)), texts("0", "?")).tolist() == [True]
    assert mask_by_stats(Leaf("s", Op.GT, ("\ue000",)), texts("0", "?")).tolist() == [False]


@pytest.mark.parametrize(
    ("op", "literal", "kept"),
    [
        (Op.GT, 5.0, True),  # the file may hold a NaN, which is greater
        (Op.GE, math.nan, True),
        (Op.GT, math.nan, False),  # nothing is greater than NaN
        (Op.EQ, math.nan, True),
        (Op.NE, 1.0, True),
        (Op.LT, 1.0, False),
        (Op.LE, 0.5, False),
        (Op.EQ, 2.0, False),
        (Op.LT, math.nan, True),
    ],
)
def test_nan_hides_from_float_bounds(op: Op, literal: float, kept: bool) -> None:
    one = pl.Series([1.0])
    files = StatsFrame(pl.Series([10]), {"f": ColumnStats(one, one, pl.Series([0]))})
    assert mask_by_stats(Leaf("f", op, (literal,)), files).tolist() == [kept]


def test_zeros_of_either_sign_are_equal() -> None:
    for bound in (0.0, -0.0):
        files = StatsFrame(pl.Series([1]), {"f": ColumnStats(pl.Series([bound]), pl.Series([bound]), None)})
        for literal in (0.0, -0.0):
            for op in (Op.EQ, Op.IN, Op.LE, Op.GE):
                assert mask_by_stats(Leaf("f", op, (literal,)), files).tolist() == [True]


def test_partition_values_are_files_whose_bounds_meet() -> None:
    days = pl.Series(["2024-01-01", "2024-01-02", None])
    partitions = StatsFrame(pl.Series([1, 1, 1]), {"dt": ColumnStats(days, days, days.is_null().cast(pl.Int64))})
    assert mask_by_stats(Leaf("dt", Op.EQ, ("2024-01-02",)), partitions).tolist() == [False, True, False]
    assert mask_by_stats(Leaf("dt", Op.NE, ("2024-01-02",)), partitions).tolist() == [True, False, False]
    assert mask_by_stats(Leaf("dt", Op.NOT_IN, ("2024-01-01", "2024-01-02")), partitions).tolist() == [
        False,
        False,
        False,
    ]
    assert mask_by_stats(Leaf("dt", Op.IS_NULL), partitions).tolist() == [False, False, True]
