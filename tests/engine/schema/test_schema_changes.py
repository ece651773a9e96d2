"""Changes of fields and types at a path."""

from __future__ import annotations

import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.columns import assign_ids, read_columns
from morrow.engine.schema.schema_changes import Fields, can_cast, find_type, replace_field, replace_fields, replace_type
from morrow.engine.schema.sql_columns import parse_type
from morrow.engine.structs import replace

FIELDS = assign_ids(
    read_columns("id INT, r ROW<x INT, l ARRAY<ROW<y INT NOT NULL>>> NOT NULL, m MAP<INT, ROW<z INT>>").columns
)[0]


def shown(fields: Fields) -> list[str]:
    return [str(field.type) for field in fields]


def big(_: t.DataType) -> t.DataType:
    return t.BigIntType()


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (("id",), "INT", "BIGINT"),
        (("r", "x"), "INT", "ROW<`x` BIGINT, `l` ARRAY<ROW<`y` INT NOT NULL>>> NOT NULL"),
        (("r", "l", "element", "y"), "INT NOT NULL", "ROW<`x` INT, `l` ARRAY<ROW<`y` BIGINT>>> NOT NULL"),
        (("m", "value"), "ROW<`z` INT>", "MAP<INT, BIGINT>"),
    ],
)
def test_a_type_further_in(path: tuple[str, ...], before: str, after: str) -> None:
    assert str(find_type(FIELDS, path)) == before
    changed = replace_type(FIELDS, path, big)
    assert after in shown(changed)
    assert sum(a != b for a, b in zip(FIELDS, changed)) == 1


def test_members_of_a_row_behind_arrays_and_maps() -> None:
    without = replace_fields(FIELDS, ("m", "value"), lambda _: ())
    assert shown(without)[2] == "MAP<INT, ROW<>>"
    noted = replace_field(FIELDS, ("r", "l", "element", "y"), lambda field: replace(field, description="why"))
    assert replace_field(noted, ("r", "l", "element", "y"), lambda field: replace(field, description=None)) == FIELDS


@pytest.mark.parametrize(
    ("path", "error", "problem"),
    [
        (("nope",), ColumnNotFound, "no column 'nope'; there are id, r, m"),
        (("r", "nope"), ColumnNotFound, "no column 'r.nope'; there are x, l"),
        (("id", "x"), ColumnNotFound, "no column 'id.x': 'id' is INT"),
        (("r", "l", "y"), ColumnNotFound, "no column 'r.l.y': 'r.l' is ARRAY"),
        (("m", "key"), Unsupported, "a change of the keys of 'm'"),
    ],
)
def test_paths_that_lead_nowhere(path: tuple[str, ...], error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        replace_type(FIELDS, path, big)


def test_what_has_no_members() -> None:
    with pytest.raises(InvalidArgument, match=r"'r.x' is INT, which has no members"):
        replace_fields(FIELDS, ("r", "x"), lambda members: members)


# Types to which a column may change.


def allowed(source: str, target: str, *, explicit: bool = False) -> bool:
    return can_cast(parse_type(source, "c"), parse_type(target, "c"), explicit=explicit)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("INT", "BIGINT"),
        ("TINYINT", "SMALLINT"),
        ("BIGINT", "DOUBLE"),
        ("FLOAT", "DOUBLE"),
        ("INT", "DECIMAL(12, 2)"),
        ("DECIMAL(5, 2)", "DECIMAL(9, 3)"),
        ("CHAR(3)", "STRING"),
        ("VARCHAR(10)", "VARCHAR(5)"),
        ("BINARY(3)", "BYTES"),
        ("TIMESTAMP(6)", "DATE"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"),
        ("ROW<a INT>", "ROW<a INT>"),
    ],
)
def test_what_is_always_allowed(source: str, target: str) -> None:
    assert allowed(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("BIGINT", "INT"),
        ("DOUBLE", "FLOAT"),
        ("STRING", "INT"),
        ("STRING", "CHAR(2)"),
        ("INT", "STRING"),
        ("DATE", "STRING"),
        ("DATE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "BIGINT"),
        ("BYTES", "STRING"),
        ("ROW<a INT>", "STRING"),
    ],
)
def test_what_needs_explicit_casts(source: str, target: str) -> None:
    assert allowed(source, target, explicit=True)
    assert not allowed(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("DATE", "VARCHAR(20)"),
        ("DATE NOT NULL", "STRING NOT NULL"),
        ("DATE", "INT"),
        ("DOUBLE", "BOOLEAN"),
        ("TIMESTAMP(3)", "SMALLINT"),
        ("STRING", "ARRAY<INT>"),
        ("ARRAY<INT>", "ARRAY<BIGINT>"),
        ("ARRAY<INT>", "ARRAY<INT NOT NULL>"),
        ("ROW<a INT>", "ROW<a BIGINT>"),
        ("INT", "VARIANT"),
        ("INT", "TIME(0)"),
    ],
)
def test_what_is_never_allowed(source: str, target: str) -> None:
    assert not allowed(source, target, explicit=True)
