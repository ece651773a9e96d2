"""Thrift's compact protocol: damage raises a typed error at a bounded cost."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.parquet_metadata import (
    BINARY,
    I32,
    LIST,
    STRUCT,
    Items,
    ThriftError,
    decode_thrift,
    decode_thrift_from,
    encode_thrift,
)

NODE = {
    1: (I32, -7),
    2: (BINARY, b"name"),
    5: (STRUCT, {1: (I32, 2**31 - 1)}),
    40: (LIST, Items(I32, range(20))),
}


def test_a_struct_there_and_back() -> None:
    assert decode_thrift(encode_thrift(NODE)) == NODE
    assert decode_thrift_from(b"\xff" + encode_thrift(NODE) + b"rest", 1) == (NODE, len(encode_thrift(NODE)) + 1)


@pytest.mark.parametrize("length", range(len(encode_thrift(NODE))))
def test_a_struct_that_is_cut_off(length: int) -> None:
    with pytest.raises(ThriftError):
        decode_thrift(encode_thrift(NODE)[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"\x1c" * 100_000,  # nested structs
        b"\x19\xf9\x01" * 1000,  # nested lists
        b"\x19\xf5\xff\xff\xff\xff\x0f",  # a list of 4 billion numbers
        b"\x18\xff\xff\xff\xff\x0f",  # a text of 4 GB
        b"\x15" + b"\xff" * 100,  # a number that never ends
        b"\x1d\x00",  # an unknown type
    ],
)
def test_what_no_writer_writes(data: bytes) -> None:
    with pytest.raises(ThriftError):
        decode_thrift(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with suppress(ThriftError):
        decode_thrift(data)
