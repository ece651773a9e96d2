"""How units of work are divided among tasks."""

from __future__ import annotations

import pytest

from morrow.spark.job.packing import dealt, packed


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([], []),
        ([9], [[9]]),
        ([1, 2, 3, 4], [[1, 2], [3], [4]]),
        ([4, 1, 1, 1], [[4], [1, 1, 1]]),
        ([1, 9, 1], [[1], [9], [1]]),
    ],
)
def test_packed_in_their_order_up_to_a_limit(weights: list[int], groups: list[list[int]]) -> None:
    assert list(packed(weights, lambda weight: weight, 4)) == groups


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([], []),
        ([5], [[5]]),
        ([1, 2, 9], [[9], [2, 1]]),
        ([3, 3, 2, 2, 2], [[3, 2, 2], [3, 2]]),
        ([0, 0, 0, 0, 0], [[0, 0, 0], [0, 0]]),
    ],
)
def test_dealt_the_heaviest_first(weights: list[int], groups: list[list[int]]) -> None:
    assert dealt(weights, lambda weight: weight, 2) == groups
