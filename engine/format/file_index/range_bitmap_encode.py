"""Encoder of the ``range-bitmap`` index; `range_bitmap` describes the bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from morrow.engine.format import types as t
from morrow.engine.format.file_index.keys import KINDS
from morrow.engine.format.file_index.keys_encode import ColumnKeys, stored
from morrow.engine.format.file_index.parameters import size
from morrow.engine.format.file_index.ragged import Ragged, fixed, side_by_side, take
from morrow.engine.format.file_index.range_bitmap import OFFSET_WIDTH, VERSION
from morrow.engine.format.file_index.rowsets_encode import write_rows, write_slices

Ints = npt.NDArray[np.int64]

DEFAULT_CHUNK_SIZE = 16 << 10
UNCHUNKED = (t.BooleanType, t.TinyIntType, t.SmallIntType)
"""Types for which Java writes one key per chunk."""
SLICES_WITHOUT_KEYS = 64
"""The number of slices of an index without keys: Java takes the bits of -1, its greatest code then."""


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Returns the index of a column.

    Raises:
        InvalidArgument: a parameter is not a size.
    """
    limit = size(options, "chunk-size", 0 if isinstance(keys.data_type, UNCHUNKED) else DEFAULT_CHUNK_SIZE)
    distinct = stored(keys.distinct, keys.data_type)
    dictionary = _dictionary(distinct, limit, fixed_width=KINDS[type(keys.data_type)].width)
    count = len(distinct)
    ends = b"".join(distinct.part(at, at + 1).data.tobytes() for at in (0, count - 1)) if count else b""
    header = struct.pack(">bii", VERSION, keys.row_count, count) + ends + struct.pack(">i", len(dictionary))
    return b"".join([_sized(header), dictionary, _codes(keys, count)])


def _sized(header: bytes) -> bytes:
    return struct.pack(">i", len(header)) + header


def _dictionary(keys: Ragged, limit: int, fixed_width: int | None) -> bytes:
    begins = _chunks(keys.sizes, limit, fixed_width)
    further = np.diff(np.append(begins, len(keys))) - 1
    is_first = np.zeros(len(keys), np.bool_)
    is_first[begins] = True
    others = take(keys, np.flatnonzero(~is_first))
    key_sizes = _sums(others.sizes, further)
    if fixed_width is None:
        offsets = others.starts - np.repeat(np.cumsum(key_sizes) - key_sizes, further)
        offset_sizes = further * OFFSET_WIDTH
        body = side_by_side([Ragged(fixed(offsets, ">i4").data, offset_sizes), Ragged(others.data, key_sizes)])
        sizes = (offset_sizes, key_sizes)
    else:
        body = Ragged(others.data, key_sizes)
        sizes = (key_sizes, np.full(len(begins), fixed_width))
    numbers = np.stack([begins, body.starts, further, *sizes], axis=1)
    tail = Ragged(fixed(numbers.reshape(-1), ">i4").data, np.full(len(begins), numbers.shape[1] * 4))
    headers = side_by_side([fixed(np.full(len(begins), VERSION), ">i1"), take(keys, begins), tail])
    offsets_of_headers = fixed(headers.starts, ">i4").data
    header = struct.pack(">biii", VERSION, len(begins), offsets_of_headers.size, headers.data.size)
    return b"".join([_sized(header), offsets_of_headers.tobytes(), headers.data.tobytes(), body.data.tobytes()])


def _chunks(sizes: Ints, limit: int, fixed_width: int | None) -> Ints:
    """Returns the index of each chunk's first key, which is in the header; the further keys must fit the limit."""
    if fixed_width is not None:
        return np.arange(0, len(sizes), 1 + limit // fixed_width)
    ends = np.cumsum(sizes)
    begins, done = [], 0
    while done < len(sizes):
        begins.append(done)
        stop = int(np.searchsorted(ends, ends[done] + limit, side="right"))
        done = min(stop, done + 1 + limit // OFFSET_WIDTH)
    return np.array(begins, np.int64)


def _sums(values: Ints, counts: Ints) -> Ints:
    """Returns the sum of the first `counts[0]` values, of the `counts[1]` that follow, and so on."""
    totals = np.append(0, np.cumsum(values))
    ends = np.cumsum(counts)
    sums: Ints = totals[ends] - totals[ends - counts]
    return sums


def _codes(keys: ColumnKeys, count: int) -> bytes:
    slices = max(1, (count - 1).bit_length()) if count else SLICES_WITHOUT_KEYS
    present = write_rows(keys.rows, keys.row_count)
    bodies = list(write_slices(keys.rows, keys.codes, slices, keys.row_count))
    lengths = np.array([len(body) for body in bodies])
    table = fixed(np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).reshape(-1), ">i4").data.tobytes()
    header = struct.pack(">bbii", VERSION, slices, len(present), len(table)) + table
    return b"".join([_sized(header), present, *bodies])
