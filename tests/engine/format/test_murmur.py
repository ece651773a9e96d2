"""Iteration over ragged lists in parallel, and the Murmur hash of rows."""

from __future__ import annotations

import numpy as np

from morrow.engine.format.binary_row_encoder import hash_words, iterate_waves


def test_waves_visit_every_element_once() -> None:
    sizes = np.array([2, 0, 3, 1])
    assert [(wave, lists.tolist()) for wave, lists in iterate_waves(sizes)] == [(0, [0, 2, 3]), (1, [0, 2]), (2, [2])]


def test_java_hash_codes() -> None:
    words = np.array([0, 0, 1, 0, 0, 0, 0xFFFFFFFF, 0], np.uint32)  # the BinaryRows of (true) and of (-1)
    assert hash_words(words, np.array([0, 4]), np.array([4, 4])).tolist() == [1465514398, 1133687267]
