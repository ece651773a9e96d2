"""Columns of an older schema read in the current one: by field id, renamed, moved, cast, or null if missing."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import ROW_ID_FIELD, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.casts.dtypes import to_polars_schema
from morrow.readers.execution import execute
from morrow.readers.files.file_frames import (
    END,
    collect_batches,
    collect_frames,
    project,
    select_file_columns,
    translate_predicate,
)

POINT = t.RowType(fields=(t.DataField(7, "x", t.IntType()), t.DataField(8, "y", t.VarCharType())))
POINT_NOW = t.RowType(
    fields=(
        t.DataField(8, "yy", t.VarCharType()),
        t.DataField(7, "x", t.BigIntType()),
        t.DataField(12, "z", t.DoubleType()),
    )
)
FILE = (
    t.DataField(0, "id", t.IntType(nullable=False)),
    t.DataField(1, "a", t.IntType()),
    t.DataField(2, "b", t.FloatType()),
    t.DataField(3, "c", t.VarCharType(length=5)),
    t.DataField(6, "n", POINT),
)
READ = (
    t.DataField(11, "first", t.VarCharType()),
    t.DataField(0, "id", t.IntType()),
    t.DataField(3, "renamed", t.VarCharType()),
    t.DataField(1, "a", t.VarCharType()),
    t.DataField(6, "n", POINT_NOW),
    t.DataField(13, "b", t.TimestampType(precision=0)),
)
ROWS = pl.DataFrame(
    {
        "id": [1, 2],
        "a": [10, None],
        "b": [0.5, 1.5],
        "c": ["x", None],
        "n": [{"x": 1, "y": "u"}, None],
    },
    schema=to_polars_schema(FILE),
)


def test_columns_are_known_by_their_id() -> None:
    result = project(ROWS.lazy(), FILE, READ)

    assert result.collect_schema() == to_polars_schema(READ)
    assert result.collect().rows(named=True) == [
        {"first": None, "id": 1, "renamed": "x", "a": "10", "n": {"yy": "u", "x": 1, "z": None}, "b": None},
        {"first": None, "id": 2, "renamed": None, "a": None, "n": None, "b": None},
    ]


def test_a_column_dropped_and_added_again_with_the_same_name_is_another_column() -> None:
    again = (t.DataField(0, "id", t.IntType()), t.DataField(20, "a", t.IntType()))
    assert project(ROWS.lazy(), FILE, again).collect().rows() == [(1, None), (2, None)]


def test_two_columns_that_swap_their_names() -> None:
    swapped = (t.DataField(1, "id", t.IntType()), t.DataField(0, "a", t.IntType()))
    assert project(ROWS.lazy(), FILE, swapped).collect().rows() == [(10, 1), (None, 2)]


def test_only_new_columns_are_as_many_nulls_as_the_file_has_rows() -> None:
    assert project(ROWS.lazy(), FILE, READ[:1]).collect().rows() == [(None,), (None,)]


def test_rows_in_arrays_and_maps_evolve() -> None:
    written = (
        t.DataField(1, "a", t.ArrayType(element=POINT)),
        t.DataField(2, "m", t.MapType(key=t.IntType(), value=POINT)),
    )
    read = (
        t.DataField(1, "a", t.ArrayType(element=POINT_NOW)),
        t.DataField(2, "m", t.MapType(key=t.IntType(), value=POINT_NOW)),
    )
    point, now = {"x": 1, "y": "u"}, {"yy": "u", "x": 1, "z": None}
    frame = pl.DataFrame(
        {"a": [[point, None], None], "m": [[{"key": 5, "value": point}], []]}, schema=to_polars_schema(written)
    )

    assert project(frame.lazy(), written, read).collect().rows() == [
        ([now, None], [{"key": 5, "value": now}]),
        (None, []),
    ]


def test_a_type_change_that_java_cannot_read_names_file_and_column() -> None:
    with pytest.raises(Unsupported, match=r"data-1\.parquet, column d: a cast from FLOAT to DATE"):
        project(ROWS.lazy(), FILE, (t.DataField(2, "d", t.DateType()),), where="data-1.parquet")


class TestPushdown:
    """Columns whose type is unchanged stay plain columns, so that the scan reads and filters only what is needed."""

    @pytest.fixture
    def scan(self, tmp_path: Path) -> pl.LazyFrame:
        ROWS.write_parquet(tmp_path / "file.parquet")
        return pl.scan_parquet(tmp_path / "file.parquet")

    def test_an_unchanged_schema_is_the_scan_itself(self, scan: pl.LazyFrame) -> None:
        plan = project(scan, FILE, FILE).filter(pl.col("id") > 1).select("id").explain()
        assert "PROJECT 1/5 COLUMNS" in plan
        assert filtered_in_scan(plan, "id")

    def test_filters_go_through_a_renaming(self, scan: pl.LazyFrame) -> None:
        plan = project(scan, FILE, READ).filter(pl.col("renamed") == "x").select("renamed").explain()
        assert "PROJECT 1/5 COLUMNS" in plan
        assert filtered_in_scan(plan, "c")

    def test_a_cast_column_does_not_keep_the_others_filters_from_the_scan(self, scan: pl.LazyFrame) -> None:
        lazy = project(scan, FILE, READ).filter(pl.col("id") > 1).select("id", "n")
        assert "PROJECT 2/5 COLUMNS" in lazy.explain()
        assert filtered_in_scan(lazy.explain(), "id")
        assert lazy.collect().rows() == [(2, None)]


def filtered_in_scan(plan: str, column: str) -> bool:
    """Check whether Polars' plan filters this column in the scan and nowhere after it."""
    return "FILTER" not in plan and re.search(rf'SELECTION: .*col\("{column}"\)', plan) is not None


