"""Roaring containers: up to 65,536 positions each, united to exactly the containers of Java's RoaringBitmap.

Three layouts hold the same positions, in little-endian ``u16``; which of them is stored outside the container::

    RUN     u16 number of runs, then (first, length - 1) each
    BITMAP  8,192 bytes, bit `low & 7` of byte `low >> 3`
    ARRAY   the positions, ascending

Which layout a union gets depends on those of its parts, so equal sets can differ in bytes. Paimon writes a bitmap after
`runOptimize`; both rules are followed here so that a merged value has the bytes that Paimon would have written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from morrow.readers.merges.functions.corrupt_value import Cursor

U16: TypeAlias = npt.NDArray[np.uint16]

POSITIONS = 1 << 16
BITMAP_BYTES = POSITIONS // 8
ARRAY_MAX = 4096
"""Positions above which a container of single positions is a bitmap."""


class Layout(IntEnum):
    """The layout of a container; the numbers are those of 64-bit bitmaps."""

    RUN = 0
    BITMAP = 1
    ARRAY = 2


@dataclass(frozen=True, eq=False)
class Container:
    """Positions (uint16, ascending, not empty) and their current layout."""

    layout: Layout
    positions: U16

    @property
    def cardinality(self) -> int:
        return self.positions.size

    def payload(self) -> bytes:
        """Returns the container's bytes in its layout."""
        if self.layout is Layout.ARRAY:
            return self.positions.astype("<u2").tobytes()
        if self.layout is Layout.BITMAP:
            return np.packbits(_mask(self.positions), bitorder="little").tobytes()
        breaks = _breaks(self.positions)
        firsts = self.positions[np.concatenate([[0], breaks])]
        lasts = self.positions[np.concatenate([breaks - 1, [self.positions.size - 1]])]
        pairs = np.stack([firsts, lasts - firsts], axis=1).astype("<u2")
        return len(pairs).to_bytes(2, "little") + pairs.tobytes()


def plain_layout(cardinality: int) -> Layout:
    """Returns the layout of so many single positions."""
    return Layout.ARRAY if cardinality <= ARRAY_MAX else Layout.BITMAP


def read_container(cursor: Cursor, layout: Layout, cardinality: int) -> Container:
    """Reads the container at the cursor.

    Raises:
        CorruptValue: positions do not ascend, or their number is not `cardinality`.
    """
    if layout is Layout.ARRAY:
        positions = cursor.u16s(cardinality, "an array container")
    elif layout is Layout.BITMAP:
        bits = np.frombuffer(cursor.take(BITMAP_BYTES, "a bitmap container"), np.uint8)
        positions = np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_)).astype(np.uint16)
    else:
        positions = _read_runs(cursor)
    if (positions[1:] <= positions[:-1]).any():
        raise cursor.corrupt("the positions of a container do not ascend")
    if positions.size != cardinality or not cardinality:
        raise cursor.corrupt(f"a container has {positions.size} positions, its header says {cardinality}")
    return Container(layout, positions)


def _read_runs(cursor: Cursor) -> U16:
    pairs = cursor.u16s(2 * cursor.integer(2, "the number of runs"), "a run container").astype(np.int64)
    firsts, lengths = pairs[::2], pairs[1::2] + 1
    if (firsts + lengths > POSITIONS).any() or int(lengths.sum()) > POSITIONS:
        raise cursor.corrupt("the runs of a container leave it")
    run_starts = np.cumsum(lengths) - lengths
    positions: U16 = (np.arange(int(lengths.sum())) + np.repeat(firsts - run_starts, lengths)).astype(np.uint16)
    return positions


def united(first: Container, second: Container) -> Container:
    """Returns all positions of both, in Java's layout."""
    mask = _mask(first.positions)
    mask[second.positions] = True
    positions = np.flatnonzero(mask).astype(np.uint16)
    layouts = (first.layout, second.layout)
    if Layout.BITMAP in layouts:
        return Container(Layout.BITMAP, positions)
    if Layout.RUN in layouts:
        return Container(Layout.RUN, positions)
    return Container(plain_layout(positions.size), positions)


def run_optimized(container: Container) -> Container:
    """Returns the positions in the smallest layout. A tie keeps the layout, and runs get two bytes ahead of arrays."""
    positions = container.positions
    as_runs = 2 + 4 * (_breaks(positions).size + 1)
    if container.layout is Layout.RUN:
        stays = as_runs <= min(BITMAP_BYTES, 2 + 2 * positions.size)
        return container if stays else Container(plain_layout(positions.size), positions)
    size = BITMAP_BYTES if container.layout is Layout.BITMAP else 2 * positions.size
    return Container(Layout.RUN, positions) if as_runs < size else container


def _breaks(positions: U16) -> npt.NDArray[np.intp]:
    """Returns the indexes at which a new run begins, without the first."""
    return np.flatnonzero(np.diff(positions) != 1) + 1


def _mask(positions: U16) -> npt.NDArray[np.bool_]:
    mask = np.zeros(POSITIONS, np.bool_)
    mask[positions] = True
    return mask
