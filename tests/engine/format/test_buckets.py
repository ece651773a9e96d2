"""Buckets as Java Paimon 1.4.2 computes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.buckets import compute_buckets, decode_hash_index, encode_hash_index
from morrow.engine.format.types import BigIntType, DataType, IntType, VarCharType, parse_atomic

MOST = 2**31 - 1

# type, value, Java's default bucket of 7, Java's hive bucket of 2^31 - 1 (the hash itself without its sign)
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
    assert compute_buckets([column(value, kind)], [kind], 7).tolist() == [default]
    assert compute_buckets([column(value, kind)], [kind], MOST, "hive").tolist() == [hive]


def test_two_keys() -> None:
    keys = [pl.Series([42, None], dtype=pl.Int32), pl.Series(["paimon", "paimon"])]
    types = [IntType(), VarCharType()]
    assert compute_buckets(keys, types, 7)[0] == 3
    assert compute_buckets(keys, types, MOST, "hive").tolist() == [
        1151800458,
        1151799156,
    ]  # a null counts as 0, which is 31 * 42 less


def test_mod_is_never_negative() -> None:
    assert compute_buckets([pl.Series([17, -3, 5])], [BigIntType()], 5, "mod").tolist() == [2, 2, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(1, MOST))
def test_every_function_stays_in_range(keys: list[int], num_buckets: int) -> None:
    for function in ("default", "mod", "hive"):
        buckets = compute_buckets([pa.array(keys, pa.int64())], [BigIntType()], num_buckets, function)
        assert buckets.dtype == "int32"
        assert ((buckets >= 0) & (buckets < num_buckets)).all()


def test_rows_past_one_batch() -> None:
    keys = pl.Series(range(200_000), dtype=pl.Int64)
    buckets = compute_buckets([keys], [BigIntType()], 64)
    assert buckets[150_000] == compute_buckets([keys[150_000:150_001]], [BigIntType()], 64)[0]
    assert len(buckets) == 200_000


def test_what_is_refused() -> None:
    ints = pl.Series([1])
    with pytest.raises(Unsupported, match=r"the bucket function 'md5' is not supported; .* default, hive, mod"):
        compute_buckets([ints], [BigIntType()], 4, "md5")
    with pytest.raises(InvalidArgument, match=r"takes one INT or BIGINT key, not \(STRING\)"):
        compute_buckets([pl.Series(["a"])], [VarCharType()], 4, "mod")
    with pytest.raises(Unsupported, match=r"TIMESTAMP\(6\) as a key of the bucket function hive"):
        compute_buckets([pl.Series([dt.datetime(2024, 1, 1)])], [parse_atomic("TIMESTAMP(6)")], 4, "hive")
    with pytest.raises(InvalidArgument, match="at least 1, not 0"):
        compute_buckets([ints], [BigIntType()], 0)
    with pytest.raises(InvalidArgument, match="set the option bucket-key"):
        compute_buckets([], [], 4)


# HASH index files: a sequence of big-endian hash codes.


def test_bytes_and_back() -> None:
    hashes = np.array([1, -1, 2**31 - 1, -(2**31)], np.int32)
    data = encode_hash_index(hashes)
    assert data.hex() == "00000001ffffffff7fffffff80000000"
    assert decode_hash_index(data, where="index-1", row_count=4).tolist() == hashes.tolist()


def test_an_index_of_nothing() -> None:
    assert decode_hash_index(b"", where="index-1", row_count=0).tolist() == []


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [(b"\0" * 5, None, "5 bytes, which are not whole"), (b"\0" * 8, 3, "8 bytes where the index manifest counts 3")],
)
def test_damage(data: bytes, count: int | None, problem: str) -> None:
    with pytest.raises(CorruptFile, match=f"index-1: {problem}"):
        decode_hash_index(data, where="index-1", row_count=count)
