"""Types as text, as JSON in schema files, and as Arrow types."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.types import (
    ArrayType,
    BigIntType,
    DataField,
    DataType,
    IntType,
    RowType,
    from_json,
    from_json_field,
    has_same_values,
    merge_nullability,
    parse_atomic,
    to_json,
)
from tests.support.schema_file import type_json

ATOMIC = [
    ("BOOLEAN", t.BooleanType(), pa.bool_()),
    ("TINYINT", t.TinyIntType(), pa.int8()),
    ("SMALLINT", t.SmallIntType(), pa.int16()),
    ("INT", t.IntType(), pa.int32()),
    ("BIGINT", t.BigIntType(), pa.int64()),
    ("FLOAT", t.FloatType(), pa.float32()),
    ("DOUBLE", t.DoubleType(), pa.float64()),
    ("DECIMAL(10, 2)", t.DecimalType(precision=10, scale=2), pa.decimal128(10, 2)),
    ("DECIMAL(38, 38)", t.DecimalType(precision=38, scale=38), pa.decimal128(38, 38)),
    ("CHAR(3)", t.CharType(length=3), pa.string()),
    ("VARCHAR(20)", t.VarCharType(length=20), pa.string()),
    ("STRING", t.VarCharType(), pa.string()),
    ("BINARY(4)", t.BinaryType(length=4), pa.binary()),
    ("VARBINARY(9)", t.VarBinaryType(length=9), pa.binary()),
    ("BYTES", t.VarBinaryType(), pa.binary()),
    ("DATE", t.DateType(), pa.date32()),
    ("TIME(3)", t.TimeType(precision=3), pa.time32("ms")),
    ("TIMESTAMP(0)", t.TimestampType(precision=0), pa.timestamp("s")),
    ("TIMESTAMP(3)", t.TimestampType(precision=3), pa.timestamp("ms")),
    ("TIMESTAMP(6)", t.TimestampType(), pa.timestamp("us")),
    ("TIMESTAMP(9)", t.TimestampType(precision=9), pa.timestamp("ns")),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", t.LocalZonedTimestampType(precision=3), pa.timestamp("ms", tz="UTC")),
    ("BLOB", t.BlobType(), pa.large_binary()),
]


@pytest.mark.parametrize(("text", "kind", "arrow"), ATOMIC, ids=[text for text, _, _ in ATOMIC])
def test_atomic_types(text: str, kind: t.DataType, arrow: pa.DataType) -> None:
    assert parse_atomic(text) == kind
    assert str(kind) == text
    assert str(kind.with_nullable(False)) == f"{text} NOT NULL"
    assert parse_atomic(f"{text} NOT NULL") == kind.with_nullable(False)
    assert kind.arrow() == arrow


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("INTEGER", "INT"),
        ("double  precision", "DOUBLE"),
        ("VARCHAR", "VARCHAR(1)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("NUMERIC(5,1)", "DECIMAL(5, 1)"),
        ("dec(7)", "DECIMAL(7, 0)"),
        ("TIME", "TIME(0)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("  INT  NULL ", "INT"),
        ("bigint not null", "BIGINT NOT NULL"),
    ],
)
def test_other_spellings(text: str, same: str) -> None:
    assert str(parse_atomic(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        *("", "UUID", "INT(3)", "STRING(5)", "INT WITH LOCAL TIME ZONE", "TIMESTAMP WITH TIME ZONE", "ARRAY<INT>"),
        *("DECIMAL(39, 0)", "DECIMAL(0)", "DECIMAL(5, 6)", "TIMESTAMP(10)", "TIME(10)", "CHAR(2147483648)"),
        *("INT NOT", "INT; DROP"),
    ],
)
def test_a_type_that_is_not_known_is_never_guessed(text: str) -> None:
    with pytest.raises(Unsupported, match=r"schema-7: the type .* is not supported"):
        parse_atomic(text, where="schema-7")


NESTED = [
    (
        {"type": "ARRAY", "element": "INT NOT NULL"},
        "ARRAY<INT NOT NULL>",
        pa.list_(pa.field("element", pa.int32(), nullable=False)),
    ),
    (
        {"type": "MAP NOT NULL", "key": "STRING", "value": "DATE"},
        "MAP<STRING, DATE> NOT NULL",
        pa.map_(pa.string(), pa.date32()),
    ),
    (
        {"type": "MULTISET", "element": "STRING"},
        "MULTISET<STRING>",
        pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
    ),
    (
        {"type": "VECTOR", "element": "FLOAT", "length": 3},
        "VECTOR<FLOAT, 3>",
        pa.list_(pa.field("element", pa.float32()), 3),
    ),
    (
        {"type": "ROW", "fields": [{"id": 7, "name": "x", "type": {"type": "ARRAY", "element": "INT"}}]},
        "ROW<`x` ARRAY<INT>>",
        pa.struct([pa.field("x", pa.list_(pa.field("element", pa.int32())))]),
    ),
]


@pytest.mark.parametrize(("node", "text", "arrow"), NESTED, ids=[text for _, text, _ in NESTED])
def test_nested_types_are_json_objects(node: dict[str, Any], text: str, arrow: pa.DataType) -> None:
    kind = from_json(node)

    assert str(kind) == text
    assert kind.arrow() == arrow


def test_a_nested_type_that_is_not_known() -> None:
    with pytest.raises(Unsupported, match="'GRAPH'"):
        from_json({"type": "GRAPH", "element": "INT"})


def test_fields_have_an_identity_a_description_and_a_default() -> None:
    field = from_json_field(
        {"id": 3, "name": "n", "type": "INT NOT NULL", "description": "how many", "defaultValue": "0"}
    )

    assert field == t.DataField(3, "n", t.IntType(nullable=False), "how many", "0")
    assert str(field) == "`n` INT NOT NULL"
    assert t.to_arrow_schema([field]) == pa.schema([pa.field("n", pa.int32(), nullable=False)])
    assert t.to_arrow_schema([field]).field("n").metadata == {b"comment": b"how many"}


def types() -> st.SearchStrategy[t.DataType]:
    atomic = st.sampled_from([kind for _, kind, _ in ATOMIC])
    kinds = st.recursive(
        atomic,
        lambda inner: st.one_of(
            st.builds(lambda element: t.ArrayType(element=element), inner),
            st.builds(lambda element: t.MultisetType(element=element), inner),
            st.builds(lambda key, value: t.MapType(key=key, value=value), inner, inner),
            st.lists(inner, max_size=3).map(
                lambda kinds: t.RowType(fields=tuple(t.DataField(i, f"f{i}", k) for i, k in enumerate(kinds)))
            ),
        ),
        max_leaves=6,
    )
    return st.builds(lambda kind, nullable: kind.with_nullable(nullable), kinds, st.booleans())


@given(types())
def test_every_type_survives_its_json_and_a_pickle(kind: t.DataType) -> None:
    assert from_json(type_json(kind)) == kind
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert isinstance(kind.arrow(), pa.DataType)


# Types with the same values differ in nullability only.


def row_of(kind: DataType, *, nullable: bool) -> RowType:
    return RowType(nullable, (DataField(1, "x", ArrayType(nullable, kind)),))


STRICT = row_of(IntType(False), nullable=False)
LOOSE = row_of(IntType(True), nullable=True)
WIDER = row_of(BigIntType(True), nullable=True)


def test_types_that_differ_in_nullability_only_hold_the_same_values() -> None:
    assert has_same_values(STRICT, LOOSE)
    assert not has_same_values(STRICT, WIDER)


def test_what_may_be_null_in_one_of_two_types_may_be_null_in_both() -> None:
    assert merge_nullability(STRICT, LOOSE) == LOOSE
    assert merge_nullability(STRICT, STRICT) == STRICT


# Types in schema files, in the spellings of other writers, too.


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "MAP<STRING NOT NULL, INT>", "key": "STRING NOT NULL", "value": "INT"}, "MAP"),
        ({"type": "MAP<STRING NOT NULL, INT> NOT NULL", "key": "STRING NOT NULL", "value": "INT"}, "MAP NOT NULL"),
        ({"type": "MULTISET<INT NOT NULL>", "element": "INT NOT NULL"}, "MULTISET"),
        ({"type": "MULTISET<INT> NOT NULL", "element": "INT"}, "MULTISET NOT NULL"),
        ({"type": "ARRAY<INT NOT NULL>", "element": "INT NOT NULL", "nullable": True}, "ARRAY"),
        ({"type": "VECTOR<FLOAT, 2>", "element": "FLOAT", "length": 2}, "VECTOR"),
    ],
)
def test_a_type_may_repeat_its_members(node: dict[str, Any], expected: str) -> None:
    read = from_json(node)
    assert to_json(read) == {**{k: v for k, v in node.items() if k != "nullable"}, "type": expected}
