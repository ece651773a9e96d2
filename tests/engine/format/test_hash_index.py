"""HASH index files: big-endian hash codes, one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.format.hash_index import decode_hash_index, encode_hash_index


def test_bytes_and_back() -> None:
    hashes = np.array([1, -1, 2**31 - 1, -(2**31)], np.int32)
    data = encode_hash_index(hashes)
    assert data.hex() == "00000001ffffffff7fffffff80000000"
    assert decode_hash_index(data, where="index-1", row_count=4).tolist() == hashes.tolist()


def test_an_index_of_nothing() -> None:
    assert decode_hash_index(b"", where="index-1", row_count=0).tolist() == []


@pytest.mark.parametrize(
    ("data", "count", "problem"),
    [(b"\0" * 5, None, "5 bytes, which are no sequence"), (b"\0" * 8, 3, "8 bytes where the index manifest counts 3")],
)
def test_damage(data: bytes, count: int | None, problem: str) -> None:
    with pytest.raises(CorruptFile, match=f"index-1: {problem}"):
        decode_hash_index(data, where="index-1", row_count=count)
