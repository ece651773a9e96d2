"""HASH index files: the hash codes of all keys in one bucket of a table with dynamic buckets.

bytes    a sequence of big-endian 4-byte integers, each the hash code of a trimmed primary key, without repetition;
         in no particular order. The number of integers is the row count of the index manifest entry.

Source: the format specification, section Index, "Dynamic Bucket Index".
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile

INDEX_TYPE = "HASH"
HASH_DTYPE = ">i4"
HASH_WIDTH = 4

HashCodes: TypeAlias = npt.NDArray[np.int32]


def encode_hash_index(hashes: HashCodes) -> bytes:
    """Returns the bytes of an index file; `hashes` has each code once."""
    return hashes.astype(HASH_DTYPE).tobytes()


def decode_hash_index(data: bytes, *, where: str, row_count: int | None = None) -> HashCodes:
    """Returns the hash codes in an index file.

    Raises:
        CorruptFile: the length is not a multiple of 4, or contradicts `row_count` of the index manifest.
    """
    if len(data) % HASH_WIDTH:
        raise CorruptFile(where, f"{len(data)} bytes, which are no sequence of {HASH_WIDTH}-byte hash codes")
    if row_count is not None and len(data) != row_count * HASH_WIDTH:
        raise CorruptFile(where, f"{len(data)} bytes where the index manifest counts {row_count} hash codes")
    return np.frombuffer(data, HASH_DTYPE).astype(np.int32)
