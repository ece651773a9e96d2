"""The options ``file-index.*``: which indexes a table gets."""

from __future__ import annotations

import datetime as dt
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.file_index import (
    ALL,
    build_container,
    build_index,
    find_requested_indexes,
    read_file_index,
    write_container,
)
from morrow.engine.format.file_index.bloom_filter import hash_bytes as xxh64_of_one
from morrow.engine.format.file_index.bloom_filter import hash_strings
from morrow.engine.format.file_index.container import INDEX_KINDS
from morrow.engine.format.file_index.keys import to_ragged
from morrow.engine.format.file_index.row_sets import write_many, write_rows
from morrow.engine.format.types import DataField, MapType, from_json, parse_atomic
from morrow.readers.casts.dtypes import to_polars_dtype, to_polars_schema
from tests.engine.format.file_index.test_golden_probes import CASES
from tests.engine.format.file_index.test_java_indexes import CASE, COMPARE, matches, opened, row_set

INT, TEXT = parse_atomic("INT"), parse_atomic("STRING")
FIELDS = (DataField(0, "a", INT), DataField(1, "s", TEXT), DataField(2, "m", MapType(key=TEXT, value=INT)))


def test_columns_kinds_and_parameters() -> None:
    options = {
        "file-index.bloom-filter.columns": "a, s",
        "file-index.bloom-filter.a.items": "200",
        "file-index.bitmap.columns": "a",
        "file-index.in-manifest-threshold": "1 kb",
        "file-index.read.enabled": "true",
        "bucket": "-1",
    }

    wanted = find_requested_indexes(options, FIELDS)

    assert [(each.kind, each.name, dict(each.options)) for each in wanted] == [
        ("bloom-filter", "a", {"items": "200"}),
        ("bloom-filter", "s", {}),
        ("bitmap", "a", {}),
    ]


def test_keys_of_a_map_inherit_the_parameters_of_the_column() -> None:
    options = {
        "file-index.bitmap.columns": "m[x],m[y]",
        "file-index.bitmap.m.version": "1",
        "file-index.bitmap.m[y].version": "2",
    }

    wanted = find_requested_indexes(options, FIELDS)

    assert [(each.name, each.key, dict(each.options)) for each in wanted] == [
        ("m[x]", "x", {"version": "1"}),
        ("m[y]", "y", {"version": "2"}),
    ]


def test_the_values_of_a_map_key_are_indexed() -> None:
    wanted = find_requested_indexes({"file-index.bitmap.columns": "m[x]"}, FIELDS)
    rows = [{"m": [{"key": "x", "value": 1}, {"key": "z", "value": 2}]}, {"m": [{"key": "z", "value": 1}]}, {"m": None}]
    frame = pl.DataFrame(rows, schema={"m": to_polars_schema(FIELDS)["m"]})

    index = read_file_index(build_container(frame, wanted), where="t")

    assert index.evaluate("m[x]", INT, "=", (1,)).mask(3).tolist() == [True, False, False]
    assert index.evaluate("m[x]", INT, "IS NULL").mask(3).tolist() == [False, True, True]


