"""Blocks of row positions as bits."""

from __future__ import annotations

import numpy as np

from morrow.engine.format.position_blocks import Blocks, bit_counts, set_positions


def test_blocks_between_which_no_position_is_set() -> None:
    bits = np.zeros((2, 8192), np.uint8)
    bits[:, 1] = 0b100
    blocks = Blocks(np.array([0, 2]), bits, bit_counts(bits))

    assert set_positions(blocks.packed(200_000)).tolist() == [10, 2 * 65536 + 10]
    assert blocks.end == 2 * 65536 + 11
