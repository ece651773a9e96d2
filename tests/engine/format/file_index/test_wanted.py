"""Options ``file-index.*``: which indexes a table wants."""

from __future__ import annotations

import polars as pl
import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.file_index import build_container, read_file_index, wanted_indexes
from morrow.engine.format.type_text import parse_atomic
from morrow.engine.format.types import DataField, MapType
from morrow.readers.casts.dtypes import polars_schema

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

    wanted = wanted_indexes(options, FIELDS)

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

    wanted = wanted_indexes(options, FIELDS)

    assert [(each.name, each.key, dict(each.options)) for each in wanted] == [
        ("m[x]", "x", {"version": "1"}),
        ("m[y]", "y", {"version": "2"}),
    ]


def test_the_values_of_a_map_key_are_indexed() -> None:
    wanted = wanted_indexes({"file-index.bitmap.columns": "m[x]"}, FIELDS)
    rows = [{"m": [{"key": "x", "value": 1}, {"key": "z", "value": 2}]}, {"m": [{"key": "z", "value": 1}]}, {"m": None}]
    frame = pl.DataFrame(rows, schema={"m": polars_schema(FIELDS)["m"]})

    index = read_file_index(build_container(frame, wanted), where="t")

    assert index.evaluate("m[x]", INT, "=", (1,)).mask(3).tolist() == [True, False, False]
    assert index.evaluate("m[x]", INT, "IS NULL").mask(3).tolist() == [False, True, True]


def test_a_map_without_rows_has_no_index_body() -> None:
    wanted = wanted_indexes({"file-index.bitmap.columns": "m[x]"}, FIELDS)

    index = read_file_index(build_container(pl.DataFrame(schema={"m": polars_schema(FIELDS)["m"]}), wanted), where="t")

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
        wanted_indexes(options, FIELDS)
