"""Deletion vectors: positions, masks and how they compare."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.deletion_vector import EMPTY, DeletionVector


def vector(*positions: int) -> DeletionVector:
    return DeletionVector.from_positions(np.array(positions, np.int64))


def test_mask_of_a_file() -> None:
    dead = vector(1, 3)

    assert dead.dead(5).tolist() == [False, True, False, True, False]
    assert dead.live(5).tolist() == [True, False, True, False, True]
    assert dead.packed(5).tolist() == [0b01010]
    assert dead.positions().tolist() == [1, 3]
    assert dead.cardinality == 2


def test_from_positions_in_any_order_repeated_and_of_any_width() -> None:
    assert DeletionVector.from_positions(np.array([70000, 3, 3], np.uint32)) == vector(3, 70000)
    assert DeletionVector.from_positions([]) == EMPTY


def test_from_mask_is_the_inverse_of_dead() -> None:
    mask = np.array([True, False, True] * 50_000)

    assert np.array_equal(DeletionVector.from_mask(mask).dead(mask.size), mask)
    assert DeletionVector.from_mask(~mask) == DeletionVector.from_packed(np.packbits(~mask, bitorder="little"))


def test_union() -> None:
    assert vector(1, 200_000).union(vector(2, 200_000, 900_000)) == vector(1, 2, 200_000, 900_000)
    assert EMPTY.union(vector(7)) == vector(7)


def test_nothing_is_dead() -> None:
    assert EMPTY.live(3).all()
    assert EMPTY.dead(0).tolist() == []


def test_vectors_travel_and_compare() -> None:
    dead = vector(5, 100_000)

    assert pickle.loads(pickle.dumps(dead)) == dead
    assert hash(dead) == hash(vector(100_000, 5))
    assert dead != vector(5)


@pytest.mark.parametrize("bad", [[-1], [1.5], [2**40]])
def test_positions_that_are_none(bad: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="dead positions must be integers"):
        DeletionVector.from_positions(bad)


def test_masks_that_are_none() -> None:
    with pytest.raises(InvalidArgument, match="a mask is a one-dimensional boolean array"):
        DeletionVector.from_mask(np.zeros(3, np.int8))
