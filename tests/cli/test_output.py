"""Arrow columns of every type are printed exactly."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.cli.json_text import format_json_lines
from morrow.cli.output import format_texts
from morrow.engine.errors import Unsupported
from morrow.engine.format.variant import encode

NAN, INFINITY = float("nan"), float("inf")
VARIANT = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
VALUE = dict(zip(("value", "metadata"), encode({"a": [1, "b"]}), strict=True))

EXAMPLES: list[tuple[pa.DataType, list[Any], list[str | None], str]] = [
    (pa.bool_(), [True, None], ["true", None], "[true,null]"),
    (pa.int64(), [-(2**63), None], ["-9223372036854775808", None], "[-9223372036854775808,null]"),
    (pa.float64(), [0.1, -0.0, NAN, -INFINITY], ["0.1", "-0.0", "NaN", "-Infinity"], '[0.1,-0.0,"NaN","-Infinity"]'),
    (pa.float32(), [0.1, INFINITY, None], ["0.1", "Infinity", None], '[0.1,"Infinity",null]'),
    (pa.decimal128(38, 3), [Decimal("1"), None], ["1.000", None], '["1.000",null]'),
    (pa.string(), ["", 'a"\n', "null", None], ["", 'a"\n', "null", None], '["","a\\"\\n","null",null]'),
    (pa.binary(), [b"\x00\xff", b""], ["00ff", ""], '["00ff",""]'),
    (pa.date32(), [-719162, 0], ["0001-01-01", "1970-01-01"], '["0001-01-01","1970-01-01"]'),
    (pa.time32("ms"), [0, 86_399_999], ["00:00:00.000", "23:59:59.999"], '["00:00:00.000","23:59:59.999"]'),
    (pa.timestamp("s"), [0], ["1970-01-01T00:00:00"], '["1970-01-01T00:00:00"]'),
    (pa.timestamp("ns"), [-1], ["1969-12-31T23:59:59.999999999"], '["1969-12-31T23:59:59.999999999"]'),
    (pa.timestamp("ms", "UTC"), [253402300799999], ["9999-12-31T23:59:59.999Z"], '["9999-12-31T23:59:59.999Z"]'),
    (pa.timestamp("us", "Asia/Tokyo"), [0], ["1970-01-01T00:00:00.000000Z"], '["1970-01-01T00:00:00.000000Z"]'),
    (pa.list_(pa.int32()), [[1, None], [], None], ["[1,null]", "[]", None], "[[1,null],[],null]"),
    (pa.list_(pa.int32(), 2), [[1, 2], None, [3, 4]], ["[1,2]", None, "[3,4]"], "[[1,2],null,[3,4]]"),
    (pa.map_(pa.int8(), pa.binary()), [[(1, b"a"), (2, None)]], ['[[1,"61"],[2,null]]'], '[[[1,"61"],[2,null]]]'),
    (pa.map_(pa.int8(), pa.int8()), [None, []], [None, "[]"], "[null,[]]"),
    (VARIANT, [VALUE, None], ['{"a":[1,"b"]}', None], '[{"a":[1,"b"]},null]'),
    (VARIANT, [{"value": b"", "metadata": b"x"}], ['{"value":"","metadata":"78"}'], '[{"value":"","metadata":"78"}]'),
    (pa.struct([("a b", pa.int8())]), [{"a b": None}, None], ['{"a b":null}', None], '[{"a b":null},null]'),
    (pa.struct([("c", pa.list_(pa.date32()))]), [{"c": [0]}], ['{"c":["1970-01-01"]}'], '[{"c":["1970-01-01"]}]'),
    (pa.dictionary(pa.int8(), pa.string()), ["x", None], ["x", None], '["x",null]'),
    (pa.null(), [None], [None], "[null]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "cells", "in_json"), EXAMPLES, ids=[str(example[0]) for example in EXAMPLES]
)
def test_a_value_as_text_and_in_json(kind: pa.DataType, values: list[Any], cells: list[str], in_json: str) -> None:
    array = pa.array(values, kind)
    listed = pa.array([values], pa.list_(kind))

    assert format_texts(array).to_pylist() == cells
    assert format_texts(listed).to_pylist() == [in_json]
    # A slice prints only its own values, whatever precedes it in the buffers.
    assert format_texts(array.slice(1)).to_pylist() == cells[1:]


def test_lines_are_objects_in_the_order_of_the_columns() -> None:
    batch = pa.record_batch({"b": [1, 2], 'a "quoted" name': ["x", None]})

    assert bytes(format_json_lines(batch)) == b'{"b":1,"a \\"quoted\\" name":"x"}\n{"b":2,"a \\"quoted\\" name":null}\n'
    assert bytes(format_json_lines(batch.slice(1))) == b'{"b":2,"a \\"quoted\\" name":null}\n'
    assert bytes(format_json_lines(batch.slice(2))) == b""


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))))
def test_a_double_reads_back_as_the_same_bits(values: list[float | None]) -> None:
    lines = bytes(format_json_lines(pa.record_batch({"x": pa.array(values, pa.float64())}))).splitlines()

    back = [json.loads(line)["x"] for line in lines]
    assert [v and struct.pack("d", v) for v in back] == [v and struct.pack("d", v) for v in values]


@given(st.lists(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))))))
def test_any_text_survives_json(values: list[list[str | None]]) -> None:
    lines = bytes(format_json_lines(pa.record_batch({"x": pa.array(values, pa.list_(pa.string()))}))).split(b"\n")

    assert [json.loads(line)["x"] for line in lines[:-1]] == values


def test_a_type_without_text_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"interval.*cast the column to VARCHAR"):
        format_texts(pa.array([(1, 2, 3)], pa.month_day_nano_interval()))


def test_dates_and_times_that_polars_does_not_have_are_text() -> None:
    days = pa.array([0, -719_163, 2_932_897, 2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    dates = ["1970-01-01", "0000-12-31", "+10000-01-01", "+5881580-07-11", "-5877641-06-23"]
    assert format_texts(days).to_pylist() == dates
    micros = pa.array([2**63 - 1, -1], pa.int64())
    assert format_texts(micros.cast(pa.timestamp("us"))).to_pylist() == [
        "+294247-01-10T04:00:54.775807",
        "1969-12-31T23:59:59.999999",
    ]
    assert bytes(format_json_lines(pa.record_batch({"d": days[2:3]}))) == b'{"d":"+10000-01-01"}\n'
    day = pa.array([86_400_000_000, None], pa.int64()).view(pa.time64("us"))
    assert format_texts(day).to_pylist() == ["24:00:00.000000", None]
