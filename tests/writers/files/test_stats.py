"""Statistics of columns and keys in the metadata of data files."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_row
from morrow.engine.format.manifest_entries import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from morrow.writers.target import WriteTarget
from tests.support.hostile_names import PATTERNS
from tests.writers.files.targets import bounds, columns, frame, read, target, versions, write, write_one

TEXT = "id INT; name STRING"
LONG = "abcdefghijklmnopqrstuvwxyz"


def text_bounds(mode: str, *values: str | None, folder: Path) -> tuple[Any, Any, int | None]:
    table = target(folder, "name STRING", options={"metadata.stats-mode": mode})
    return bounds(table, write_one(table, frame(table, *[(v,) for v in values])))["name"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("truncate(16)", ("abc", "abcdefghijklmnoq", 1)),
        ("TRUNCATE(3)", ("abc", "abd", 1)),
        ("full", ("abc", LONG, 1)),
        ("counts", (None, None, 1)),
    ],
)
def test_modes(mode: str, expected: Any, tmp_path: Path) -> None:
    assert text_bounds(mode, LONG, None, "abc", folder=tmp_path) == expected


def test_no_statistics(tmp_path: Path) -> None:
    table = target(tmp_path, TEXT, options={"metadata.stats-mode": "none"})
    file = write_one(table, frame(table, (1, "a")))
    assert (file.value_stats_cols, file.value_stats) == ((), EMPTY_STATS)
    sparse = target(tmp_path, TEXT, options={"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"})
    file = write_one(sparse, frame(table, (1, "a")))
    assert file.value_stats_cols is None
    assert bounds(sparse, file) == {"id": (None, None, None), "name": (None, None, None)}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("ab", "ab"),
        ("abcd", "abd"),
        ("ab\U0010ffffd", "ac"),
        ("a\U0010ffff\U0010ffffd", "b"),
        ("\U0010ffff" * 4, None),
        ("ab\ud7ffd", "ab\ue000"),
        ("äöü€", "äöý"),
    ],
)
def test_an_upper_bound_is_the_next_text_of_that_length(text: str, bound: str | None, tmp_path: Path) -> None:
    low = None if bound is None else text[:3]
    assert text_bounds("truncate(3)", text, folder=tmp_path) == (low, bound, 0)


def test_columns_have_modes_of_their_own(tmp_path: Path) -> None:
    options = {
        "metadata.stats-keep-first-n-columns": "1",
        "fields.c.stats-mode": "counts",
        "fields.d.stats-mode": "full",
    }
    table = target(tmp_path, "a INT; b INT; c INT; d INT", options=options)
    file = write_one(table, frame(table, (1, 2, 3, 4), (5, None, None, 8)))
    assert bounds(table, file) == {"a": (1, 5, 0), "c": (None, None, 1), "d": (4, 8, 0)}


def test_levels_and_changelogs_have_modes_of_their_own(tmp_path: Path) -> None:
    options = {
        "metadata.stats-mode": "counts",
        "metadata.stats-mode.per.level": "0:none,5:full",
        "changelog-file.stats-mode": "full",
    }
    table = target(tmp_path, "k INT NOT NULL; v INT", keys=["k"], options=options)
    rows = versions(frame(table, (1, 2)))

    def covered(level: int, *, changelog: bool = False) -> Any:
        return bounds(table, write_one(table, rows, level=level, changelog=changelog)).get("v")

    assert [covered(0), covered(4), covered(5), covered(0, changelog=True)] == [
        None,
        (None, None, 0),
        (2, 2, 0),
        (2, 2, 0),
    ]


def test_keys_keep_128_characters_whatever_the_mode_says(tmp_path: Path) -> None:
    table = target(tmp_path, "v INT; k STRING NOT NULL", keys=["k"], options={"metadata.stats-mode": "none"})
    file = write_one(table, versions(frame(table, (1, "a"), (2, "b" * 200))))
    kinds = [table.schema.by_name["k"].type]
    assert decode_row(file.key_stats.min_values, kinds, where="") == ("a",)
    assert decode_row(file.key_stats.max_values, kinds, where="") == ("b" * 127 + "c",)
    assert decode_row(file.max_key, kinds, where="") == ("b" * 200,)


def test_avro_treats_keys_like_other_columns(tmp_path: Path) -> None:
    options = {"file.format": "avro", "metadata.stats-mode": "none"}
    table = target(tmp_path, "k STRING NOT NULL; v INT", keys=["k"], options=options)
    file = write_one(table, versions(frame(table, ("a", 1))))
    assert decode_row(file.key_stats.min_values, [table.schema.by_name["k"].type], where="") == (None,)


def test_thin_mode_takes_key_statistics_from_the_columns(tmp_path: Path) -> None:
    options = {"data-file.thin-mode": "true", "metadata.stats-mode": "counts", "fields.a.stats-mode": "full"}
    table = target(tmp_path, "v INT; b INT NOT NULL; a INT NOT NULL", keys=["a", "b"], options=options)
    file = write_one(table, versions(frame(table, (9, 4, 1), (8, 3, 2))))
    assert bounds(table, file) == {"v": (None, None, 0), "b": (3, 4, 0), "a": (1, 2, 0)}
    kinds = [t.IntType(), t.IntType()]
    assert decode_row(file.key_stats.min_values, kinds, where="") == (1, 3)
    assert decode_row(file.min_key, kinds, where="") == (1, 4)


NAN = math.nan


@pytest.mark.parametrize(
    ("format_", "values", "low", "high"),
    [
        ("parquet", (1.0, NAN, -2.0), -2.0, NAN),
        ("avro", (1.0, NAN, -2.0), -2.0, NAN),
        ("orc", (1.0, NAN, -2.0), -2.0, 1.0),
        ("parquet", (0.0, -0.0), -0.0, 0.0),
        ("avro", (-0.0, 0.0, None), -0.0, 0.0),
        ("parquet", (NAN, NAN), NAN, NAN),
        ("parquet", (None, None), None, None),
        ("parquet", (math.inf, -math.inf), -math.inf, math.inf),
    ],
)
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floats(kind: str, format_: str, values: Any, low: Any, high: Any, tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, f"x {kind}", options={"file.format": format_})
    for repeat in (1, small_blocks):
        found = bounds(table, write_one(table, frame(table, *[(v,) for v in values for _ in range(repeat)])))["x"]
        assert [str(bound) for bound in found[:2]] == [str(low), str(high)]


@pytest.mark.parametrize("name", PATTERNS)
def test_names_that_are_patterns_in_files_of_several_blocks(name: str, tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, f"{name} DOUBLE; i INT; t STRING")
    rows = [(value, number, f"{number:03}") for number, value in enumerate([1.0, NAN, -0.0] * small_blocks)]
    found = bounds(table, write_one(table, frame(table, *rows)))
    assert str(found[name]) == "(-0.0, nan, 0)"
    assert (found["i"], found["t"]) == ((0, len(rows) - 1, 0), ("000", f"{len(rows) - 1:03}", 0))


NEW_YEAR = dt.datetime(2024, 1, 1)
NO_BOUNDS = (None, None, 0)


@pytest.mark.parametrize(
    ("format_", "known"),
    [
        ("parquet", {"micros": (NEW_YEAR, NEW_YEAR, 0), "raw": NO_BOUNDS, "nanos": NO_BOUNDS}),
        ("orc", {"micros": (NEW_YEAR, NEW_YEAR, 0), "raw": NO_BOUNDS, "list": NO_BOUNDS}),
        ("avro", {"micros": (NEW_YEAR, NEW_YEAR, 0), "raw": NO_BOUNDS, "list": NO_BOUNDS}),
    ],
)
def test_what_java_finds_in_the_footers_of_each_format(format_: str, known: Any, tmp_path: Path) -> None:
    schema = [*columns("micros TIMESTAMP(6); raw BYTES"), t.DataField(2, "list", t.ArrayType(element=t.IntType()))]
    if format_ == "parquet":
        schema.append(t.DataField(3, "nanos", t.TimestampType(precision=9)))
    table = target(tmp_path, schema, options={"file.format": format_})
    row = (NEW_YEAR, b"x", [1], NEW_YEAR)
    assert bounds(table, write_one(table, frame(table, row[: len(schema)]))) == known


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_struct_may_be_null_where_its_members_may_not(format_: str, tmp_path: Path) -> None:
    row = t.RowType(fields=(t.DataField(1, "a", t.IntType(nullable=False)),))
    table = target(tmp_path, [t.DataField(0, "r", row)], options={"file.format": format_})
    file = write_one(table, frame(table, ({"a": 1},), (None,)))
    assert read(table, file)["r"].to_list() == [{"a": 1}, None]


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    "texts",
    [["b", None, "", "é"], ["😀", "\uffff", "a"], ["x" * 33, "x" * 32, "y" * 300], ["y" * 5000, "é" * 5000], [None]],
    ids=["short", "by bytes", "long", "longer than the statistics of Parquet", "none"],
)
def test_text_is_bounded_by_its_least_and_greatest_value(format_: str, texts: list[str | None], tmp_path: Path) -> None:
    """In Parquet, too, the bounds come from the right leaf among the leaves of all columns."""
    text = "text" if format_ == "avro" else "te.xt"
    before = t.DataField(0, "r", t.RowType(fields=(t.DataField(1, "a", t.IntType()), t.DataField(2, "b", t.IntType()))))
    fields = [before, *(t.DataField(i, name, t.VarCharType(length=9999)) for i, name in ((3, text), (4, "fixed")))]
    table = target(tmp_path, fields, options={"file.format": format_, "metadata.stats-mode": "full"})
    found = bounds(table, write_one(table, frame(table, *[(None, each, "one") for each in texts])))
    ordered = sorted((each for each in texts if each is not None), key=str.encode)
    long = format_ == "orc" and any(len(each.encode()) > 1024 for each in ordered)
    assert found["fixed"] == ("one", "one", 0)
    assert long or found[text] == (*([ordered[0], ordered[-1]] if ordered else [None, None]), texts.count(None))


def test_orc_keeps_no_bounds_of_long_texts(tmp_path: Path) -> None:
    options = {"file.format": "orc", "metadata.stats-mode": "full"}
    table = target(tmp_path, "name STRING", options=options)
    assert bounds(table, write_one(table, frame(table, ("a",), ("b" * 1025,))))["name"] == ("a", None, 0)


def test_metadata_of_a_keyed_file(tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, "v INT; k BIGINT NOT NULL", keys=["k"])
    rows = versions(
        frame(table, *[(i % 5, i) for i in range(3 * small_blocks)]), kinds=[i % 4 for i in range(3 * small_blocks)]
    )
    rows = rows.with_columns(rows["_SEQUENCE_NUMBER"].reverse())
    file = write_one(table, rows, level=4)
    retractions = sum(i % 4 in (1, 3) for i in range(3 * small_blocks))
    assert (file.row_count, file.delete_row_count) == (3 * small_blocks, retractions)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3 * small_blocks - 1)
    assert [decode_row(key, [t.BigIntType()], where="") for key in (file.min_key, file.max_key)] == [
        (0,),
        (3 * small_blocks - 1,),
    ]
    assert bounds(table, file) == {"v": (0, 4, 0), "k": (0, 3 * small_blocks - 1, 0)}
    assert (file.level, file.file_source, file.schema_id, file.extra_files) == (4, FileSource.APPEND, 3, ())


def test_metadata_of_an_append_file(tmp_path: Path) -> None:
    table = target(tmp_path, TEXT)
    file = write_one(table, frame(table, (2, None), (1, "a")), first_sequence=7)
    assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (7, 8, 0)
    assert bounds(table, file) == {"id": (1, 2, 0), "name": ("a", "a", 1)}


def test_creation_times_are_those_of_the_wall_clock(tmp_path: Path) -> None:
    table = target(tmp_path, TEXT)
    file: DataFileMeta = write_one(table, frame(table, (1, "a")))
    wall = dt.datetime.now()
    assert abs(dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=file.creation_time) - wall) < dt.timedelta(minutes=1)


@pytest.mark.parametrize("mode", ["truncate(0)", "truncate(x)", "most"])
def test_unknown_modes_are_refused(mode: str, tmp_path: Path) -> None:
    table: WriteTarget = target(tmp_path, TEXT, options={"fields.id.stats-mode": mode})
    with pytest.raises(InvalidArgument, match="is not none, counts, full or truncate"):
        write(table, frame(table, (1, "a")))
