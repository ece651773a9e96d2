"""Composite and text keys as one number: keys have equal numbers only if they are equal, or have none at all."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from morrow.engine.format import types as t
from morrow.engine.format.types import (
    DataField,
    DataType,
    DecimalType,
    IntType,
    TimestampType,
    VarBinaryType,
    VarCharType,
    parse_atomic,
)
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.masks import packed_keys
from morrow.readers.masks.packed_keys import KeyPacking, find_cuts, read_last_words, read_words_after, slice_frames

Row = tuple[Any, ...]


NAMES = ("^.*$", "*", "touches 0")


def fields(*kinds: str) -> list[t.DataField]:
    return [t.DataField(i, NAMES[i], parse_atomic(kind).with_nullable(False)) for i, kind in enumerate(kinds)]


def packed(kinds: Sequence[str], rows: Sequence[Row]) -> list[int] | None:
    """Pack the keys of `rows`, which are in key order, as a section does."""
    columns = fields(*kinds)
    packing = KeyPacking.of(columns, rows[0], rows[-1])
    if packing is None:
        return None
    frame = pl.DataFrame(
        {f.name: pl.Series([row[i] for row in rows], dtype=to_polars_dtype(f.type)) for i, f in enumerate(columns)}
    )
    numbers = packing.pack(frame.select(packing.expressions), rows[0], rows[-1])
    return None if numbers is None else numbers.tolist()


def test_each_column_is_a_digit_of_the_base_that_its_values_span() -> None:
    rows = [(-3, 100), (-3, 101), (0, 102)]
    assert packed(["INT", "BIGINT"], rows) == [0, 1, 3 * 3 + 2]


def test_dates_and_timestamps_count_as_their_numbers() -> None:
    midnight = dt.datetime(2024, 1, 1)
    rows = [(dt.date(1969, 12, 31), midnight), (dt.date(1970, 1, 1), midnight + dt.timedelta(microseconds=3))]
    assert packed(["DATE", "TIMESTAMP(6)"], rows) == [0, 1 * 4 + 3]


def test_text_of_several_lengths_counts_behind_what_all_share() -> None:
    rows = [("user-",), ("user-1",), ("user-11",), ("user-2",)]
    assert packed(["STRING"], rows) == [int.from_bytes(rest) for rest in (b"\0\0", b"1\0", b"11", b"2\0")]
    assert packed(["STRING", "STRING"], [("DE", "x"), ("DE", "xy"), ("DF", "x")]) == [0, ord("y"), ord("y") + 1]
    long = "https://example.com/shop/"
    numbers = packed(["STRING"], [(long + "1",), (long + "12345678",), (long + "23",)])
    assert numbers is not None
    assert len(set(numbers)) == 3
    assert numbers == sorted(numbers)


def test_decimals_count_in_units_of_their_last_digit() -> None:
    rows = [(Decimal("-0.05"),), (Decimal(0),), (Decimal("92233720368547758.06"),)]
    assert packed(["DECIMAL(20, 2)"], rows) == [0, 5, 2**63 - 2 + 5]
    assert packed(["DECIMAL(4, 1)", "INT"], [(Decimal("1.5"), 0), (Decimal(2), 3)]) == [0, 5 * 4 + 3]


def test_text_of_eight_bytes_is_its_big_endian_number() -> None:
    rows = [("user0001",), ("user0002",), ("user0100",)]
    least = int.from_bytes(b"user0001", "big")
    assert packed(["STRING"], rows) == [int.from_bytes(text.encode(), "big") - least for (text,) in rows]


def test_text_that_ends_in_eight_digits_is_their_number() -> None:
    rows = [("order-00000007", 3), ("order-00000009", 0), ("order-99999999", 4)]
    assert packed(["STRING", "INT"], rows) == [3, 2 * 5, (99_999_999 - 7) * 5 + 4]


@pytest.mark.parametrize(
    "other", ["+0000001", " 0000001", "0000000:", "0000000/", "000000\N{ARABIC-INDIC DIGIT ONE}", "x"]
)
def test_other_text_between_bounds_of_digits_is_not_packed(other: str) -> None:
    assert packed(["STRING"], [("00000000",), (other,), ("99999999",)]) is None


def test_columns_of_one_value_take_no_room() -> None:
    rows = [(1, -(2**63), 5), (1, 0, 5), (1, 2**63 - 1, 5)]
    assert packed(["INT", "BIGINT", "INT"], rows) == [0, 2**63, 2**64 - 1]


def test_longer_text_packs_where_all_share_its_beginning() -> None:
    rows = [("customer-00001",), ("customer-00002",), ("customer-90000",)]
    numbers = packed(["STRING"], rows)
    assert numbers is not None
    assert len(set(numbers)) == 3
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        (["INT"], [(1,), (2,)]),  # one integer needs no packing
        (["STRING"], [("user-1",), ("user-234567890",), ("user-3",)]),  # more than eight bytes after the common prefix
        (["STRING"], [("user-1",), ("user-2\0",), ("user-3",)]),  # would equal the key without the zero byte
        (["STRING"], [("user-1",), ("user-1",), ("vser-123456",)]),  # too long without a common prefix
        (["INT", "STRING"], [(1, "user-1"), (2, "user-123456")]),  # bounds say nothing about a second column
        (["STRING", "STRING"], [("a", "a"), ("bcdef", "bcdef")]),  # 80 bits
        (["STRING", "TIMESTAMP(6)"], [("a", dt.datetime(1970, 1, 1)), ("bcd", dt.datetime(2024, 1, 1))]),  # 74 bits
        (["STRING"], [("aaaaaaaa",), ("ab",), ("bbbbbbbb",)]),  # a key of another length between the bounds
        (["STRING"], [("a-12345678",), ("b-12345678",)]),  # nothing in common before the last eight bytes
        (["INT", "STRING"], [(1, "x-12345678"), (2, "y-12345678")]),  # bounds say nothing about a second column
        (["BIGINT", "INT"], [(-(2**63), 0), (2**63 - 1, 1)]),  # 65 bits
        (["DOUBLE", "INT"], [(0.5, 1), (1.5, 1)]),
        (["BOOLEAN", "INT"], [(False, 1), (True, 1)]),
        (["DECIMAL(38, 2)"], [(Decimal(1),), (Decimal(2**63),)]),
        (["DECIMAL(38, 2)"], [(Decimal(1),), (Decimal(2**63),), (Decimal(3),)]),  # greater than both bounds
    ],
)
def test_what_is_not_exact_is_not_packed(kinds: list[str], rows: list[Row]) -> None:
    assert packed(kinds, rows) is None


def test_exactly_64_bits_fit() -> None:
    assert packed(["BIGINT", "INT"], [(-(2**63), 5), (0, 5), (2**63 - 1, 5)]) == [0, 2**63, 2**64 - 1]


def test_without_bounds_nothing_is_tried() -> None:
    assert KeyPacking.of(fields("INT", "INT"), None, None) is None


def test_no_rows_have_no_numbers() -> None:
    packing = KeyPacking.of(fields("INT", "INT"), (0, 0), (9, 9))
    assert packing is not None
    empty = pl.DataFrame(schema={"k0": pl.Int64, "k1": pl.Int64})
    numbers = packing.pack(empty, (0, 0), (9, 9))
    assert numbers is not None
    assert numbers.tolist() == []


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(20, 2)": st.decimals(-3, 3, places=2) | st.decimals(-(10**18) + 1, 10**18 - 1, places=2),
    "DATE": st.dates(dt.date(1960, 1, 1), dt.date(2040, 1, 1)),
    "STRING": st.text("ab\0é", min_size=0, max_size=9) | st.text("ab", min_size=8, max_size=8),
    "VARCHAR(9)": st.text("0189", min_size=8, max_size=8) | st.text("09:/", min_size=8, max_size=8),
    "BYTES": st.binary(min_size=8, max_size=8) | st.binary(max_size=9),
    "VARCHAR(30)": st.text("a1\0", max_size=9).map("user-".__add__),
    "VARCHAR(31)": st.text("a1", max_size=4).map("a-long-beginning-".__add__),
    "CHAR(10)": st.text("ab", min_size=8, max_size=8).map("xy".__add__),
}


@st.composite
def sections(draw: st.DrawFn) -> tuple[list[str], list[Row]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), min_size=1, max_size=20))
    return kinds, sorted(rows, key=lambda row: tuple(v.encode() if isinstance(v, str) else v for v in row))


@given(sections())
def test_numbers_are_equal_exactly_where_keys_are(section: tuple[list[str], list[Row]]) -> None:
    kinds, rows = section
    numbers = packed(kinds, rows)
    event(f"packed: {numbers is not None}")
    if numbers is not None:
        assert len(set(numbers)) == len(set(rows)) == len(set(zip(numbers, rows, strict=True)))
        assert numbers == sorted(numbers)


# The last eight bytes of texts are read in Polars' buffers.

LENGTHS = [8, 9, 12, 13, 20]


def words(texts: list[str], *, spelling: bool) -> list[int]:
    """Return the same words, computed in Python."""
    last = [text.encode()[-8:] for text in texts]
    return [int(word) if spelling else int.from_bytes(word) for word in last]


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
@pytest.mark.parametrize("spelling", [False, True], ids=["bytes", "digits"])
@given(
    length=st.sampled_from(LENGTHS),
    numbers=st.lists(st.tuples(st.integers(0, 99_999_999), st.integers(1, 9)), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    skipped=st.integers(0, 3),
    shuffled=st.randoms(use_true_random=False),
)
def test_words_are_the_last_eight_bytes(
    dtype: type[pl.DataType],
    spelling: bool,
    length: int,
    numbers: list[tuple[int, int]],
    cuts: list[int],
    skipped: int,
    shuffled: random.Random,
) -> None:
    texts = [f"{number:08}".rjust(length, "x") for number, count in numbers for _ in range(count)]
    chunks = [
        pl.Series(texts[low:high], dtype=pl.String)
        for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), len(texts)])
    ]
    order = list(range(len(texts)))
    shuffled.shuffle(order)
    in_chunks = pl.concat(chunks, rechunk=False).cast(dtype)
    for column, rows in (
        (in_chunks[skipped:], texts[skipped:]),
        (in_chunks.rechunk().gather(order), [texts[row] for row in order]),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed_keys, "WORD_BLOCK_ROWS", 8)
            found = read_last_words(column, length, spelling=spelling)
        assert found.dtype == pl.UInt64
        assert found.to_list() == words(rows, spelling=spelling)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("other", [None, "1", "123456789012345678901234", "é23456789"])
def test_one_text_of_another_kind_makes_all_null(length: int, other: str | None) -> None:
    texts = pl.Series(["12345678".rjust(length, "0")] * 9 + [other])
    assert read_last_words(texts, length, spelling=False).null_count() == 10


@pytest.mark.parametrize("byte", [*b"/:\x00 \xb9", 0x3F])
def test_other_bytes_than_digits_spell_no_number(byte: int) -> None:
    for place in range(8):
        text = bytearray(b"key-12345678")
        text[4 + place] = byte
        texts = pl.Series([b"key-12345678", bytes(text)])
        assert read_last_words(texts, 12, spelling=True).null_count() == 2
        assert read_last_words(texts, 12, spelling=False).null_count() == 0


@pytest.mark.parametrize("beginning", ["", "a", "user", "user-", "thirteen-bytes-", "twelve-bytes"])
@given(rests=st.lists(st.binary(max_size=9), min_size=1, max_size=20), cut=st.integers(0, 20), times=st.integers(1, 5))
def test_words_after_a_beginning_have_zeros_behind(beginning: str, rests: list[bytes], cut: int, times: int) -> None:
    texts = [beginning.encode() + rest for rest in rests for _ in range(times)]
    column = pl.concat([pl.Series(some, dtype=pl.Binary) for some in (texts[:cut], texts[cut:])], rechunk=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_keys, "WORD_BLOCK_ROWS", 8)
        found = read_words_after(column, len(beginning)).to_list()
    if found[0] is None:
        inline = any(len(text) <= 12 for text in texts)
        cut_off = len(beginning) > 12 and inline
        assert cut_off or any(len(rest) > 8 or rest.endswith(b"\0") for rest in rests)
    else:
        assert found == [int.from_bytes(rest.ljust(8, b"\0")) for rest in rests for _ in range(times)]
        assert not any(len(rest) > 8 or rest.endswith(b"\0") for rest in rests)


@pytest.mark.parametrize("text", ["", "user"])
def test_texts_shorter_than_a_beginning_have_no_words(text: str) -> None:
    assert read_words_after(pl.Series(["user-1", text, "user-123456789"]), 5).null_count() == 3


def test_no_texts_have_no_words() -> None:
    assert read_last_words(pl.Series([], dtype=pl.String), 8, spelling=True).to_list() == []


# Sorted files are cut at the same keys.

KEY = DataField(0, "k", IntType())


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_keys, "MIN_CUT_ROWS", 0)
        patch.setattr(packed_keys, "CUT_SAMPLE_ROWS", 1)
        yield


def files(*runs: list[int]) -> list[pl.DataFrame]:
    return [pl.DataFrame({"k": run}, schema={"k": pl.Int32}) for run in runs]


def test_parts_share_no_key() -> None:
    frames = files([1, 2, 3, 4, 5, 6], [2, 4], [])
    parts = [[frame["k"].to_list() for frame in part] for part in slice_frames(frames, find_cuts(frames, KEY, 3))]
    assert parts == [[[1], [], []], [[2, 3], [2], []], [[4, 5, 6], [4], []]]


@pytest.mark.parametrize("run", [[1, 9, 0, 3], [3, 2, 1], [1, 2, 2, 1]])
def test_files_that_are_not_sorted_are_not_cut(run: list[int]) -> None:
    frames = files(run, [2, 5])
    assert find_cuts(frames, KEY, 3) is None
    assert slice_frames(frames, None) == [frames]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (VarCharType(), ["", "a", "a\0", "é"]),
        (VarBinaryType(), [b"", b"\0", b"a", b"\xff"]),
        (
            DecimalType(precision=38, scale=1),
            [Decimal(each) for each in ("-0.1", "0.0", "0.1", "12345678901234567890.5")],
        ),
        (TimestampType(precision=6), [dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1), dt.datetime(2000, 1, 1, 1)]),
    ],
)
def test_keys_of_many_types_are_cut(type_: DataType, values: list[Any]) -> None:
    key = DataField(0, "k", type_)
    frames = [pl.DataFrame({"k": pl.Series(run, dtype=to_polars_dtype(type_))}) for run in (values, values[1:2])]
    parts = slice_frames(frames, find_cuts(frames, key))
    assert len(parts) == 2
    assert [pl.concat(each)["k"].to_list() for each in zip(*parts, strict=True)] == [values, values[1:2]]
    assert not {*parts[0][0]["k"], *parts[0][1]["k"]} & {*parts[1][0]["k"], *parts[1][1]["k"]}


@given(st.lists(st.sets(st.integers(-20, 20)), min_size=1, max_size=4), st.integers(2, 9))
def test_all_rows_are_in_one_part_in_their_order(runs: list[set[int]], count: int) -> None:
    frames = files(*map(sorted, runs))
    if not any(runs):
        return
    parts = slice_frames(frames, find_cuts(frames, KEY, count))
    whole = [pl.concat(each)["k"].to_list() for each in zip(*parts, strict=True)]
    assert whole == [sorted(run) for run in runs]
    keys = [{key for frame in part for key in frame["k"]} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
