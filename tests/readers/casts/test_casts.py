"""Casts give Java's values for every line of `casts.jsonl`, except for a few named departures."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.java_floats import format_double, format_float
from morrow.engine.format.types import from_json
from morrow.readers.casts import cast_array, cast_expression, is_allowed, polars_cast
from morrow.readers.casts.dtypes import to_arrow_array, to_polars_dtype, to_series

Stamps = (t.TimestampType, t.LocalZonedTimestampType)
Nested = (t.ArrayType, t.MapType, t.RowType)
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
ERROR = {"error": 1}
MILLIS_PER_DAY = 86_400_000


class Case(NamedTuple):
    source: t.DataType
    target: t.DataType
    zone: str
    pairs: list[tuple[Any, Any]]

    def __str__(self) -> str:
        return f"{self.source}-{self.target}-{self.zone}"


def fixture() -> Iterator[tuple[t.DataType, list[Any], dict[str, Any]]]:
    lines = (Path(__file__).parent / "casts.jsonl").read_text(encoding="utf-8").splitlines()
    source, inputs = t.DataType(), []
    for line in map(json.loads, lines):
        if "source" in line:
            source, inputs = from_json(line["source"]), line["inputs"]
        else:
            yield source, inputs, line


CASES = [
    Case(source, from_json(line["target"]), line.get("zone", "UTC"), list(zip(inputs, line["outputs"], strict=True)))
    for source, inputs, line in fixture()
    if "target" in line
]
REFUSED: dict[t.DataType, list[t.DataType]] = {}
"""Source type -> targets that Java cannot cast it to."""
for source, _, line in fixture():
    REFUSED.setdefault(source, []).extend(map(from_json, line.get("refused", ())))


def array(values: list[Any], type: Any) -> pa.Array:
    """Convert the fixture's form of values to an Arrow array of `type`."""
    arrow, mask = type.arrow(), pa.array([value is None for value in values])
    some = [value for value in values if value is not None]
    if isinstance(type, t.ArrayType | t.MapType):
        lengths = [len(value or ()) for value in values]
        offsets = pa.array(itertools.accumulate(lengths, initial=0), pa.int32())
    if isinstance(type, t.ArrayType):
        items = array([x for value in some for x in value], type.element)
        return pa.ListArray.from_arrays(offsets, items, arrow, mask=mask)
    if isinstance(type, t.MapType):
        pairs = [pair for value in some for pair in value]
        keys, items = array([k for k, _ in pairs], type.key), array([v for _, v in pairs], type.value)
        return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=mask)
    if isinstance(type, t.RowType):
        members = [array([value and value[i] for value in values], f.type) for i, f in enumerate(type.fields)]
        return pa.StructArray.from_arrays(members, fields=list(arrow), mask=mask)
    if isinstance(type, Stamps):
        counts = [value and (value[0] * 10**6 + value[1]) // NANOS[arrow.unit] for value in values]
        return pa.array(counts, pa.int64()).cast(arrow)
    if isinstance(type, t.DateType | t.TimeType):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array([None if value is None else _python(value, type) for value in values], arrow)


def _python(value: Any, type: t.DataType) -> Any:
    if isinstance(type, t.FloatType | t.DoubleType):
        return float(value)
    if isinstance(type, t.DecimalType):
        return Decimal(value)
    return bytes.fromhex(value) if isinstance(type, t.BinaryType | t.VarBinaryType) else value


def departs(case: Case, java: Any) -> bool:
    """Check whether Morrow's value departs from Paimon 1.4 here; each departure has a test below."""
    if isinstance(case.target, t.TimeType):
        return java is not None and not 0 <= java < MILLIS_PER_DAY
    if not isinstance(case.target, Stamps) or java is None:
        return False
    nanos = java[0] * 10**6 + java[1]
    unit = case.target.arrow().unit
    far = not -(2**63) <= nanos // NANOS[unit] < 2**63
    beyond_zones = case.zone != "UTC" and isinstance(case.source, t.BigIntType) and abs(java[0]) > 10**15
    kept_digits = isinstance(case.source, Stamps) and nanos % 10 ** (9 - case.target.precision)
    return far or beyond_zones or bool(kept_digits)


def comparable(case: Case) -> tuple[list[Any], list[Any]]:
    """Return a null and the inputs for which Morrow and Java agree, and Java's values of them."""
    pairs = [(value, java) for value, java in case.pairs if java != ERROR and not departs(case, java)]
    return [None, *(value for value, _ in pairs)], [None, *(java for _, java in pairs)]


def same(left: pa.Array, right: pa.Array) -> bool:
    """Compare arrays with NaN equal to NaN, -0.0 unequal to 0.0, and timestamps as integers."""
    if pa.types.is_temporal(left.type):
        integers = pa.int64() if pa.types.is_timestamp(left.type) else pa.int32()
        return bool(left.type == right.type and left.cast(integers).equals(right.cast(integers)))
    return bool(left.type == right.type) and repr(left.to_pylist()) == repr(right.to_pylist())


BY_SOURCE: dict[str, list[Case]] = {}
for each in CASES:
    BY_SOURCE.setdefault(str(each.source), []).append(each)


@contextmanager
def about(case: Case) -> Iterator[None]:
    """Name the case if an assertion fails."""
    try:
        yield
    except Exception as error:
        error.add_note(str(case))
        raise


@pytest.mark.parametrize("source", BY_SOURCE)
def test_a_column_is_cast_as_java_casts_it(source: str) -> None:
    for case in BY_SOURCE[source]:
        values, expected = comparable(case)
        column = array(values, case.source)
        with about(case):
            result = cast_array(column, case.source, case.target, zone=case.zone)

            result.validate(full=True)
            assert same(result, array(expected, case.target))
            part = cast_array(column[1:], case.source, case.target, zone=case.zone)
            assert same(part, array(expected, case.target)[1:])


@pytest.mark.parametrize("source", BY_SOURCE)
def test_a_lazy_frame_is_cast_as_java_casts_it(source: str) -> None:
    for case in BY_SOURCE[source]:
        values, expected = comparable(case)
        frame = pl.LazyFrame([to_series("a", array(values, case.source), case.source)])
        with about(case):
            cast = frame.select(cast_expression(pl.col("a"), case.source, case.target, zone=case.zone))

            assert cast.collect_schema() == {"a": to_polars_dtype(case.target)}
            result = to_arrow_array(cast.collect()["a"], case.target)
            assert same(result, array(expected, case.target))


@pytest.mark.parametrize("source", BY_SOURCE)
def test_what_java_cannot_cast_is_an_error(source: str) -> None:
    for case in BY_SOURCE[source]:
        for value in (value for value, java in case.pairs if java == ERROR):
            with about(case), pytest.raises(Unsupported, match=r"t\.c: the value"):
                cast_array(array([value], case.source), case.source, case.target, zone=case.zone, where="t.c")


@pytest.mark.parametrize("source", BY_SOURCE)
def test_empty_and_all_null_columns(source: str) -> None:
    for case in (case for case in BY_SOURCE[source] if case.zone == "UTC"):
        for column in (pa.nulls(0, case.source.arrow()), pa.nulls(3, case.source.arrow())):
            result = cast_array(column, case.source, case.target)
            found = (len(result), result.null_count, result.type)
            assert found == (len(column), len(column), case.target.arrow()), case


@pytest.mark.parametrize("source", REFUSED, ids=str)
def test_a_cast_that_java_does_not_have_is_refused(source: t.DataType) -> None:
    for target in REFUSED[source]:
        if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):  # elements of nested columns may evolve
            assert is_allowed(source, target) is is_allowed(source.element, target.element), target
        else:
            assert not is_allowed(source, target), target
            with pytest.raises(Unsupported, match=r"t\.c: a cast from .* is not supported"):
                cast_array(pa.nulls(1, source.arrow()), source, target, where="t.c")