def test_a_map_without_rows_has_no_index_body() -> None:
    wanted = find_requested_indexes({"file-index.bitmap.columns": "m[x]"}, FIELDS)

    index = read_file_index(
        build_container(pl.DataFrame(schema={"m": to_polars_schema(FIELDS)["m"]}), wanted), where="t"
    )

    assert index.evaluate("m[x]", INT, "=", (1,)).is_none


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"file-index.bitmap.columns": "a,,s"}, InvalidArgument, "empty column"),
        ({"file-index.bitmap.columns": "b"}, InvalidArgument, "names the column 'b'"),
        ({"file-index.bitmap.columns": "a[x]"}, InvalidArgument, "MAP with text keys"),
        ({"file-index.bitmap.columns": "m"}, Unsupported, "bitmap index on the column 'm'"),
        ({"file-index.trie.columns": "a"}, Unsupported, "trie"),
        ({"file-index.bitmap.columns": "a", "file-index.bitmap.s.version": "1"}, InvalidArgument, "does not name"),
    ],
)
def test_refusals(options: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        find_requested_indexes(options, FIELDS)


# Indexes that Morrow writes: the same bytes as Java's, and no matching row is ever ruled out.

JAVA_OPTIONS = {"items": "20", "fpp": "0.01", "chunk-size": "40b", "index-block-size": "100b"}
"""The options that `JavaIndexes.java` gives to every index."""
INT_TYPE = DataField(0, "c", parse_atomic("INT"))
KINDS = ["bloom-filter", "bitmap", "bsi", "range-bitmap"]


@CASE
def test_the_bytes_are_those_of_java(case: dict[str, Any]) -> None:
    _, data_type, values = opened(case)
    kind, _, version = case["index"].partition(" ")
    options = {**JAVA_OPTIONS, **({"version": version} if version else {})}
    column = pl.Series("c", values, to_polars_dtype(data_type))

    index = build_index(column, DataField(0, "c", data_type), kind, options)

    assert write_container({"c": {kind: index}}).hex() == case["bytes"]


@pytest.mark.golden
@pytest.mark.parametrize("case", [case for case in CASES if "1.0.1" not in case])  # 1.0.1 has fewer kinds
def test_the_containers_of_the_golden_tables(golden_root: Path, case: str) -> None:
    table = golden_root / case / "warehouse/db.db/t"
    schemas = {json.loads(path.read_text())["id"]: json.loads(path.read_text()) for path in table.glob("schema/*")}
    compared = 0
    for manifest in table.glob("manifest/manifest-*"):
        if "list" in manifest.name:
            continue
        with manifest.open("rb") as stream:
            metas = [entry["_FILE"] for entry in fastavro.reader(stream) if isinstance(entry, dict)]
        for meta in metas:
            extra = [next(table.rglob(each)).read_bytes() for each in meta["_EXTRA_FILES"] if each.endswith(".index")]
            written = meta["_EMBEDDED_FILE_INDEX"] or next(iter(extra), None)
            if written is None:
                continue
            schema = schemas[meta["_SCHEMA_ID"]]
            fields = [DataField(each["id"], each["name"], from_json(each["type"])) for each in schema["fields"]]
            frame = pl.read_parquet(next(table.rglob(meta["_FILE_NAME"])))

            built = build_container(
                frame.select(each.name for each in fields).cast(to_polars_schema(fields)),
                find_requested_indexes(schema["options"], fields),
            )

            assert built == written
            compared += 1
    assert compared


@given(
    st.sampled_from(["bitmap", "bsi", "range-bitmap", "bloom-filter"]),
    st.lists(st.none() | st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1), max_size=60),
    st.sampled_from([*COMPARE]),
    st.integers(-6, 6),
)
def test_every_row_that_matches_is_among_those_found(
    kind: str, values: list[int | None], op: str, literal: int
) -> None:
    container = write_container(
        {"c": {kind: build_index(pl.Series("c", values, pl.Int32), INT_TYPE, kind, {"items": "60"})}}
    )

    result = read_file_index(container, where="t").evaluate("c", INT_TYPE.type, op, (literal,), row_count=len(values))

    expected = {row for row, value in enumerate(values) if matches(op, value, literal)}
    assert row_set(result, len(values)) >= expected
    if result != ALL and kind != "bloom-filter":
        assert row_set(result, len(values)) == expected


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-3, 3),
    "FLOAT": st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.5]),
    "DOUBLE": st.floats() | st.sampled_from([0.0, -0.0, 1.5]),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "DATE": st.dates(),
    "TIME(3)": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "TIMESTAMP(3)": st.datetimes().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.datetimes(timezones=st.just(dt.UTC)),
    "STRING": st.text(st.characters(codec="utf-8"), max_size=8),
}


@given(data=st.data())
@settings(max_examples=max(settings().max_examples // 10, 1))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_text", VALUES)
def test_values_of_every_type_are_found(kind: str, type_text: str, data: st.DataObject) -> None:
    data_type = parse_atomic(type_text)
    if not INDEX_KINDS[kind].supports(data_type):
        with pytest.raises(Unsupported):
            build_index(pl.Series("c", [], to_polars_dtype(data_type)), DataField(0, "c", data_type), kind, {})
        return
    values = data.draw(st.lists(st.none() | VALUES[type_text], max_size=20))
    column = pl.Series("c", values, to_polars_dtype(data_type))
    index = build_index(column, DataField(0, "c", data_type), kind, {"items": "100", "chunk-size": "20b"})
    container = read_file_index(write_container({"c": {kind: index}}), where="t")
    literal = data.draw(st.sampled_from([each for each in values if each is not None] or [None]) | VALUES[type_text])

    for op in ("IS NULL", "IS NOT NULL", *(COMPARE if literal is not None else ())):
        result = container.evaluate("c", data_type, op, () if "NULL" in op else (literal,), row_count=len(values))

        expected = {row for row, value in enumerate(values) if matches(op, value, literal)}
        assert row_set(result, len(values)) >= expected, op


@given(st.lists(st.none() | st.text(max_size=40), max_size=40), st.text(max_size=3), st.integers(60, 200))
@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap", "bloom-filter"])
def test_text_is_found(kind: str, values: list[str | None], absent: str, block: int) -> None:
    values = [value and value.encode("utf-8", "replace").decode() for value in values]
    field = DataField(0, "c", parse_atomic("STRING"))
    options = {"index-block-size": f"{4 * block} b", "chunk-size": f"{block}b", "fpp": "0.01"}
    container = write_container({"c": {kind: build_index(pl.Series("c", values, pl.String), field, kind, options)}})
    index = read_file_index(container, where="t")

    for wanted in {*values, absent} - {None}:
        found = row_set(index.evaluate("c", field.type, "=", (wanted,)), len(values))

        assert found >= {row for row, value in enumerate(values) if value == wanted}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200_000)), min_size=1, unique=True, max_size=200))
