"""Long lists of literals in SQL are read without the parser, with the same result."""

from __future__ import annotations

from decimal import Decimal

import pytest

from morrow.engine.plan.filter.sql import parse_constants


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1, -2,\n 3 ,007,9999999999999999999", [1, -2, 3, 7, 9999999999999999999]),
        ("1.5, -2, 0.0", [Decimal("1.5"), -2, Decimal("0.0")]),
        ("'a', 'it''s', ',', '1.5'", ["a", "it's", ",", "1.5"]),
    ],
)
def test_constants(written: str, values: list[object]) -> None:
    found = parse_constants(written)
    assert [constant.value for constant in found] == values
    assert [type(constant.value) for constant in found] == list(map(type, values))
