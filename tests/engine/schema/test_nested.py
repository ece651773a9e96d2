"""Fields and types changed at a path."""

from __future__ import annotations

import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.columns import columns_of, numbered
from morrow.engine.schema.nested import Fields, type_at, with_field, with_fields, with_type
from morrow.engine.values import replace

FIELDS = numbered(
    columns_of("id INT, r ROW<x INT, l ARRAY<ROW<y INT NOT NULL>>> NOT NULL, m MAP<INT, ROW<z INT>>").columns
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
    assert str(type_at(FIELDS, path)) == before
    changed = with_type(FIELDS, path, big)
    assert after in shown(changed)
    assert sum(a != b for a, b in zip(FIELDS, changed)) == 1


def test_members_of_a_row_behind_arrays_and_maps() -> None:
    without = with_fields(FIELDS, ("m", "value"), lambda _: ())
    assert shown(without)[2] == "MAP<INT, ROW<>>"
    noted = with_field(FIELDS, ("r", "l", "element", "y"), lambda field: replace(field, description="why"))
    assert with_field(noted, ("r", "l", "element", "y"), lambda field: replace(field, description=None)) == FIELDS


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
        with_type(FIELDS, path, big)


def test_what_has_no_members() -> None:
    with pytest.raises(InvalidArgument, match=r"'r.x' is INT, which has no members"):
        with_fields(FIELDS, ("r", "x"), lambda members: members)