def test_only_needed_columns_are_read_from_the_file() -> None:
    assert [field.name for field in select_file_columns(FILE, READ)] == ["id", "a", "c", "n"]
    assert select_file_columns(FILE, READ[:1]) == ()


SHORT = (
    t.DataField(1, "old", t.TinyIntType()),
    t.DataField(2, "s", t.VarCharType(length=3)),
    t.DataField(3, "d", t.DateType()),
)
LONG = (
    t.DataField(1, "i", t.IntType()),
    t.DataField(2, "t", t.VarCharType()),
    t.DataField(3, "d", t.VarCharType()),
    t.DataField(4, "new", t.IntType()),
)


@pytest.mark.parametrize(
    ("read", "file"),
    [
        (Leaf("t", Op.STARTS_WITH, ("a",)), Leaf("s", Op.STARTS_WITH, ("a",))),
        (Leaf("i", Op.LT, (5,)), Leaf("old", Op.LT, (5,))),
        (Leaf("i", Op.EQ, (300,)), NEVER),
        (Leaf("i", Op.IN, (5, 300)), Leaf("old", Op.IN, (5,))),
        (Leaf("i", Op.LT, (300,)), ALWAYS),
        (Leaf("i", Op.NOT_IN, (5, 300)), ALWAYS),
        (Leaf("d", Op.EQ, ("2020-01-01",)), ALWAYS),
        (Leaf("d", Op.IS_NULL), ALWAYS),
        (Leaf("d", Op.IS_NOT_NULL), Leaf("d", Op.IS_NOT_NULL)),
        (Leaf("new", Op.IS_NULL), ALWAYS),
        (Leaf("new", Op.IS_NOT_NULL), NEVER),
        (Leaf("new", Op.NE, (1,)), NEVER),
        (Leaf("unknown", Op.EQ, (1,)), ALWAYS),
        (And((Leaf("i", Op.GT, (1,)), Leaf("d", Op.EQ, ("x",)))), Leaf("old", Op.GT, (1,))),
        (And((Leaf("i", Op.GT, (1,)), Leaf("new", Op.EQ, (1,)))), NEVER),
        (Or((Leaf("i", Op.GT, (1,)), Leaf("d", Op.EQ, ("x",)))), ALWAYS),
        (Or((Leaf("i", Op.GT, (1,)), Leaf("new", Op.EQ, (1,)))), Leaf("old", Op.GT, (1,))),
    ],
    ids=str,
)
def test_a_filter_for_the_files_statistics(read: Predicate, file: Predicate) -> None:
    assert translate_predicate(read, SHORT, LONG) == file


def keeps(predicate: Predicate, row: dict[str, object]) -> bool:
    """Evaluate the predicate on a row in the simplest way."""
    if isinstance(predicate, Leaf):
        value = row[predicate.column]
        if value is None or predicate.op in (Op.IS_NULL, Op.IS_NOT_NULL):
            return (value is None) is (predicate.op is Op.IS_NULL)
        return bool(COMPARE[predicate.op](value, predicate.literals))
    results = [keeps(child, row) for child in predicate.children]
    return all(results) if isinstance(predicate, And) else any(results)


