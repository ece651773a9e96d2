"""Neighbouring texts of one view."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import BigIntType, DataField, VarCharType
from morrow.readers.masks.packing import KeyPacking
from morrow.readers.masks.repeated import run_starts

TEXTS = ["customer-000001", "customer-000002", "kunde-ü-000003", "short"]


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
@given(
    runs=st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(4, 9)), min_size=1, max_size=5),
    cut=st.integers(0, 30),
    skipped=st.integers(0, 3),
)
def test_every_run_starts_where_the_text_changes(
    dtype: type[pl.DataType], runs: list[tuple[str, int]], cut: int, skipped: int
) -> None:
    numbers = [TEXTS.index(text) for text, count in runs for _ in range(count)]
    texts = pl.Series(TEXTS).cast(dtype).gather(numbers)
    chunked = pl.concat([texts[:cut], texts[cut:]], rechunk=False)[skipped:]
    found = run_starts(chunked)
    if found is not None:
        rows = chunked.to_list()
        assert {0, *(row for row in range(1, len(rows)) if rows[row] != rows[row - 1])} <= {*found.tolist()}
        assert sorted({*found.tolist()}) == found.tolist()


def test_texts_that_differ_or_are_null_have_no_runs() -> None:
    assert run_starts(pl.Series([str(number) for number in range(9)])) is None
    assert run_starts(pl.Series(["a", None, None, None])) is None
    assert run_starts(pl.Series([], dtype=pl.String)) is None


@pytest.mark.parametrize("last", ["customer-000009", "customer-10"])
def test_repeated_texts_are_packed_as_others(last: str) -> None:
    texts = [f"customer-{number // 20:06}" for number in range(99)] + [last]
    frame = pl.DataFrame({"k": pl.Series(texts[:60] * 2), "n": range(120)})
    packing = KeyPacking.of(
        [DataField(0, "k", VarCharType()), DataField(1, "n", BigIntType())], ["customer-000000", 0], [texts[60], 0]
    )
    assert packing is not None
    frame = pl.concat([frame, pl.DataFrame({"k": [last], "n": [1]})])
    assert pl.DataFrame(packing.words(frame)).equals(frame.select(packing.expressions))
