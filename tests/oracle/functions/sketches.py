"""Functions of serialised sets: roaring bitmaps and the sketches of Apache DataSketches."""

from __future__ import annotations

import struct

import datasketches
from pyroaring import BitMap

from tests.oracle.functions.base import NullsAside
from tests.support.rbm64 import decode, encode

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
    """The second sketch says how precise the union is. Its bytes are those of Java up to the order within."""

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
        result = bytes(union.get_result().serialize())
        # Java also writes the sampling probability, where the header has room for it.
        return result if result[0] < 2 else result[:12] + SAMPLING_PROBABILITY + result[16:]