COMPARE: dict[Op, Callable[[Any, tuple[Any, ...]], bool]] = {
    Op.EQ: lambda value, given: value == given[0],
    Op.NE: lambda value, given: value != given[0],
    Op.LT: lambda value, given: value < given[0],
    Op.LE: lambda value, given: value <= given[0],
    Op.GT: lambda value, given: value > given[0],
    Op.GE: lambda value, given: value >= given[0],
    Op.IN: lambda value, given: value in given,
    Op.NOT_IN: lambda value, given: value not in given,
}
numbers = st.sampled_from([-129, -128, -1, 0, 1, 127, 128, 300])
texts = st.sampled_from(["", "1970-01-01", "1970-01-02", "1970-01-12", "z"])


def leaf(column: str, literals: st.SearchStrategy[object]) -> st.SearchStrategy[Predicate]:
    one = st.builds(Leaf, st.just(column), st.sampled_from(list(COMPARE)[:6]), st.tuples(literals))
    several = st.builds(
        Leaf,
        st.just(column),
        st.sampled_from([Op.IN, Op.NOT_IN]),
        st.lists(literals, min_size=1, max_size=3).map(tuple),
    )
    return one | several | st.builds(Leaf, st.just(column), st.sampled_from([Op.IS_NULL, Op.IS_NOT_NULL]))