class TestDepartures:
    """Departures from Java, whose value cannot be represented or is a bug that later versions fixed."""

    def test_a_timestamp_before_1970_becomes_the_time_of_its_day_not_a_negative_one(self) -> None:
        source, target = t.TimestampType(precision=3), t.TimeType()
        assert cast_array(array([[-1, 0]], source), source, target).cast(pa.int32()).to_pylist() == [MILLIS_PER_DAY - 1]

    @pytest.mark.parametrize("text", ["25:00:00", "-7", "86400000"])
    def test_a_time_outside_of_the_day_is_an_error(self, text: str) -> None:
        with pytest.raises(Unsupported, match="from 00:00 to 23:59:59"):
            cast_array(pa.array([text]), t.VarCharType(), t.TimeType())

    def test_a_timestamp_that_64_bits_cannot_hold_is_an_error(self) -> None:
        with pytest.raises(Unsupported, match="64 bits of ns"):
            cast_array(pa.array(["9999-12-31"]), t.VarCharType(), t.TimestampType(precision=9))

    def test_a_timestamp_beyond_the_zones_calendar_is_an_error(self) -> None:
        with pytest.raises(Unsupported, match="to the year 32000"):
            cast_array(
                pa.array([10**13]), t.BigIntType(), t.LocalZonedTimestampType(precision=0), zone="America/New_York"
            )

    def test_digits_beyond_the_precision_are_cut_also_after_leading_zeros(self) -> None:
        source, target = t.TimestampType(precision=6), t.TimestampType(precision=5)
        assert cast_array(array([[0, 5000]], source), source, target).cast(pa.int64()).to_pylist() == [0]


