"""hll_sketch and theta_sketch: unions of Apache DataSketches, with the settings and the bytes of Paimon's Java library.

The C++ library behind `datasketches` computes the same unions; where it writes or reads less than the Java one, this
module compensates. The bytes of the images that it uses, little-endian:

* HLL: see `hll_image`.
* theta: byte 0 has in its low 6 bits the number of 8-byte longs before the hashes, byte 2 is the family (2 update,
  3 compact). Of the longs: 0 ends in the hash of the seed (u16), 1 is u32 number of hashes and f32 p, 2 is u64 theta.
  An update sketch has always three and then a hash table of u64, 0 where it is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from morrow.engine.extras import needing
from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.merges.functions.base import Aggregator, Make
from morrow.readers.merges.functions.bitmaps import make_union
from morrow.readers.merges.functions.corrupt_value import corrupt_value
from morrow.readers.merges.functions.hll_image import FLAGS, OUT_OF_ORDER, check, is_hll_array

THETA_LG_K = 12
"""The size of Java's default theta union: it keeps at most 4096 hashes."""
THETA_LONGS_MASK = 0x3F
THETA_HEAD_BYTES = 24
THETA_FAMILY, UPDATE, COMPACT = 2, 2, 3
THETA_COMPACT_FLAGS = 0x1A
"""Read-only, compact, ordered."""
THETA_P = slice(12, 16)
NO_SAMPLING = np.float32(1).tobytes()
"""p, the sampling probability of a sketch: the C++ library leaves it 0, Java writes 1 in each result."""
THETA_EMPTY = bytes.fromhex("01030300001e0000")
"""The image without hashes: Java writes no hash of the seed."""
THETA_FLAGS, THETA_IS_EMPTY, THETA_SINGLE_ITEM = 5, 0x04, 0x20


@contextmanager
def _reading(function: str) -> Iterator[None]:
    """Turns errors of the library about bytes into a `CorruptValue`."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:  # BadImage, and what C++ exceptions become
        raise corrupt_value(function, f"it is no sketch: {error}") from error


def hll_union(first: bytes, second: bytes, *, function: str) -> bytes:
    """Returns the union at lg k of `second`, or less, as a compact HLL_4 image.

    Raises:
        CorruptValue: bytes that are no HLL sketch.
    """
    import datasketches as ds

    arrays = [value for value in (first, second) if is_hll_array(value)]
    if len(arrays) == 1 and arrays[0][FLAGS] & OUT_OF_ORDER:
        # Java continues the estimator that this flag turns off, the C++ library does not: so no flag here.
        united = bytearray(hll_union(_in_order(first), _in_order(second), function=function))
        united[FLAGS] |= OUT_OF_ORDER
        return bytes(united)
    with _reading(function):
        for value in (first, second):
            check(value)
        base, other = ds.hll_sketch.deserialize(second), ds.hll_sketch.deserialize(first)
        union = ds.hll_union(base.lg_config_k)
        union.update(base)
        if is_hll_array(first) and other.lg_config_k > base.lg_config_k:
            # Downsized separately, as in Java: when it merges a list, the C++ library omits the recount.
            smaller = ds.hll_union(base.lg_config_k)
            smaller.update(other)
            other = smaller.get_result(ds.tgt_hll_type.HLL_8)
        union.update(other)
        image: bytes = union.get_result(ds.tgt_hll_type.HLL_4).serialize_compact()
    return image


def _in_order(value: bytes) -> bytes:
    if not is_hll_array(value):
        return value
    image = bytearray(value)
    image[FLAGS] &= ~OUT_OF_ORDER
    return bytes(image)


def theta_union(first: bytes, second: bytes, *, function: str) -> bytes:
    """Returns the union with 4096 nominal entries, as a compact, ordered image.

    Raises:
        CorruptValue: bytes that are no theta sketch, or one made with another seed.
    """
    import datasketches as ds

    with _reading(function):
        union = ds.theta_union(THETA_LG_K)
        for value in (first, second):
            union.update(ds.compact_theta_sketch.deserialize(_compact(value)))
        result = union.get_result()
    if result.is_empty():
        return THETA_EMPTY
    image = bytearray(result.serialize())
    if image[0] & THETA_LONGS_MASK > 1:
        image[THETA_P] = NO_SAMPLING
    else:
        image[THETA_FLAGS] |= THETA_SINGLE_ITEM
    return bytes(image)


def _compact(value: bytes) -> bytes:
    """Converts an update sketch, which the library does not read, to a compact one; returns others unchanged."""
    if len(value) < THETA_HEAD_BYTES or value[THETA_FAMILY] != UPDATE:
        return value
    if value[THETA_FLAGS] & THETA_IS_EMPTY:
        return THETA_EMPTY
    theta = np.frombuffer(value, "<u8", 1, THETA_HEAD_BYTES - 8)[0]
    hashes = np.frombuffer(value[: len(value) // 8 * 8], "<u8", offset=THETA_HEAD_BYTES)
    kept = np.sort(hashes[(hashes > 0) & (hashes < theta)])
    head = bytes((3, value[1], COMPACT, 0, 0, THETA_COMPACT_FLAGS)) + value[6:8]
    image: bytes = head + kept.size.to_bytes(4, "little") + NO_SAMPLING + theta.tobytes() + kept.tobytes()
    return image


def _by_library(make: Make) -> Make:
    """Refuses to make the function where its library is not installed, before a row is read."""

    def made(call: AggregateCall, dtype: DataType) -> Aggregator:
        with needing(f"the aggregate function {call.function}", "datasketches", "sketches"):
            import datasketches as ds

            assert ds
        return make(call, dtype)

    return made


AGGREGATORS: Mapping[str, Make] = {
    "hll_sketch": _by_library(make_union(hll_union)),
    "theta_sketch": _by_library(make_union(theta_union)),
}