leaves = leaf("i", numbers) | leaf("new", numbers) | leaf("d", texts)
predicates = st.recursive(
    leaves,
    lambda inner: (
        st.builds(And, st.lists(inner, max_size=3).map(tuple)) | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
file_rows = st.fixed_dictionaries(
    {
        "old": st.none() | st.sampled_from([-128, -1, 0, 1, 127]),
        "s": st.none() | texts.filter(lambda text: len(text) <= 3),
        "d": st.none() | st.sampled_from([dt.date(1970, 1, 1), dt.date(1970, 1, 12)]),
    }
)


@given(predicates, file_rows)
def test_a_translated_filter_never_loses_a_row(predicate: Predicate, row: dict[str, object]) -> None:
    frame = pl.LazyFrame([row], schema=to_polars_schema(SHORT))
    evolved = project(frame, SHORT, LONG).collect().row(0, named=True)
    if keeps(predicate, evolved):
        assert keeps(translate_predicate(predicate, SHORT, LONG), row)


# Row ids and snapshot numbers from the file's metadata, or stored in the file for copied rows; row kinds as text.

ID = t.DataField(0, "id", t.IntType())
ALL = (ID, ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD, ROWKIND_FIELD)


def file(path: Path, columns: dict[str, list[Any]], *, first: int | None, sequence: int) -> DataFile:
    """Write a data file that carries `columns` besides ``id``."""
    kinds = {field.name: field.type.arrow() for field in ALL}
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    target = path / f"data-{sequence}.parquet"
    pq.write_table(table, target)
    written = None if list(columns) == ["id"] else tuple(columns)
    size, rows = target.stat().st_size, table.num_rows
    ages = {"min_sequence": sequence, "max_sequence": sequence, "first_row_id": first, "write_columns": written}
    return DataFile(str(target), "parquet", size, rows, level=0, schema_id=0, **ages)


def rows(
    condition: str | None,
    *files: DataFile,
    kind: SectionKind = SectionKind.RAW,
    fields: Sequence[t.DataField] = ALL,
) -> list[tuple[Any, ...]]:
    plan = ScanPlan(
        table="t",
        schema=TableSchema(id=0, fields=ALL, highest_field_id=0),
        columns=tuple(field.name for field in fields),
        filter=parse_filter(condition, ALL),
        sections=(Section(kind, (), 0, files),),
        file_fields={0: (ID,)},
    )
    whole = execute.to_arrow(plan, LocalStore())
    assert pa.Table.from_batches(execute.to_batches(plan, LocalStore(), 2), whole.schema) == whole
    assert execute.count(plan, LocalStore()) == whole.num_rows
    return execute.to_polars(plan, LocalStore()).rows()


def test_rows_are_numbered_from_the_first_id_of_their_file(tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    assert rows(None, one, two) == [(7, 10, 1, "+I"), (8, 11, 1, "+I"), (9, 30, 2, "+I")]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id > 7", [8, 9]),
        ("_ROW_ID = 11", [8]),
        ("_SEQUENCE_NUMBER > 1", [9]),
        ("rowkind = '-D'", []),
        ("id % 2 = 0", [8]),
    ],
)
def test_filters_see_them(condition: str, ids: list[int], tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    assert [row[0] for row in rows(condition, one, two)] == ids


def test_what_a_file_carries_counts_and_its_nulls_are_filled(tmp_path: Path) -> None:
    carrying = file(tmp_path, {"id": [1, 2], "_ROW_ID": [5, None], "_SEQUENCE_NUMBER": [None, 3]}, first=20, sequence=9)
    assert rows(None, carrying) == [(1, 5, 9, "+I"), (2, 21, 3, "+I")]


def test_a_file_without_row_ids_gives_none(tmp_path: Path) -> None:
    assert rows(None, file(tmp_path, {"id": [1]}, first=None, sequence=1)) == [(1, None, 1, "+I")]


@pytest.mark.parametrize(
    ("field", "values"), [(ROW_ID_FIELD, [10, 11, 30]), (SEQUENCE_NUMBER_FIELD, [1, 1, 2]), (ROWKIND_FIELD, ["+I"] * 3)]
)
def test_nothing_else_has_to_be_read(field: t.DataField, values: list[Any], tmp_path: Path) -> None:
    one = file(tmp_path, {"id": [7, 8]}, first=10, sequence=1)
    two = file(tmp_path, {"id": [9]}, first=30, sequence=2)
    for kind in (SectionKind.RAW, SectionKind.STITCH):
        found = [row for f in (one, two) for row in rows(None, f, kind=kind, fields=[field])]
        assert found == [(value,) for value in values]
    assert rows(None, one, two, fields=[field]) == [(value,) for value in values]


def test_of_files_with_different_columns_of_the_same_rows_the_newest_tells(tmp_path: Path) -> None:
    old = file(tmp_path, {"id": [1, 2]}, first=4, sequence=1)
    new = msgspec.structs.replace(file(tmp_path, {"id": [3, 4]}, first=4, sequence=2), write_columns=("id",))
    assert rows(None, old, new, kind=SectionKind.STITCH) == [(3, 4, 2, "+I"), (4, 5, 2, "+I")]


# Streams that end early are errors: Polars ends them silently when it panics.


@pytest.fixture
def unreadable(golden_root: Path) -> Path:
    """Return a table whose newest snapshot Java cannot read either: a file lacks a value that its column requires."""
    return golden_root / "versions" / "1.0.1" / "pu_random_seqgroup" / "warehouse" / "db.db" / "t"


def first_file(table: Path) -> str:
    scan = morrow.open(table).scan()
    return max((file for file in scan.plan.files), key=lambda file: file.row_count == 135).path


def test_a_panic_ends_no_stream_quietly(unreadable: Path) -> None:
    frame = pl.scan_parquet(first_file(unreadable)).select("k0")
    with pytest.raises(pl.exceptions.ComputeError, match="broke off"):
        list(collect_batches(frame))


@pytest.mark.parametrize("face", ["to_batches", "to_arrow", "dataset", "to_duckdb"])
def test_no_face_loses_rows_to_a_panic(unreadable: Path, face: str) -> None:
    scan = morrow.open(unreadable).scan(["k0"])
    faces = {
        "to_batches": lambda: list(scan.to_batches()),
        "to_arrow": scan.to_arrow,
        "dataset": lambda: scan.dataset().to_table(),
        "to_duckdb": lambda: scan.to_duckdb().fetchall(),
    }
    with pytest.raises(Exception, match=r"data-.*parquet"):
        faces[face]()


def test_rows_come_as_they_are_in_batches(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": range(10), END: ["x"] * 10, "c": [[1]] * 10, "d": [{"e": None}] * 10})
    rows.write_parquet(tmp_path / "f")
    found = list(collect_batches(pl.scan_parquet(tmp_path / "f"), 3))
    assert pl.concat(found).equals(rows)
    assert max(batch.height for batch in found) == 3
    assert list(collect_batches(rows.lazy().filter(pl.lit(False)))) == []


def test_data_to_write_that_breaks_off(tmp_path: Path, unreadable: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", schema="k0 INT")
    with pytest.raises(pl.exceptions.ComputeError):
        table.append(pl.scan_parquet(first_file(unreadable)).select("k0"))
    assert table.snapshots() == []


def test_many_frames_are_collected_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    collect_all = pl.collect_all
    monkeypatch.setattr(pl, "collect_all", lambda given, **how: asked.append(len(given)) or collect_all(given, **how))
    frames = [pl.LazyFrame({"n": [i]}) for i in range(300)]
    for stream in (False, True):
        found = collect_frames(frames, stream=stream)
        assert [frame["n"][0] for frame in found] == list(range(300))
    assert asked == [128, 128, 44] * 2
    assert collect_frames([]) == []
