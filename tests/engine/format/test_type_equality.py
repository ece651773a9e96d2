"""Types of the same values: they differ in nullability only."""

from __future__ import annotations

from morrow.engine.format.type_equality import either_nullable, same_values
from morrow.engine.format.types import ArrayType, BigIntType, DataField, DataType, IntType, RowType


def row_of(kind: DataType, *, nullable: bool) -> RowType:
    return RowType(nullable, (DataField(1, "x", ArrayType(nullable, kind)),))


STRICT = row_of(IntType(False), nullable=False)
LOOSE = row_of(IntType(True), nullable=True)
WIDER = row_of(BigIntType(True), nullable=True)


def test_types_that_differ_in_nullability_only_hold_the_same_values() -> None:
    assert same_values(STRICT, LOOSE)
    assert not same_values(STRICT, WIDER)


def test_what_may_be_null_in_one_of_two_types_may_be_null_in_both() -> None:
    assert either_nullable(STRICT, LOOSE) == LOOSE
    assert either_nullable(STRICT, STRICT) == STRICT
