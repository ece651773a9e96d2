"""Java's RoaringBitmap in the portable format, little-endian; `n` containers in ascending key order::

    without run containers                   with run containers
    u32  12346                               u16  12347
    u32  n                                   u16  n - 1
                                             u8[(n + 7) / 8]  bit i set: container i has runs
    n x (u16 key, u16 cardinality - 1)       the same
    n x  u32 offset of container             only if n >= 4
    n x  container                           the same

Container `key` holds the low 16 bits of its positions; see `roaring_containers`. Without a run flag, its cardinality
tells its layout. Bytes after the last container are ignored, as in Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from morrow.engine.format.roaring import COOKIE_NO_RUNS, COOKIE_RUNS, MIN_CONTAINERS_FOR_OFFSETS
from morrow.readers.merges.functions.corrupt_value import Cursor
from morrow.readers.merges.functions.roaring_containers import (
    POSITIONS,
    Container,
    Layout,
    plain_layout,
    read_container,
    run_optimized,
    united,
)

OFFSET_WIDTH = 4


def union(first: bytes, second: bytes, *, function: str) -> bytes:
    """Unites both bitmaps, as Java's `RoaringBitmap.or`, `runOptimize` and `serialize` write the result.

    Raises:
        CorruptValue: bytes that are no such bitmap.
    """
    containers = dict(read(first, function=function))
    for key, container in read(second, function=function).items():
        containers[key] = united(containers[key], container) if key in containers else container
    return write({key: run_optimized(containers[key]) for key in sorted(containers)})


def read(data: bytes, *, function: str) -> Mapping[int, Container]:
    """Reads the containers by key. Raises `CorruptValue`."""
    cursor = Cursor(data, function)
    cookie = cursor.integer(4, "the cookie")
    has_runs = cookie & 0xFFFF == COOKIE_RUNS
    if not has_runs and cookie != COOKIE_NO_RUNS:
        raise cursor.corrupt(f"the cookie is {cookie}, not {COOKIE_NO_RUNS} or {COOKIE_RUNS} of a roaring bitmap")
    count = (cookie >> 16) + 1 if has_runs else cursor.integer(4, "the number of containers")
    if count > POSITIONS:
        raise cursor.corrupt(f"{count} containers, at most {POSITIONS} can exist")
    flags = np.zeros(count, np.bool_)
    if has_runs:
        packed = np.frombuffer(cursor.take((count + 7) // 8, "the run flags"), np.uint8)
        flags = np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)
    header = cursor.u16s(2 * count, "the container keys").astype(np.int64)
    keys, cardinalities = header[::2], header[1::2] + 1
    if (keys[1:] <= keys[:-1]).any():
        raise cursor.corrupt("the container keys do not ascend")
    if not has_runs or count >= MIN_CONTAINERS_FOR_OFFSETS:
        cursor.take(OFFSET_WIDTH * count, "the container offsets")
    return {
        key: read_container(cursor, Layout.RUN if is_run else plain_layout(cardinality), cardinality)
        for key, cardinality, is_run in zip(keys.tolist(), cardinalities.tolist(), flags.tolist(), strict=True)
    }


def write(containers: Mapping[int, Container]) -> bytes:
    """Returns the bytes of the containers, which are given in ascending key order."""
    count = len(containers)
    flags = np.array([container.layout is Layout.RUN for container in containers.values()], np.bool_)
    if flags.any():
        head = (COOKIE_RUNS | (count - 1) << 16).to_bytes(4, "little") + np.packbits(flags, bitorder="little").tobytes()
    else:
        head = COOKIE_NO_RUNS.to_bytes(4, "little") + count.to_bytes(4, "little")
    cardinalities = [container.cardinality - 1 for container in containers.values()]
    head += np.array([*zip(containers, cardinalities)], "<u2").tobytes()
    payloads = [container.payload() for container in containers.values()]
    if not flags.any() or count >= MIN_CONTAINERS_FOR_OFFSETS:
        begin = len(head) + OFFSET_WIDTH * count
        offsets = accumulate((len(payload) for payload in payloads[:-1]), initial=begin)
        head += np.array([*offsets][:count], "<u4").tobytes()
    return head + b"".join(payloads)
