"""Which type a column may change to."""

from __future__ import annotations

import pytest

from morrow.engine.schema.casts import can_cast
from morrow.engine.schema.sql import parse_type


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
