"""Dynamic buckets fill up in order, and a key stays in its bucket."""

from __future__ import annotations

import numpy as np
import pytest

from morrow.engine.errors import Unsupported
from morrow.writers.buckets.dynamic import HashCodeBuckets


def codes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def test_buckets_fill_in_the_order_of_rows() -> None:
    buckets = HashCodeBuckets(room=2)
    assert buckets.assign(codes(50, 10, 50, 40, 30, 20)).tolist() == [0, 0, 0, 1, 1, 2]
    assert buckets.assign(codes(20, 60, 70, 10)).tolist() == [2, 2, 3, 0]


def test_what_changed_is_told_once_and_whole() -> None:
    buckets = HashCodeBuckets(room=3)
    buckets.assign(codes(5, 6))
    assert {bucket: sorted(found.tolist()) for bucket, found in buckets.take_changed().items()} == {0: [5, 6]}
    buckets.assign(codes(6))
    assert buckets.take_changed() == {}
    buckets.assign(codes(7, 8))
    changed = {bucket: sorted(found.tolist()) for bucket, found in buckets.take_changed().items()}
    assert changed == {0: [5, 6, 7], 1: [8]}


def test_restored_codes_stay_and_their_buckets_fill_up() -> None:
    buckets = HashCodeBuckets(room=2)
    buckets.restore(0, codes(1, 2), np.ones(2, bool))
    buckets.restore(4, codes(3), np.ones(1, bool))
    assert buckets.assign(codes(3, 9, 8, 1)).tolist() == [4, 4, 1, 0]
    assert sorted(buckets.take_changed()) == [1, 4]


def test_no_more_than_the_most_buckets() -> None:
    buckets = HashCodeBuckets(room=1, most=2)
    first = buckets.assign(codes(*range(-25, 25)))
    assert first[:2].tolist() == [0, 1]
    assert set(first.tolist()) == {0, 1}
    assert buckets.assign(codes(*range(-25, 25))).tolist() == first.tolist()


def test_assigners_take_turns_at_buckets() -> None:
    buckets = HashCodeBuckets(room=1, first=1, step=3)
    assert buckets.assign(codes(7, 8, 9)).tolist() == [1, 4, 7]


def test_too_many_buckets() -> None:
    buckets = HashCodeBuckets(room=1)
    with pytest.raises(Unsupported, match=r"more than 32765 dynamic buckets .*raise dynamic-bucket.target-row-num"):
        buckets.assign(np.arange(40_000, dtype=np.int32))