@pytest.mark.parametrize(
    ("source", "target", "native"),
    [
        (t.IntType(), t.BigIntType(), True),
        (t.IntType(), t.SmallIntType(), False),
        (t.BigIntType(), t.DoubleType(), True),
        (t.FloatType(), t.DoubleType(), True),
        (t.DoubleType(), t.VarCharType(), False),
        (t.VarCharType(length=10), t.VarCharType(length=40), True),
        (t.VarCharType(length=10), t.CharType(length=40), False),
        (t.TimestampType(precision=3), t.TimestampType(precision=6), True),
        (t.TimestampType(precision=3), t.TimestampType(precision=9), False),
        (t.DecimalType(precision=8, scale=2), t.DecimalType(precision=20, scale=4), True),
        (t.DecimalType(precision=8, scale=2), t.DecimalType(precision=8, scale=4), False),
    ],
)
def test_lossless_casts_are_native_expressions(source: t.DataType, target: t.DataType, native: bool) -> None:
    assert (polars_cast(pl.col("a"), source, target) is not None) is native


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0e23, "1.9999999999999998E23"),
        (2.0e-3, "0.002"),
        (1.0e23, "9.999999999999999E22"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (4.9e-324, "4.9E-324"),
        (9007199254740993.0, "9.007199254740992E15"),
        (1.0e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (-0.0, "-0.0"),
    ],
)
def test_text_of_doubles_is_that_of_jdk_17(value: float, text: str) -> None:
    assert format_double(value) == text


@given(st.floats())
def test_text_of_a_double_reads_back(value: float) -> None:
    assert repr(float(format_double(value))) == repr(value)


@given(st.floats(width=32))
def test_text_of_a_float_reads_back(value: float) -> None:
    assert repr(pa.scalar(float(format_float(value)), pa.float32()).as_py()) == repr(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12))
def test_a_decimal_rounds_half_up_or_is_null(value: Decimal) -> None:
    source, target = t.DecimalType(precision=20, scale=4), t.DecimalType(precision=6, scale=2)
    rounded = value.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")

    result = cast_array(pa.array([value], source.arrow()), source, target)[0].as_py()

    assert result == (rounded if abs(rounded) < 10**4 else None)


X, Y, Z = (t.DataField(1, "x", t.IntType()), t.DataField(2, "y", t.VarCharType()), t.DataField(3, "z", t.DateType()))
YY, NEW, WIDE_X = (
    t.DataField(2, "yy", t.VarCharType()),
    t.DataField(4, "new", t.DoubleType()),
    t.DataField(1, "x", t.BigIntType()),
)
BEFORE, AFTER = t.RowType(fields=(X, Y, Z)), t.RowType(fields=(YY, NEW, WIDE_X))
ROWS = ({"x": 1, "y": "a", "z": None}, None, {"x": None, "y": "b", "z": None})
EVOLVED = [{"yy": "a", "new": None, "x": 1}, None, {"yy": "b", "new": None, "x": None}]


class TestNested:
    def test_row_members_are_known_by_their_id(self) -> None:
        result = cast_array(pa.array(ROWS, BEFORE.arrow()), BEFORE, AFTER)
        assert result.to_pylist() == EVOLVED
        assert result.type == AFTER.arrow()

    def test_rows_in_arrays(self) -> None:
        source, target = t.ArrayType(element=BEFORE), t.ArrayType(element=AFTER)
        column = pa.array([ROWS, None, []], source.arrow())
        assert cast_array(column, source, target).to_pylist() == [EVOLVED, None, []]
        assert cast_array(column[1:], source, target).to_pylist() == [None, []]

    def test_rows_in_maps(self) -> None:
        source, target = t.MapType(key=t.IntType(), value=BEFORE), t.MapType(key=t.IntType(), value=AFTER)
        column = pa.array([[(7, ROWS[0]), (8, None)], None], source.arrow())
        assert cast_array(column, source, target).to_pylist() == [[(7, EVOLVED[0]), (8, None)], None]

    def test_a_map_keeps_its_key_type(self) -> None:
        source, target = t.MapType(key=t.IntType(), value=BEFORE), t.MapType(key=t.BigIntType(), value=BEFORE)
        assert not is_allowed(source, target)

    def test_a_member_that_cannot_be_cast_refuses_the_column(self) -> None:
        target = t.RowType(fields=(t.DataField(3, "z", t.IntType()),))
        assert not is_allowed(BEFORE, target)

    def test_members_that_differ_in_nullability_only_are_the_same_values(self) -> None:
        target = t.RowType(fields=(X, Y, t.DataField(3, "z", t.DateType(nullable=False))))
        assert cast_array(pa.array(ROWS[:1], BEFORE.arrow()), BEFORE, target).type == target.arrow()
