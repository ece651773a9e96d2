"""The last eight bytes of texts, read where Polars has them."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks import text_words
from morrow.readers.masks.text_words import last_words, words_after

LENGTHS = [8, 9, 12, 13, 20]


def words(texts: list[str], *, spelling: bool) -> list[int]:
    """Returns the same by Python."""
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
            patch.setattr(text_words, "BLOCK", 8)
            found = last_words(column, length, spelling=spelling)
        assert found.dtype == pl.UInt64
        assert found.to_list() == words(rows, spelling=spelling)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("other", [None, "1", "123456789012345678901234", "é23456789"])
def test_one_text_of_another_kind_makes_all_null(length: int, other: str | None) -> None:
    texts = pl.Series(["12345678".rjust(length, "0")] * 9 + [other])
    assert last_words(texts, length, spelling=False).null_count() == 10


@pytest.mark.parametrize("byte", [*b"/:\x00 \xb9", 0x3F])
def test_other_bytes_than_digits_spell_no_number(byte: int) -> None:
    for place in range(8):
        text = bytearray(b"key-12345678")
        text[4 + place] = byte
        texts = pl.Series([b"key-12345678", bytes(text)])
        assert last_words(texts, 12, spelling=True).null_count() == 2
        assert last_words(texts, 12, spelling=False).null_count() == 0


@pytest.mark.parametrize("beginning", ["", "a", "user", "user-", "thirteen-bytes-", "twelve-bytes"])
@given(rests=st.lists(st.binary(max_size=9), min_size=1, max_size=20), cut=st.integers(0, 20), times=st.integers(1, 5))
def test_words_after_a_beginning_have_zeros_behind(beginning: str, rests: list[bytes], cut: int, times: int) -> None:
    texts = [beginning.encode() + rest for rest in rests for _ in range(times)]
    column = pl.concat([pl.Series(some, dtype=pl.Binary) for some in (texts[:cut], texts[cut:])], rechunk=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_words, "BLOCK", 8)
        found = words_after(column, len(beginning)).to_list()
    if found[0] is None:
        inline = any(len(text) <= 12 for text in texts)
        cut_off = len(beginning) > 12 and inline
        assert cut_off or any(len(rest) > 8 or rest.endswith(b"\0") for rest in rests)
    else:
        assert found == [int.from_bytes(rest.ljust(8, b"\0")) for rest in rests for _ in range(times)]
        assert not any(len(rest) > 8 or rest.endswith(b"\0") for rest in rests)


@pytest.mark.parametrize("text", ["", "user"])
def test_texts_shorter_than_a_beginning_have_no_words(text: str) -> None:
    assert words_after(pl.Series(["user-1", text, "user-123456789"]), 5).null_count() == 3


def test_no_texts_have_no_words() -> None:
    assert last_words(pl.Series([], dtype=pl.String), 8, spelling=True).to_list() == []
