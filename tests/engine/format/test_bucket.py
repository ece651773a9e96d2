"""Buckets as Java Paimon 1.4.2 computes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.bucket import bucket_of
from morrow.engine.format.type_text import parse_atomic
from morrow.engine.format.types import BigIntType, DataType, IntType, VarCharType

MOST = 2**31 - 1

# type, value, Java's default bucket of 7, Java's hive bucket of 2^31 - 1 (the hash itself, but for its sign)
JAVA_BUCKETS = [
    ("BOOLEAN", True, 5, 1),
    ("TINYINT", -7, 2, 2147483641),
    ("SMALLINT", -300, 2, 2147483348),
    ("INT", -1, 6, 0),
    ("BIGINT", 5000000000, 4, 705032705),
    ("BIGINT", -5000000000, 5, 705032702),
    ("FLOAT", 1.5, 5, 1069547520),
    ("FLOAT", -0.0, 0, 0),
    ("FLOAT", float("nan"), 3, 2143289344),
    ("DOUBLE", -2.25, 1, 1073872896),
    ("DOUBLE", -0.0, 5, 0),
    ("DOUBLE", float("nan"), 0, 2146959360),
    ("DECIMAL(10, 2)", Decimal("12.30"), 0, 3814),
    ("DECIMAL(10, 2)", Decimal("-12.30"), 0, 2147479836),
    ("DECIMAL(10, 2)", Decimal("0.00"), 1, 0),
    ("DECIMAL(10, 2)", Decimal("100.00"), 1, 3100),
    ("DECIMAL(10, 2)", Decimal("99999999.99"), 4, 762356581),
    ("DECIMAL(38, 4)", Decimal("12.3000"), 2, 3814),
    ("DECIMAL(38, 4)", Decimal("-1.0000"), 5, 2147483617),
    ("DECIMAL(38, 4)", Decimal("-9999999999999999999999999999999999.9999"), 4, 427198390),
    ("DECIMAL(38, 4)", Decimal("1000000000000000000000.0000"), 3, 1603132559),
    ("DECIMAL(38, 4)", Decimal("1844674407370955.1616"), 6, 29795),
    ("STRING", "", 5, 0),
    ("STRING", "seven77", 6, 1987344301),
    ("STRING", "héllo wörld", 0, 17241503),
    ("STRING", "a string that is longer than one word", 5, 1116821401),
    ("BYTES", b"\x00\xff\x80", 5, 2147483489),
    ("DATE", dt.date(1969, 12, 31), 6, 0),
    ("TIME(3)", dt.time(23, 59, 59, 999000), 2, 86399999),
]


def column(value: Value, kind: DataType) -> pa.Array:
    return pa.array([value], kind.arrow())


@pytest.mark.parametrize(("text", "value", "default", "hive"), JAVA_BUCKETS)
def test_one_key(text: str, value: Value, default: int, hive: int) -> None:
    kind = parse_atomic(text)
    assert bucket_of([column(value, kind)], [kind], 7).tolist() == [default]
    assert bucket_of([column(value, kind)], [kind], MOST, "hive").tolist() == [hive]


def test_two_keys() -> None:
    keys = [pl.Series([42, None], dtype=pl.Int32), pl.Series(["paimon", "paimon"])]
    types = [IntType(), VarCharType()]
    assert bucket_of(keys, types, 7)[0] == 3
    assert bucket_of(keys, types, MOST, "hive").tolist() == [1151800458, 1151799156]  # a null counts as 0: 31 * 42 less


def test_mod_is_never_negative() -> None:
    assert bucket_of([pl.Series([17, -3, 5])], [BigIntType()], 5, "mod").tolist() == [2, 2, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(1, MOST))
def test_every_function_stays_in_range(keys: list[int], num_buckets: int) -> None:
    for function in ("default", "mod", "hive"):
        buckets = bucket_of([pa.array(keys, pa.int64())], [BigIntType()], num_buckets, function)
        assert buckets.dtype == "int32"
        assert ((buckets >= 0) & (buckets < num_buckets)).all()


def test_rows_past_one_batch() -> None:
    keys = pl.Series(range(200_000), dtype=pl.Int64)
    buckets = bucket_of([keys], [BigIntType()], 64)
    assert buckets[150_000] == bucket_of([keys[150_000:150_001]], [BigIntType()], 64)[0]
    assert len(buckets) == 200_000


def test_what_is_refused() -> None:
    ints = pl.Series([1])
    with pytest.raises(Unsupported, match=r"the bucket function 'md5' is not supported; .* default, hive, mod"):
        bucket_of([ints], [BigIntType()], 4, "md5")
    with pytest.raises(InvalidArgument, match=r"takes one INT or BIGINT key, not \(STRING\)"):
        bucket_of([pl.Series(["a"])], [VarCharType()], 4, "mod")
    with pytest.raises(Unsupported, match=r"TIMESTAMP\(6\) as a key of the bucket function hive"):
        bucket_of([pl.Series([dt.datetime(2024, 1, 1)])], [parse_atomic("TIMESTAMP(6)")], 4, "hive")
    with pytest.raises(InvalidArgument, match="at least 1, not 0"):
        bucket_of([ints], [BigIntType()], 0)
    with pytest.raises(InvalidArgument, match="set the option bucket-key"):
        bucket_of([], [], 4)