def test_many_bitmaps_at_once_are_the_bitmaps_one_by_one(pairs: list[tuple[int, int]]) -> None:
    sets, rows = np.array(sorted(pairs)).T
    _, sets = np.unique(sets, return_inverse=True)

    many = write_many(sets, rows, int(sets[-1]) + 1)

    one_by_one = [write_rows(rows[sets == number], 200_001) for number in range(len(many))]
    assert [many.part(at, at + 1).data.tobytes() for at in range(len(many))] == one_by_one


def test_long_runs_and_dense_sets_at_once() -> None:
    row_count = 400_000
    sets = [np.arange(0, row_count, 3), np.arange(1, 60_000 * 3, 3), np.array([2, 5]), np.arange(270_002, 330_000)]
    rows = np.concatenate(sets)
    numbers = np.repeat(np.arange(len(sets)), [len(each) for each in sets])

    many = write_many(numbers, rows, len(sets))

    expected = [write_rows(each, row_count) for each in sets]
    assert [many.part(at, at + 1).data.tobytes() for at in range(len(sets))] == expected


@given(st.lists(st.binary(max_size=100)))
def test_the_hashes_of_many_byte_strings_are_those_of_each(strings: list[bytes]) -> None:
    hashes = hash_strings(to_ragged(pl.Series(strings, dtype=pl.Binary)))

    assert hashes.tolist() == [xxh64_of_one(each) for each in strings]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_rows(kind: str) -> None:
    index = build_index(pl.Series("c", [], pl.Int32), INT_TYPE, kind, {"items": "8"})

    answer = read_file_index(write_container({"c": {kind: index}}), where="t").evaluate("c", INT_TYPE.type, "=", (1,))

    assert answer.is_none


def test_names_are_modified_utf8() -> None:
    container = write_container({"a\0\U0001f600é": {"bitmap": None}})

    assert list(read_file_index(container, where="t").columns) == ["a\0\U0001f600é"]
    assert container[20:33] == struct.pack(">H", 11) + b"a\xc0\x80\xed\xa0\xbd\xed\xb8\x80\xc3\xa9"


@pytest.mark.parametrize(
    ("kind", "type_text", "options", "error"),
    [
        ("trie", "INT", {}, Unsupported),
        ("bsi", "STRING", {}, Unsupported),
        ("bloom-filter", "BOOLEAN", {}, Unsupported),
        ("range-bitmap", "TIMESTAMP(9)", {}, Unsupported),
        ("bitmap", "INT", {"version": "3"}, InvalidArgument),
        ("bitmap", "INT", {"index-block-size": "8 b"}, InvalidArgument),
        ("bloom-filter", "INT", {"fpp": "1.5"}, InvalidArgument),
        ("bloom-filter", "INT", {"items": "many"}, InvalidArgument),
        ("range-bitmap", "INT", {"chunk-size": "huge"}, InvalidArgument),
    ],
)
def test_what_no_index_is_built_for(kind: str, type_text: str, options: dict[str, str], error: type) -> None:
    data_type = parse_atomic(type_text)
    column = pl.Series("c", [None, None], to_polars_dtype(data_type)) if kind != "bitmap" else pl.Series("c", [1, 2])

    with pytest.raises(error):
        build_index(column, DataField(0, "c", data_type), kind, options)


def test_the_least_long_has_no_absolute_value() -> None:
    field = DataField(0, "c", parse_atomic("BIGINT"))

    with pytest.raises(Unsupported, match="bsi"):
        build_index(pl.Series("c", [-(2**63)]), field, "bsi", {})
