"""Rows and stored keys in the order of the primary key."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile
from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encode import encode_row
from morrow.engine.format.type_text import parse_atomic
from morrow.readers.casts.dtypes import polars_dtype
from morrow.writers.keyed import keys as module
from morrow.writers.keyed.keys import key_order_of, sorted_rows


def field(name: str, kind: str) -> t.DataField:
    return t.DataField(0, name, parse_atomic(kind).with_nullable(False))


def in_order(kinds: list[str], rows: list[tuple[Any, ...]]) -> tuple[list[int], list[int]]:
    """Returns row numbers by key, and where each key starts."""
    fields = [field(f"k{i}", kind) for i, kind in enumerate(kinds)]
    schema = {f.name: polars_dtype(f.type) for f in fields}
    order, starts = sorted_rows(fields, pl.DataFrame(rows, schema=schema, orient="row"), [], [])
    return order.tolist(), starts.tolist()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.one_of(st.integers(-3, 3), st.sampled_from((-(2**63), 2**63 - 1))),
    "STRING": st.sampled_from(("", "a", "ab", "b", "é", "😀", "z" * 20, "z" * 19 + "a")),
    "BYTES": st.sampled_from((b"", b"\x00", b"\x7f", b"\x80", b"\xff")),
    "DOUBLE": st.sampled_from((-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan)),
    "BOOLEAN": st.booleans(),
}


def comparable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (math.isnan(value), 0 if math.isnan(value) else value) if isinstance(value, float) else value


@st.composite
def keyed(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2))
    return kinds, draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=20))


@pytest.mark.parametrize("few", [1, module.FEW_KEYS])
@given(keyed())
def test_rows_are_sorted_by_key_and_then_by_place(
    few: int, given_rows: tuple[list[str], list[tuple[Any, ...]]]
) -> None:
    kinds, rows = given_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_KEYS", few)
        order, starts = in_order(kinds, rows)
    expected = sorted(range(len(rows)), key=lambda i: (*map(comparable, rows[i]), i))
    ordered = [tuple(map(comparable, rows[i])) for i in expected]
    assert order == expected
    assert starts == [i for i, key in enumerate(ordered) if i == 0 or key != ordered[i - 1]]


@pytest.mark.parametrize(
    "keys",
    [
        lambda i: (i * 7919) % 10007,
        lambda i: -((i * 7919) % 10007),
        lambda i: (i * 2654435761 % 2**32) << 31,  # too far apart to be joined with row numbers
        lambda i: i // 3,
        lambda i: 5 - 2**63 + i,
        lambda i: i - i % 2 * 10_000,
    ],
    ids=["scattered", "negative", "far apart", "sorted", "ascending", "two in turn"],
)
def test_many_integers(keys: Callable[[int], int]) -> None:
    values = [keys(i) for i in range(20_000)]
    order, _ = in_order(["BIGINT"], [(value,) for value in values])
    assert order == sorted(range(len(values)), key=lambda i: (values[i], i))


@given(keyed())
def test_stored_keys_compare_as_rows_do(given_rows: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    kinds, rows = given_rows
    fields = [field(f"k{i}", kind) for i, kind in enumerate(kinds)]
    order = key_order_of(fields, where="t")
    stored = [encode_row(row, [f.type for f in fields]) for row in rows]
    assert sorted(range(len(rows)), key=lambda i: (order(stored[i]), i)) == in_order(kinds, rows)[0]
    together = key_order_of(fields, where="t", keys=stored[1:])
    assert [*map(together, stored)] == [*map(order, stored)]


def test_a_key_that_cannot_be_read_is_told_by_its_owner() -> None:
    fields = [field("k", "INT")]
    good = encode_row((1,), [fields[0].type])
    order = key_order_of(fields, where="t", keys=[good, b"short"])
    assert order(good) == (1,)
    with pytest.raises(CorruptFile, match="t"):
        order(b"short")
