"""Files of a few rows described in one batch get the same bytes and metadata as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.structs import replace
from morrow.writers.files.data_files import FileDescription, FileKind
from morrow.writers.target import WriteTarget
from tests.support.hostile_names import in_avro
from tests.writers.files.targets import DEEP, KINDS, frame, random_columns, random_rows, target, versions

NAN, MINUS_NAN = float("nan"), -float("nan")
EVERYWHERE = [
    kind for kind in KINDS if not isinstance(kind, (t.ArrayType, t.MapType, t.RowType, t.TimestampType, t.TimeType))
]
"""Types whose values every format can store."""
NOT_KEYS = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VariantType, t.VectorType)


def same(kind: FileKind, together: FileDescription, alone: FileDescription) -> None:
    bodies = [(bytes(d.block.body), d.block.rows, d.block.size, d.block.details) for d in (together, alone)]
    assert kind.format != "parquet" or bodies[0] == bodies[1]  # other formats contain random bytes
    assert kind.metadata([together], (5, None)) == kind.metadata([alone], (5, None))
    assert kind.metadata([together, together], (5, None)) == kind.metadata([alone, alone], (5, None))
    assert kind.index([together]) == kind.index([alone])


def check(table: WriteTarget, frames: list[pl.DataFrame]) -> None:
    kind = FileKind.of(table, 0, changelog=False)
    for rows, describe in zip(frames, kind.describe_each(frames), strict=True):
        same(kind, describe(), kind.describe(rows))


@settings(max_examples=max(settings().max_examples // 4, 3))
@given(data=st.data())
def test_any_rows(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    format_ = data.draw(st.sampled_from(["parquet", "parquet", "orc", "avro"]))
    kinds = [*KINDS, *DEEP] if format_ == "parquet" else EVERYWHERE
    fields = data.draw(random_columns(kinds, in_avro if format_ == "avro" else bool))
    mode = data.draw(st.sampled_from(["truncate(16)", "truncate(2)", "full", "counts", "none"]))
    dense = data.draw(st.sampled_from(["true", "false"]))
    options = {"file.format": format_, "metadata.stats-mode": mode, "metadata.stats-dense-store": dense}
    if format_ == "parquet" and data.draw(st.booleans()):
        options["parquet.enable.dictionary"] = "false"
    table = target(tmp_path_factory.mktemp("t"), fields, options=options)
    check(table, data.draw(st.lists(random_rows(fields), min_size=1, max_size=5)))


@settings(max_examples=max(settings().max_examples // 4, 3))
@given(data=st.data())
def test_any_versions_of_any_keys(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also with the bounds of keys, sequence numbers and retractions, which no order of rows is needed for."""
    format_ = data.draw(st.sampled_from(["parquet", "parquet", "orc", "avro"]))
    fields = data.draw(random_columns([*KINDS] if format_ == "parquet" else EVERYWHERE, in_avro))
    keys = [f.name for f in fields if not isinstance(f.type, NOT_KEYS)][:3]
    assume(keys)
    fields = tuple(replace(f, type=f.type.with_nullable(f.name not in keys and f.type.nullable)) for f in fields)
    options = {
        "file.format": format_,
        "metadata.stats-mode": data.draw(st.sampled_from(["truncate(2)", "full", "none"])),
    }
    if format_ == "parquet":
        options["data-file.thin-mode"] = data.draw(st.sampled_from(["true", "false"]))
    table = target(tmp_path_factory.mktemp("t"), fields, keys=keys, options=options)
    rows = data.draw(st.lists(random_rows(fields), min_size=1, max_size=5))
    numbers = data.draw(st.lists(st.integers(-5, 2**62), min_size=len(rows), max_size=len(rows)))
    kinds = [data.draw(st.lists(st.integers(0, 3), min_size=each.height, max_size=each.height)) for each in rows]
    check(table, [versions(each, kinds=kind, first=first) for each, kind, first in zip(rows, kinds, numbers)])


FLOATS: list[list[Any]] = [
    [0.0, -0.0],
    [-0.0, 0.0],
    [-0.0],
    [NAN, 1.0],
    [NAN],
    [MINUS_NAN, 2.0],
    [None],
    [None, NAN],
    [float("inf"), -float("inf"), None],
    [5e-324, -5e-324],
]


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
def test_floats(format_: str, type_: str, tmp_path: Path) -> None:
    """Except in ORC, NaN sorts above all numbers and -0.0 below 0.0, in a batch as in a single file."""
    table = target(tmp_path, f"f {type_}; g {type_}", options={"file.format": format_})
    check(table, [frame(table, *zip(values, reversed(values))) for values in FLOATS])


def test_indexes(tmp_path: Path) -> None:
    options = {"file-index.bloom-filter.columns": "s", "file-index.bitmap.columns": "i"}
    table = target(tmp_path, "i INT; s STRING", options=options)
    check(table, [frame(table, (i, f"s{i}"), (None, "x")) for i in range(4)])


def test_frames_that_are_large(tmp_path: Path) -> None:
    """Row groups of 1000 rows choose their encodings from a sample."""
    table = target(tmp_path, "i INT; s STRING")
    check(table, [frame(table, *((i, f"s{i % 7}") for i in range(count))) for count in (1, 999, 1000, 3)])


def test_a_null_where_none_may_be(tmp_path: Path) -> None:
    table = target(tmp_path, "i INT NOT NULL")
    good, bad = (pl.DataFrame({"i": pl.Series(values, dtype=pl.Int32)}) for values in ([1], [2, None]))
    with pytest.raises(InvalidArgument, match="'i' is INT NOT NULL and would get a null"):
        FileKind.of(table, 0, changelog=False).describe_each([good, bad, good])
