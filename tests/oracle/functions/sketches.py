"""Functions of serialised sets: roaring bitmaps and the sketches of Apache DataSketches."""

from __future__ import annotations

import struct

import datasketches
from pyroaring import BitMap

from tests.oracle.functions.base import NullsAside
from tests.support.rbm64 import decode, encode

EMPTY, SINGLE = 0x04, 0x20
NO_SEED_HASH = b"\0\0"
SAMPLING_PROBABILITY = struct.pack("<f", 1.0)


class Rbm32(NullsAside):
    def combine(self, accumulator: bytes, new: bytes) -> bytes:
        union = BitMap.deserialize(accumulator) | BitMap.deserialize(new)
        union.run_optimize()
        return bytes(union.serialize())


class Rbm64(NullsAside):
    def combine(self, accumulator: bytes, new: bytes) -> bytes:
        return encode(decode(accumulator).union(decode(new)))


class HllSketch(NullsAside):
    """Unions of HLL sketches with the second sketch's precision. Java writes the same bytes."""

    def combine(self, accumulator: bytes, new: bytes) -> bytes:
        first, second = datasketches.hll_sketch.deserialize(accumulator), datasketches.hll_sketch.deserialize(new)
        union = datasketches.hll_union(second.lg_config_k)
        union.update(second)
        union.update(first)
        return bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact())


class ThetaSketch(NullsAside):
    def combine(self, accumulator: bytes, new: bytes) -> bytes:
        union = datasketches.theta_union()
        for sketch in (accumulator, new):
            union.update(datasketches.compact_theta_sketch.deserialize(sketch))
        return _as_java(bytes(union.get_result().serialize()))


def _as_java(theta: bytes) -> bytes:
    """Add the parts that only Java's header has: a flag for a single value, else the sampling probability."""
    if theta[0] > 1:
        return theta[:12] + SAMPLING_PROBABILITY + theta[16:]
    if theta[5] & EMPTY:
        return theta[:6] + NO_SEED_HASH
    return theta[:5] + bytes([theta[5] | SINGLE]) + theta[6:]
