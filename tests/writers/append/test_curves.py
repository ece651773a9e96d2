"""Places on space-filling curves."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.type_text import parse_atomic
from morrow.engine.format.types import ArrayType, DataField, DataType, IntType
from morrow.readers.casts.dtypes import polars_dtype
from morrow.writers.append.curves import check_sortable, hilbert, interleaved, z_order

BIGINT, INT = parse_atomic("BIGINT"), parse_atomic("INT")


def column(type_text: str, values: list[Any]) -> tuple[pl.Series, DataType]:
    kind = parse_atomic(type_text)
    return pl.Series(values, dtype=polars_dtype(kind)), kind


def walked(places: pl.Series, *axes: np.ndarray[Any, Any]) -> list[int]:
    """Sums up over the axes how far every point lies from the one before it on the curve."""
    order = places.arg_sort().to_numpy()
    steps = [np.abs(np.diff(axis[order])) for axis in axes]
    return np.sum(steps, axis=0).tolist()  # type: ignore[no-any-return]  # integers of arrays of integers


def test_bits_are_taken_in_turns() -> None:
    one, other = np.array([[0b1111_0000]], np.uint8), np.array([[0b0101_0101]], np.uint8)

    assert interleaved([one, other]).tolist() == [[0b10111011, 0b00010001]]


def test_a_shorter_column_drops_out() -> None:
    one, other = np.array([[0b1010_1010]], np.uint8), np.array([[0xFF, 0xFF]], np.uint8)

    assert interleaved([one, other]).tolist() == [[0b11011101, 0b11011101, 0xFF]]


def test_z_order_is_the_one_of_java() -> None:
    # What ZIndexer of Paimon 1.4.2 makes of these rows: with 8 bytes of text, and of text and INT with 3.
    long, int_ = pl.Series([1, None, -(2**63)]), pl.Series([-1, 0, 2**31 - 1], dtype=pl.Int32)
    words = pl.Series(["ab", "a longer text", None])
    text = parse_atomic("STRING")

    assert [place.hex() for place in z_order([long, int_, words], [BIGINT, INT, text])] == [
        "8da4934da49a492492492492492492492492492492492496",
        "448001008000048240048249048248048049048041049008",
        "400000000000000000000000092492492492492492492492",
    ]
    assert [place.hex() for place in z_order([words, int_], [text, INT], 3)] == [
        "3d577d5d5555ffffffffff",
        "6802080028a00000000000",
        "400000000000007fffffff",
    ]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neighbours_on_the_hilbert_curve_are_neighbours_in_space(dimensions: int) -> None:
    axes = [axis.ravel() for axis in np.meshgrid(*[np.arange(8)] * dimensions)]

    places = hilbert([pl.Series(axis) for axis in axes], [BIGINT] * dimensions)

    assert places.n_unique() == 8**dimensions
    assert set(walked(places, *axes)) == {1}


@pytest.mark.parametrize(
    ("type_text", "ascending"),
    [
        ("BOOLEAN", [None, False, True]),
        ("TINYINT", [None, -128, -1, 0, 127]),
        ("BIGINT", [None, -(2**63) + 1, -1, 0, 1, 2**63 - 1]),
        ("DOUBLE", [None, float("-inf"), -1.5, -1e-300, 0.0, 1e-300, 2.0, float("inf"), float("nan")]),
        ("FLOAT", [None, -2.0, 0.0, 0.5]),
        ("DECIMAL(10, 2)", [None, Decimal("-300.00"), Decimal("-0.01"), Decimal("2.56"), Decimal("2.57")]),
        ("DECIMAL(38, 2)", [None, Decimal("-1e20"), Decimal(0), Decimal("1e20")]),
        ("DATE", [None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 1, 1)]),
        ("TIMESTAMP(6)", [None, dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 1)]),
        ("STRING", [None, "a", "ab", "b", "zebra"]),
        ("BYTES", [None, b"\x01", b"\x01\x01", b"\xff"]),
    ],
)
def test_along_one_column_the_curve_is_its_order(type_text: str, ascending: list[Any]) -> None:
    series, kind = column(type_text, ascending)
    shuffled = series.gather(list(reversed(range(len(ascending)))))

    order = z_order([shuffled], [kind]).arg_sort()

    assert shuffled.gather(order).equals(series)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_both_curves_tell_points_apart(points: list[tuple[int, int]]) -> None:
    axes = [pl.Series([point[i] for point in points]) for i in range(2)]

    for curve in (z_order, hilbert):
        assert curve(axes, [BIGINT, BIGINT]).n_unique() == len(set(points))


def test_nested_values_have_no_order() -> None:
    with pytest.raises(Unsupported, match="'a' of type ARRAY"):
        check_sortable([DataField(0, "a", ArrayType(element=IntType()))], "t")
