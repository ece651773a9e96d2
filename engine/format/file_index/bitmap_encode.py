"""Encoder of the ``bitmap`` index; `bitmap` describes the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.file_index.java_order import hash_codes, map_order
from morrow.engine.format.file_index.keys_encode import ColumnKeys, stored
from morrow.engine.format.file_index.parameters import size, whole
from morrow.engine.format.file_index.ragged import Ragged, fixed, side_by_side, take
from morrow.engine.format.file_index.rowsets_encode import write_many, write_rows

Ints = npt.NDArray[np.int64]

DEFAULT_VERSION = 2
DEFAULT_BLOCK_SIZE = 16 << 10
NO_LENGTH = -1
"""The length stored for a single row, which needs no bitmap."""
BLOCK_HEAD = 4


@dataclass(frozen=True, eq=False)
class _Places:
    """The bitmaps of a column, and the place and length of each distinct key in ascending order."""

    order: Ints
    places: Ints
    lengths: Ints
    null_place: int
    null_length: int
    bitmaps: bytes


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Returns the index of a column, in the ``version`` that the options ask for.

    Raises:
        InvalidArgument: a parameter out of range, or a key that does not fit a block of ``index-block-size``.
    """
    version = whole(options, "version", DEFAULT_VERSION, least=min(_HEADS), most=max(_HEADS))
    places = _places(keys)
    head = struct.pack(">bii?", version, keys.row_count, keys.distinct.len(), len(keys.null_rows) > 0)
    return b"".join([head, *_HEADS[version](keys, places, options), places.bitmaps])


def _places(keys: ColumnKeys) -> _Places:
    """Lays out the bitmaps: that of the nulls first, then those of the keys in the order of Java's map."""
    count = keys.distinct.len()
    counts = np.bincount(keys.codes, minlength=count)
    _, came = np.unique(keys.codes, return_index=True)
    order = map_order(hash_codes(keys.distinct, keys.data_type), -came)  # Java's writer uses computeIfAbsent
    rank = np.empty(count, np.int64)
    rank[order] = np.cumsum(counts[order] > 1) - 1  # of the keys with more than one row
    shared = np.flatnonzero(counts[keys.codes] > 1)
    sets = rank[keys.codes[shared]]
    sorting = np.argsort(sets, kind="stable")
    bitmaps = write_many(sets[sorting], keys.rows[shared[sorting]], int((counts > 1).sum()))
    nulls = write_rows(keys.null_rows, keys.row_count)
    stored_nulls = nulls if len(keys.null_rows) > 1 else b""
    starts, lengths = len(stored_nulls) + bitmaps.starts, bitmaps.sizes
    single = counts == 1
    return _Places(
        order=order,
        places=np.where(single, -1 - keys.rows[came], _at(starts, rank)),
        lengths=np.where(single, NO_LENGTH, _at(lengths, rank)),
        null_place=-1 - int(keys.null_rows[0]) if len(keys.null_rows) == 1 else 0,
        null_length=len(nulls),
        bitmaps=stored_nulls + bitmaps.data.tobytes(),
    )


def _at(values: Ints, places: Ints) -> Ints:
    """Returns the values at these places, and an arbitrary value for an invalid place."""
    return values[places.clip(0)] if len(values) else places


def _head_v1(keys: ColumnKeys, places: _Places, _: Mapping[str, str]) -> Iterator[bytes]:
    if len(keys.null_rows):
        yield struct.pack(">i", places.null_place)
    entries = side_by_side([stored(keys.distinct, keys.data_type), fixed(places.places, ">i4")])
    yield take(entries, places.order).data.tobytes()


def _head_v2(keys: ColumnKeys, places: _Places, options: Mapping[str, str]) -> Iterator[bytes]:
    if len(keys.null_rows):
        yield struct.pack(">ii", places.null_place, places.null_length)
    names = stored(keys.distinct, keys.data_type)
    entries = side_by_side([names, fixed(places.places, ">i4"), fixed(places.lengths, ">i4")])
    begins, sizes = _blocks(entries.sizes, size(options, "index-block-size", DEFAULT_BLOCK_SIZE))
    yield struct.pack(">i", len(begins))
    yield side_by_side([take(names, begins), fixed(np.cumsum(sizes) - sizes, ">i4")]).data.tobytes()
    yield struct.pack(">i", int(sizes.sum()))
    counts = np.diff(np.append(begins, len(entries)))
    yield side_by_side([fixed(counts, ">i4"), Ragged(entries.data, sizes - BLOCK_HEAD)]).data.tobytes()


def _blocks(sizes: Ints, limit: int) -> tuple[Ints, Ints]:
    """Returns the first entry and the size of each block, which holds as many entries as fit the limit."""
    if len(sizes) and int(sizes.max()) + BLOCK_HEAD > limit:
        problem = f"a key of {int(sizes.max()) - 2 * BLOCK_HEAD} bytes does not fit a block of {limit} bytes"
        raise InvalidArgument(f"bitmap index: {problem}; raise index-block-size or take another index")
    ends = np.cumsum(sizes)
    begins, taken, done = [], [], 0
    while done < len(sizes):
        before = int(ends[done - 1]) if done else 0
        stop = int(np.searchsorted(ends, before + limit - BLOCK_HEAD, side="right"))
        begins.append(done)
        taken.append(int(ends[stop - 1]) - before + BLOCK_HEAD)
        done = stop
    return np.array(begins, np.int64), np.array(taken, np.int64)


_HEADS: Mapping[int, Callable[[ColumnKeys, _Places, Mapping[str, str]], Iterator[bytes]]] = {1: _head_v1, 2: _head_v2}
