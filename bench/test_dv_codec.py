"""Deletion vector bytes <-> position masks: the table of the proposal that introduced deletion vectors, measured again.

The proposal measured Java's RoaringBitmap adding positions one by one; its times are in the notes. Here a mask of the
file's rows is encoded to an index file (with checksum) and decoded. The baseline is the fastest use of pyroaring: all
positions at once from an existing `array`, and back to a mask, without checksum.

Besides its row of the report, each benchmark has `case`, `positions` (rows of the file), `rate` (share of deleted
rows), `bytes`, `java_published_ms` and `peak_memory_bytes` in `extra_info`. 2 billion rows run without baseline, and
only in `make bench` (which sets MORROW_BENCH_HUGE). Their memory is measured in a separate process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from array import array

import numpy as np
import numpy.typing as npt
import pytest
from pyroaring import BitMap
from pytest_benchmark.fixture import BenchmarkFixture

from bench.compare import Bound, Limit, compare, record, timed
from morrow.engine.format.deletion_vectors import DeletionVector, read_entry, write_index_file

SECTION = "Deletion vector codec"
RATES = (0.2, 0.5, 0.8)
LARGE, HUGE = 200_000_000, 2_000_000_000
SIZES = (2_000_000, 20_000_000, LARGE, *([HUGE] if "MORROW_BENCH_HUGE" in os.environ else []))
JAVA_PUBLISHED_MS = {  # (rows, rate): add, serialization, deserialization
    (2_000_000, 0.2): (43, 5, 26),
    (2_000_000, 0.5): (47, 3, 52),
    (2_000_000, 0.8): (57, 1, 24),
    (20_000_000, 0.2): (450, 13, 247),
    (20_000_000, 0.5): (629, 6, 222),
    (20_000_000, 0.8): (1040, 5, 222),
    (200_000_000, 0.2): (5079, 44, 2262),
    (200_000_000, 0.5): (9469, 43, 2773),
    (200_000_000, 0.8): (13625, 38, 2233),
    (HUGE, 0.2): (93753, 568, 22290),
    (HUGE, 0.5): (166070, 679, 22339),
    (HUGE, 0.8): (218233, 553, 22684),
}
BATCH = 1 << 24
NAME = "data-0.parquet"
Mask = npt.NDArray[np.bool_]

each_cell = pytest.mark.parametrize(
    ("rows", "rate"),
    [pytest.param(rows, rate, marks=[pytest.mark.long] if rows >= LARGE else []) for rows in SIZES for rate in RATES],
)


def random_mask(rows: int, rate: float) -> Mask:
    """Make `rows` booleans, with a share `rate` of true ones, in batches to avoid memory beyond the mask."""
    random = np.random.default_rng(rows)
    mask = np.empty(rows, np.bool_)
    for first in range(0, rows, BATCH):
        part = mask[first : first + BATCH]
        np.less(random.integers(0, 256, part.size, np.uint8), round(rate * 256), out=part)
    return mask


def to_bytes(mask: Mask) -> bytes:
    return write_index_file({NAME: DeletionVector.from_mask(mask)})[0]


def to_mask(data: bytes, rows: int) -> Mask:
    length = int.from_bytes(data[1:5], "big")
    return read_entry(data, 1, length, where=NAME, row_count=rows).dead(rows)


def positions_of(mask: Mask) -> array[int]:
    positions = array("I")
    positions.frombytes(np.flatnonzero(mask).astype(np.uint32).data.cast("B"))
    return positions


def peer_to_mask(data: bytes, rows: int) -> Mask:
    mask = np.zeros(rows, np.bool_)
    mask[np.frombuffer(BitMap.deserialize(data).to_array(), np.uint32)] = True
    return mask


@each_cell
def test_mask_to_bytes(benchmark: BenchmarkFixture, rows: int, rate: float) -> None:
    mask = random_mask(rows, rate)
    positions = positions_of(mask) if rows < HUGE else array("I")
    add, serialize, _ = JAVA_PUBLISHED_MS[rows, rate]
    compare(
        benchmark,
        SECTION,
        f"mask to bytes, {rows // 10**6:,}M rows, {rate:.0%} dead",
        lambda: to_bytes(mask),
        baseline=("pyroaring", timed(lambda: BitMap(positions).serialize())) if rows < HUGE else None,
        bound=Bound(1, faster=True) if rows < HUGE else Limit(9_000, "ms"),
        rounds=5,
        note=f"Java as published: {add + serialize:,} ms",
    )
    take_down(benchmark, "mask to bytes", rows, rate, add + serialize, len(to_bytes(mask)))


@pytest.mark.long
def test_mask_to_bytes_against_a_bulk_add_of_numpy_positions(benchmark: BenchmarkFixture) -> None:
    """Compare with the usual call of pyroaring: `BitMap(positions)` with the positions as a numpy array."""
    rows, rate = 200_000_000, 0.8
    mask = random_mask(rows, rate)
    positions = np.flatnonzero(mask).astype(np.uint32)
    compare(
        benchmark,
        SECTION,
        f"mask to bytes and back, {rows // 10**6:,}M rows, {rate:.0%} dead",
        lambda: to_mask(to_bytes(mask), rows),
        baseline=("pyroaring bulk add of a numpy array", timed(lambda: BitMap(positions))),
        bound=Bound(50, faster=True),
        rounds=5,
        warmup=False,
    )


HUGE_WORKER = """
import sys
from bench.memory_worker import status
from bench.test_dv_codec import random_mask, to_bytes, to_mask
rows, before = int(sys.argv[1]), status("VmRSS")
mask = random_mask(rows, 0.5)
data = to_bytes(mask)
dead = int(mask.sum())
del mask
assert int(to_mask(data, rows).sum()) == dead
print(status("VmHWM") - before)
"""
"""A program that encodes a mask, drops it and decodes it again. The peak includes the first mask (a byte per row)."""


@pytest.mark.long
def test_peak_memory_of_the_codec(benchmark: BenchmarkFixture) -> None:
    rows = SIZES[-1]

    def peak() -> float:
        done = subprocess.run(
            [sys.executable, "-c", HUGE_WORKER, str(rows)], capture_output=True, text=True, check=True
        )
        return int(done.stdout) / 10**6

    what = f"peak memory, {rows // 10**6:,}M rows, mask to bytes and back"
    record(benchmark, SECTION, what, peak, bound=Limit(4000, "MB"), rounds=1)


@each_cell
def test_bytes_to_mask(benchmark: BenchmarkFixture, rows: int, rate: float) -> None:
    data = to_bytes(random_mask(rows, rate))
    bitmap = data[9:-4]  # the bytes between version, size, magic and CRC
    deserialize = JAVA_PUBLISHED_MS[rows, rate][2]
    compare(
        benchmark,
        SECTION,
        f"bytes to mask, {rows // 10**6:,}M rows, {rate:.0%} dead",
        lambda: to_mask(data, rows),
        baseline=("pyroaring", timed(lambda: peer_to_mask(bitmap, rows))) if rows < HUGE else None,
        bound=Bound(1, faster=True) if rows < HUGE else Limit(9_000, "ms"),
        rounds=5,
        note=f"Java as published: {deserialize:,} ms",
    )
    take_down(benchmark, "bytes to mask", rows, rate, deserialize, len(data))


@pytest.mark.parametrize("rows", [400_000, 4_000_000])
@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_bytes_of_sparse_vectors_to_mask(benchmark: BenchmarkFixture, rows: int, rate: float) -> None:
    """Measure few deleted rows, in array containers, which pyroaring does not validate (decision 20)."""
    mask = np.random.default_rng(rows).random(rows) < rate
    data = to_bytes(mask)
    bitmap = data[9:-4]
    compare(
        benchmark,
        SECTION,
        f"bytes to mask, {rows / 10**6:g}M rows, {rate:.1%} dead",
        lambda: to_mask(data, rows),
        baseline=("pyroaring", timed(lambda: peer_to_mask(bitmap, rows))),
        bound=Limit(5, "ms"),
        rounds=20,
    )


def take_down(benchmark: BenchmarkFixture, case: str, rows: int, rate: float, java: int, size: int) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    info = {"case": case, "positions": rows, "rate": rate, "bytes": size, "java_published_ms": java}
    benchmark.extra_info.update(info, peak_memory_bytes=peak)
