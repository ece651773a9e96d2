"""Arrow arrays from raw buffers may break their type's rules: every writer refuses them or keeps their values."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.cli import writing
from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.schema.creation import build_first_schema
from morrow.engine.schema.sql_columns import parse_type
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_array, to_series
from morrow.tables.format_table import FormatTable
from morrow.writers.ingest.conversion import cast_lossless
from morrow.writers.ingest.sources import open_source
from tests.support.raw_arrays import LAYOUTS, Layout, damaged, has_sound_buffers, sound
from tests.support.written import new_table

SEEDS = st.integers(0, 2**32)
ROWS = 5
FEW = settings(max_examples=max(settings().max_examples // 10, 1))


def checked(layout: Layout, array: pa.Array) -> pa.Array:
    """Return the values after the conversions of a writer, to Polars and back."""
    field = t.DataField(0, "v", parse_type(layout.sql, "v"))
    (piece,) = open_source(pa.table({"v": array}), (field,)).pieces
    made = cast_lossless(piece.column("v"), field, 0)
    return to_arrow_array(to_series("v", made, field.type), field.type)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(seed=SEEDS)
@FEW
def test_sound_arrays_of_every_layout_are_kept(layout: Layout, seed: int) -> None:
    array = sound(random.Random(seed), layout, ROWS)
    assert checked(layout, array).to_pylist() == array.to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(seed=SEEDS)
@FEW
def test_damaged_arrays_are_refused_or_kept(layout: Layout, seed: int) -> None:
    rng = random.Random(seed)
    try:
        array = damaged(rng, sound(rng, layout, ROWS))
    except (pa.ArrowException, IndexError):
        return
    try:
        kept = checked(layout, array)
    except InvalidArgument as error:
        assert "column 'v" in str(error)
        return
    array.validate(full=True)
    assert without_nan(kept) == without_nan(array)


def without_nan(array: pa.Array | pa.ChunkedArray) -> list[object]:
    return [None if value != value else value for value in array.to_pylist()]


FACES: dict[str, Callable[[morrow.Table, pa.Table], object]] = {
    "append": lambda table, rows: table.append(rows),
    "batches": lambda table, rows: table.append(iter(rows.to_batches())),
    "stream": lambda table, rows: table.append(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())),
    "dataset": lambda table, rows: table.append(ds.dataset(rows)),
    "polars": lambda table, rows: table.append(pl.DataFrame([pl.Series("id", rows["id"]), _series(rows["v"])])),
    "lazy": lambda table, rows: table.append(pl.LazyFrame([pl.Series("id", rows["id"]), _series(rows["v"])])),
    "pandas": lambda table, rows: table.append(rows.to_pandas(types_mapper=pd.ArrowDtype)),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "merge schema": lambda table, rows: table.append(rows, schema_mode="merge"),
    "merge": lambda table, rows: table.merge(rows, on="id").when_not_matched_insert().execute(),
    "writer": lambda table, rows: _written(table, rows),
    "command line": lambda table, rows: _by_command_line(table, rows),
}
UPSERTS: dict[str, Callable[[morrow.Table, pa.Table], object]] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "merge": lambda table, rows: table.merge(rows, on="id").when_matched_update().when_not_matched_insert().execute(),
    "writer": lambda table, rows: _written(table, rows),
}


CONVERTED = {"polars", "lazy", "pandas", "command line"}
"""Inputs that other libraries convert, so that Morrow cannot check the broken buffers."""


def _series(column: pa.ChunkedArray) -> pl.Series:
    return pl.Series("v", pl.from_arrow(column))


def _written(table: morrow.Table, rows: pa.Table) -> None:
    with table.writer() as writer:
        writer.write(rows)


def _by_command_line(table: morrow.Table, rows: pa.Table) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.arrow"
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        writing.append(table.path, file, None)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "json"])
@given(seed=SEEDS)
@FEW
def test_format_tables_refuse_damaged_arrays_or_keep_them(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, seed: int
) -> None:
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    try:
        array = damaged(rng, sound(rng, layout, ROWS))
    except (pa.ArrowException, IndexError):
        return
    schema = build_first_schema(f"id INT, v {layout.sql}", where="t")
    schema = replace(schema, options={**schema.options, "file.format": file_format, "type": FORMAT_TABLE})
    folder = tmp_path_factory.mktemp("t")
    table = FormatTable(FolderTable(LocalStore(), str(folder), FORMAT_TABLE, schema, "t"))
    try:
        table.append(pa.table({"id": pa.array(range(ROWS), pa.int32()), "v": array}))
    except MorrowError:
        assert not any(path.is_file() for path in folder.rglob("*"))
        return
    assert without_nan(table.scan().to_arrow().sort_by("id")["v"]) == without_nan(array)


@pytest.mark.parametrize("keyed", [False, True], ids=["append table", "primary key"])
@given(seed=SEEDS)
@settings(max_examples=settings().max_examples // 2)
def test_each_writer_refuses_damaged_arrays_or_keeps_them(
    tmp_path_factory: pytest.TempPathFactory, keyed: bool, seed: int
) -> None:
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    array = sound(rng, layout, ROWS)
    try:
        array = damaged(rng, array) if rng.random() < 0.8 else array
    except (pa.ArrowException, IndexError):
        return
    columns = f"id INT NOT NULL, v {layout.sql}"
    table = new_table(tmp_path_factory.mktemp("t"), columns, keys=("id",) if keyed else ())
    faces = UPSERTS if keyed else FACES
    name = rng.choice(sorted(faces if has_sound_buffers(array) else faces.keys() - CONVERTED))
    rows = pa.table({"id": pa.array(range(ROWS), pa.int32()), "v": array})
    try:
        faces[name](table, rows)
    except MorrowError:
        assert table.scan().to_arrow().num_rows == 0, name
        return
    assert without_nan(table.scan().to_arrow().sort_by("id")["v"]) == without_nan(array), name
