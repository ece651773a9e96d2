"""The Parquet variant encoding of single values and of columns."""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import variant_json
from morrow.engine.format.variant import decode, encode, encode_json
from morrow.engine.format.variant_arrays import extract, extract_text, find_nulls, parse_path, to_json
from morrow.engine.format.variant_building import encode_arrow, encode_values
from morrow.engine.format.variant_json import encode_json_column

JAVA = {
    '{"a":1,"b":"x"}': ("020200010002040c010578", "0102000102 6162"),
    "[1,2.5,null,true]": ("0304000208090a0c0120011900000000 04", "010000"),
    '"str"': ("0d737472", "010000"),
    "12345678901": ("18351cdcdf02000000", "010000"),
    "1.25": ("20027d000000", "010000"),
    '{"n":{"d":[{}]}}': ("020100000c020101000703010003020000", "01020001026e64"),
    "null": ("00", "010000"),
    "false": ("08", "010000"),
}
"""Bytes that Java Paimon writes (the golden table `types_variant`)."""


def make_text(**sizes: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), **sizes)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | make_text(max_size=80)
    | st.floats(allow_nan=False)
    | st.binary(max_size=9)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
    | st.dates()
    | st.uuids()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(make_text(), inner, max_size=4)
)
JSON_LEAVES = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | make_text(max_size=70) | st.floats(-1e9, 1e9)
JSON_VALUES = st.recursive(
    JSON_LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(make_text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("text", JAVA)
def test_the_bytes_are_those_of_java(text: str) -> None:
    value, metadata = (bytes.fromhex(each) for each in JAVA[text])
    assert encode_json(text) == (value, metadata)
    assert to_json(pa.array([None, {"value": value, "metadata": metadata}])).to_pylist() == [None, text]


@given(VALUES)
def test_python_values_are_read_again(value: Any) -> None:
    assert decode(*encode(value)) == value


@given(st.lists(VALUES, max_size=5))
def test_columns_are_as_their_values(values: list[Any]) -> None:
    column = encode_values(values)
    assert [None if row is None else decode(**row) for row in column.to_pylist()] == values
    extracted = extract(column, ()).to_pylist()
    assert extracted == column.to_pylist()
    assert find_nulls(column).tolist() == [False] * len(values)


@given(st.lists(JSON_VALUES, min_size=1, max_size=5), st.booleans())
def test_json_columns_are_as_their_texts(values: list[Any], indented: bool) -> None:
    texts = [json.dumps(value, ensure_ascii=indented, indent=1 if indented else None) for value in values]
    found = variant_json._encode_regular(pa.array(texts, pa.large_string()))
    left = set(found[2].tolist())
    for row, text in enumerate(texts):
        assert row in left or (found[0][row].as_py(), found[1][row].as_py()) == encode_json(text)
    assert not left, "nothing here needs to be encoded alone"
    assert [json.loads(each) for each in to_json(encode_json_column(pa.array(texts))).to_pylist()] == [
        json.loads(text, parse_int=lambda digits: _as_stored(digits)) for text in texts
    ]


def _as_stored(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= 38 else float(digits)


NOT_JSON = (
    *("", " ", "{", "}", '{"a"}', '{"a":}', '{"a":1,}', "[1,]", "[,1]", "1 2", "{1:2}", '"a', "tru", "[1 2]", "nul"),
    *('{"a":1 "b":2}', '{"a":1,"a":2}', '"\\x"', "01", "-", "[1}", '{"a":1]', "[[]", '"a" "b"', ":1", ",", "[]]"),
    *('{"a"::1}', '{"a":1:2}', "[1:2]", '"\n"', '{"a":[1,{"b":2,"b":3}]}', "NaN", "{}{}", "1,2", '"\\ud800"', ".5"),
    *("1.", "+1", '{"a" "b"}', "{,}", "[{]}", '{"a":{}', "[]{}", "Infinity", "'a'", "{a:1}"),
)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_json, "MIN_ROWS", 1)
    for texts in ([text], ["1", text], [text, '{"x":1}'], ["[1]", text, "{}", None]):
        found = encode_json_column(pa.array(texts), errors=False)
        nulls = [row for row, valid in enumerate(found.is_valid().to_pylist()) if not valid]
        assert nulls == [row for row, each in enumerate(texts) if each is None or each == text]
        with pytest.raises(InvalidArgument, match=f"row {texts.index(text)}: "):
            encode_json_column(pa.array(texts))


def test_paths() -> None:
    column = encode_values([{"a": [1, {"b c": "x"}], "é": None}, None, [5], {"a": []}, "text"])
    assert extract_text(column, parse_path("$.a[1]['b c']")).to_pylist() == ["x", None, None, None, None]
    assert extract_text(column, parse_path("$.a")).to_pylist() == ['[1,{"b c":"x"}]', None, None, "[]", None]
    assert extract_text(column, parse_path("$[0]")).to_pylist() == [None, None, "5", None, None]
    assert extract_text(column, parse_path("$")).to_pylist()[4] == "text"
    assert find_nulls(extract(column, parse_path('$["é"]'))).tolist() == [True, False, False, False, False]
    for text in ("a", "$a", "$.", "$[x]", "$[-1]"):
        with pytest.raises(InvalidArgument, match="is not a path"):
            parse_path(text)


def test_json_text_of_other_types() -> None:
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 600000)
    values = [Decimal("1.500"), dt.date(2020, 1, 2), moment, moment.replace(tzinfo=dt.UTC), b"xx", uuid.UUID(int=1)]
    assert to_json(encode_values([*values, 1e300, 'q"\n'])).to_pylist() == [
        *("1.5", '"2020-01-02"', '"2020-01-02 03:04:05.6"', '"2020-01-02 03:04:05.6+00:00"', '"eHg="'),
        *('"00000000-0000-0000-0000-000000000001"', "1.0E300", '"q\\"\\n"'),
    ]


def test_many_members_and_long_texts() -> None:
    """Counts above 255 and lengths of two and three bytes."""
    value = {f"name {i}": ["x" * i, i] for i in range(700)}
    column = encode_values([value, list(range(300))])
    assert decode(**column[0].as_py()) == value
    assert json.loads(to_json(column)[0].as_py()) == value
    text = json.dumps(value)
    assert encode_json_column(pa.array([text] * 40))[39].as_py() == dict(zip(("value", "metadata"), encode_json(text)))


def test_arrow_values() -> None:
    rows = [{"b": [1, None], "a": "x", "d": dt.date(2020, 1, 1)}, None, {"b": None, "a": None, "d": None}]
    assert [None if row is None else decode(**row) for row in encode_arrow(pa.array(rows)).to_pylist()] == rows
    for values in ([1, -(2**40), None], [1.5, None], [True, None], [b"x" * 70], ["x" * 70], [Decimal("1.50")]):
        found = encode_arrow(pa.array(values)).to_pylist()
        assert [None if row is None else decode(**row) for row in found] == values


def test_damaged_bytes() -> None:
    """Every shorter value and every changed byte is read, or refused with a typed error."""
    value, metadata = encode({"a": [1, "text", {"b": 2.5}], "long": "y" * 70})
    chosen = random.Random(1)
    for _ in range(300):
        damaged = bytearray(value)
        damaged[chosen.randrange(len(value))] = chosen.randrange(256)
        for each in (bytes(damaged), value[: chosen.randrange(len(value))]):
            row = pa.array([{"value": each, "metadata": metadata}])
            for read in (lambda row=row: to_json(row), lambda each=each: decode(each, metadata)):
                with suppress(CorruptFile, Unsupported):
                    read()
    with pytest.raises(Unsupported, match="a VARIANT of version 2"):
        to_json(pa.array([{"value": value, "metadata": b"\x02\x00\x00"}]))


def test_values_that_no_variant_holds() -> None:
    for value, problem in (
        ({1: 2}, "the name 1 of a member"),
        (object(), "a object in a VARIANT"),
        (Decimal(10) ** 40, "more than 38 digits"),
        (Decimal("NaN"), "give a float"),
        ("\ud800", "not valid Unicode"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            encode(value)
