"""The last eight bytes of texts of one length, as numbers: read where they lie, without a copy of the texts.

Polars holds text as views: a length, and the bytes or where they are; texts that a file has in a dictionary share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format.arrow_buffers import series_of

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]

WORD_BYTES = 8
VIEWS = (pa.string_view(), pa.binary_view())
VIEW_WORDS, LENGTH, BUFFER, OFFSET = 4, 0, 2, 3
"""A view is four words of 32 bits. Those of long texts have the number of a buffer, and the place of the text in it."""
INLINE_BYTES, INLINE_AT = 12, 4
"""Texts up to so many bytes are in their view, from that byte on."""
REPEATED = 4
"""Neighbouring texts that are one and the same are read once where there are so many of each, on average."""
BLOCK = 1 << 14
"""Texts that are read at a time: what is computed of them stays in the processor's cache, and in no new memory."""

NIBBLES, ZEROS, TO_SIXTEEN = (np.uint64(int.from_bytes(byte * WORD_BYTES)) for byte in (b"\xf0", b"0", b"\x06"))
"""The high nibbles of a word's bytes, those of eight digits with the digits 0, and what lifts greater ones than 9."""
ONES, TENS, HUNDREDS = np.uint64(0x000F000F000F000F), np.uint64(0x000000FF000000FF), np.uint64(0xFFFF)


def last_words(texts: pl.Series, length: int, *, spelling: bool) -> pl.Series:
    """Returns the last eight bytes of texts of `length` bytes, at least eight, as UInt64 in the order of the texts.

    With `spelling` they are the numbers that eight ASCII digits spell. All are null where a text is null, of another
    length or no such number.
    """
    found = _words(texts, length, spelling) if texts.null_count() == 0 else None
    return pl.repeat(None, len(texts), dtype=pl.UInt64, eager=True) if found is None else series_of(found)


def _words(texts: pl.Series, length: int, spelling: bool) -> U64 | None:
    found, start, repeats = np.empty(len(texts), np.uint64), 0, True
    for chunk in texts.get_chunks():
        array = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        if array.type not in VIEWS:
            return None
        buffers, end = array.buffers(), array.offset + len(array)
        views = np.frombuffer(buffers[1], np.uint32)[: end * VIEW_WORDS].reshape(-1, VIEW_WORDS)[array.offset :]
        for first in range(0, len(array), BLOCK):
            block = views[first : first + BLOCK]
            starts = _starts(block) if repeats else None
            repeats = starts is not None
            words = _read(block if starts is None else block[starts], length, buffers[2:])
            if words is None or (spelling and not _spell(words)):
                return None
            words = words if starts is None else np.repeat(words, np.diff(starts, append=len(block)))
            found[start : start + len(block)] = words
            start += len(block)
    return found


def _starts(views: U32) -> npt.NDArray[np.integer] | None:
    """Returns where views differ from the one before, the first among them; None where most do."""
    halves = views.view(np.uint64)
    differs = np.ones(len(views), bool)
    np.not_equal(halves[1:, 1], halves[:-1, 1], out=differs[1:])
    differs[1:] |= halves[1:, 0] != halves[:-1, 0]
    starts = np.flatnonzero(differs)
    return starts if len(starts) * REPEATED <= len(views) else None


def _read(views: U32, length: int, buffers: Sequence[pa.Buffer]) -> U64 | None:
    """Returns the last eight bytes of some texts; None where one has another length."""
    if (views[:, LENGTH] != length).any():
        return None
    if length <= INLINE_BYTES:
        end = INLINE_AT + length
        each = np.ascontiguousarray(views).view(np.uint8)[:, end - WORD_BYTES : end]
        return np.ascontiguousarray(each).view(np.uint64)[:, 0].byteswap()
    found, numbers = np.empty(len(views), np.uint64), views[:, BUFFER]
    places = views[:, OFFSET].astype(np.int64) + (length - WORD_BYTES)
    if (numbers == numbers[0]).all():
        found[:] = _at(buffers[numbers[0]], places)
    else:
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            found[rows] = _at(buffers[number], places[rows])
    return found.byteswap(inplace=True)  # the first byte counts most


def _at(data: pa.Buffer, places: npt.NDArray[np.int64]) -> U64:
    """Returns eight bytes from each of the places on, of which any may be odd."""
    words = np.ndarray((data.size - WORD_BYTES + 1,), np.uint64, data, strides=(1,))
    found: U64 = words[places]
    return found


def _spell(words: U64) -> bool:
    """Replaces words of eight ASCII digits by the numbers that they spell; False where there is another byte."""
    others = (words & NIBBLES) ^ ZEROS
    others |= ((words + TO_SIXTEEN) & NIBBLES) ^ ZEROS
    if others.any():
        return False
    two = ((words >> np.uint64(8)) & ONES) * np.uint64(10) + (words & ONES)
    four = ((two >> np.uint64(16)) & TENS) * np.uint64(100) + (two & TENS)
    np.add((four >> np.uint64(32)) * np.uint64(10_000), four & HUNDREDS, out=words)
    return True
