"""The last eight bytes of texts, read where Polars has them."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks import text_words
from morrow.readers.masks.text_words import last_words

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


def test_no_texts_have_no_words() -> None:
    assert last_words(pl.Series([], dtype=pl.String), 8, spelling=True).to_list() == []
