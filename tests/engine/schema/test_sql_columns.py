"""Types and column lists in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from morrow.engine.schema.sql_columns import OTHER_NAMES, Column, parse_columns, parse_type


def parsed(text: str) -> t.DataType:
    return parse_type(text, "c")


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("int", t.IntType()),
        ("INTEGER NOT NULL", t.IntType(nullable=False)),
        ("BIGINT NULL", t.BigIntType()),
        ("double precision", t.DoubleType()),
        ("DECIMAL(10,2)", t.DecimalType(precision=10, scale=2)),
        ("DEC(5)", t.DecimalType(precision=5)),
        ("VARCHAR ( 20 ) NOT NULL", t.VarCharType(False, 20)),
        ("STRING", t.VarCharType()),
        ("CHAR(3)", t.CharType(length=3)),
        ("BYTES", t.VarBinaryType()),
        ("TIME(3)", t.TimeType(precision=3)),
        ("TIMESTAMP", t.TimestampType()),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", t.TimestampType(precision=3)),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL", t.LocalZonedTimestampType(False, 9)),
        ("TIMESTAMP_LTZ(0)", t.LocalZonedTimestampType(precision=0)),
        ("ARRAY<INT NOT NULL> NOT NULL", t.ArrayType(False, t.IntType(False))),
        ("ARRAY<ARRAY<INT>>", t.ArrayType(element=t.ArrayType(element=t.IntType()))),
        ("MAP<STRING, DATE>", t.MapType(key=t.VarCharType(), value=t.DateType())),
        ("MULTISET<BOOLEAN>", t.MultisetType(element=t.BooleanType())),
        ("VECTOR<FLOAT, 8>", t.VectorType(element=t.FloatType(), length=8)),
        ("VARIANT", t.VariantType()),
    ],
)
def test_types(text: str, data_type: t.DataType) -> None:
    assert parsed(text) == data_type


def test_rows_have_named_members_with_comments() -> None:
    row = t.RowType(fields=(t.DataField(0, "x y", t.IntType(False), "it's"), t.DataField(1, "z", t.VarCharType())))
    assert parsed("ROW<`x y` INT NOT NULL COMMENT 'it''s', z STRING>") == row
    assert parsed("STRUCT<\"x y\": INT NOT NULL COMMENT 'it''s', z: STRING>") == row


def test_columns_with_comments_defaults_and_a_key() -> None:
    columns = parse_columns(
        "id BIGINT NOT NULL COMMENT 'the key', `select` STRING DEFAULT 'it''s', n INT DEFAULT -5 NOT NULL, "
        "d DATE DEFAULT DATE '2024-01-02', b BOOLEAN DEFAULT TRUE, z INT DEFAULT NULL, "
        "PRIMARY KEY (id, `select`) NOT ENFORCED"
    )
    assert columns.columns == (
        Column("id", t.BigIntType(False), "the key"),
        Column("select", t.VarCharType(), None, "it's"),
        Column("n", t.IntType(False), None, "-5"),
        Column("d", t.DateType(), None, "2024-01-02"),
        Column("b", t.BooleanType(), None, "TRUE"),
        Column("z", t.IntType()),
    )
    assert columns.primary_keys == ("id", "select")
    assert parse_columns("a INT PRIMARY KEY, b INT").primary_keys == ("a",)


def test_a_text_in_quotes_gets_quotes_that_readers_take_off() -> None:
    (column,) = parse_columns("a STRING DEFAULT '''quoted'''").columns
    assert column.default == "''quoted''"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a list of columns"),
        ("id", r"the column 'id': expected a type \(the types are BOOLEAN"),
        ("id INT name STRING", "expected ',' or the end, found 'name'"),
        ("id INT,, b INT", "expected a name, found ','"),
        ("id DECIMAL(", "expected a number, found the end"),
        ("id MAP<INT>", "expected ',', found '>'"),
        ("id INT DEFAULT", "expected a literal, found the end"),
        ("id INT COMMENT x", "expected a text in single quotes, found 'x'"),
        ("id INT; DROP TABLE t", "does not parse as SQL columns at '; DROP TABLE t'"),
        ("id STRING DEFAULT 'x", "does not parse as SQL columns at"),
        ("id VECTOR<FLOAT, 0>", "a length of 1 or more"),
    ],
)
def test_what_does_not_parse_is_shown(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        parse_columns(text)


@pytest.mark.parametrize("text", ["FOO", "INT(3)", "DECIMAL(39, 2)", "TIMESTAMP(10)", "TIMESTAMP WITH TIME ZONE"])
def test_types_that_there_are_not(text: str) -> None:
    with pytest.raises(Unsupported, match=r"the column 'c': the type .* is not supported; the types are BOOLEAN"):
        parsed(text)


def test_one_type_and_nothing_else() -> None:
    with pytest.raises(InvalidArgument, match="expected the end of the type, found ','"):
        parsed("INT, b INT")


ATOMIC = st.sampled_from(
    ["INT", "STRING", "DECIMAL(7, 2)", "TIMESTAMP(3)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "BYTES"]
)
NAMES = st.text("ab`\"'. <>,", min_size=1, max_size=4)


@st.composite
def types(draw: st.DrawFn) -> t.DataType:
    def rows(inner: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
        members = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3)
        return members.map(lambda ms: t.RowType(fields=tuple(t.DataField(i, *m) for i, m in enumerate(ms))))

    kind = st.recursive(
        ATOMIC.map(parse_atomic),
        lambda inner: st.one_of(
            inner.map(lambda e: t.ArrayType(element=e)),
            st.tuples(inner, inner).map(lambda kv: t.MapType(key=kv[0], value=kv[1])),
            rows(inner),
        ),
        max_leaves=5,
    )
    return draw(kind).with_nullable(draw(st.booleans()))


def sql(kind: t.DataType) -> str:
    """Write the type in SQL with quoted names, since `DataType.__str__` does not double quotes inside names."""
    if isinstance(kind, t.ArrayType):
        text = f"ARRAY<{sql(kind.element)}>"
    elif isinstance(kind, t.MapType):
        text = f"MAP<{sql(kind.key)}, {sql(kind.value)}>"
    elif isinstance(kind, t.RowType):
        text = f"ROW<{', '.join('`' + f.name.replace('`', '``') + '` ' + sql(f.type) for f in kind.fields)}>"
    else:
        text = kind.text()
    return text if kind.nullable else f"{text} NOT NULL"


@given(types())
def test_every_type_reads_back_from_its_own_text(kind: t.DataType) -> None:
    assert parsed(sql(kind)) == kind


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_other_systems_lead_to_types_that_exist(name: str) -> None:
    with pytest.raises(Unsupported, match=r"did you mean .*\?"):
        parse_type(name, "c")
    for found in OTHER_NAMES[name].split(", or "):
        parse_type(found.replace("(p, s)", "(9, 2)").replace("<t>", "<INT>"), "c")
