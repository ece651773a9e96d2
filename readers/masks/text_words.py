"""Up to eight bytes of each text as a number: read where they lie, without a copy of the texts.

Of texts of one length these are the last eight; of others what follows a beginning that all share.
Polars holds text as views: a length, and the bytes or where they are; texts that a file has in a dictionary share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format.arrow_buffers import series_of

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]

WORD_BYTES = 8
BYTE, LAST_BYTE = 8, np.uint64(0xFF)
"""Bits of a byte, and the lowest byte of a word."""
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

    def read(views: U32, buffers: Sequence[pa.Buffer]) -> U64 | None:
        words = _last(views, length, buffers)
        return None if words is None or (spelling and not _spell(words)) else words

    return _words(texts, read)


def words_after(texts: pl.Series, start: int) -> pl.Series:
    """Returns the bytes from `start` on as UInt64, up to eight of them, zeros behind: in the order of the texts, where
    these share the bytes before.

    All are null where a text is null, shorter than that, longer than eight bytes more, or ends in a zero.
    """
    return _words(texts, partial(_after, start=start))


def _words(texts: pl.Series, read: Callable[[U32, Sequence[pa.Buffer]], U64 | None]) -> pl.Series:
    found = _all_read(texts, read) if texts.null_count() == 0 else None
    return pl.repeat(None, len(texts), dtype=pl.UInt64, eager=True) if found is None else series_of(found)


def _all_read(texts: pl.Series, read: Callable[[U32, Sequence[pa.Buffer]], U64 | None]) -> U64 | None:
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
            words = read(block if starts is None else block[starts], buffers[2:])
            if words is None:
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


def _last(views: U32, length: int, buffers: Sequence[pa.Buffer]) -> U64 | None:
    """Returns the last eight bytes of some texts; None where one has another length."""
    if (views[:, LENGTH] != length).any():
        return None
    return _inline(views, length - WORD_BYTES) if length <= INLINE_BYTES else _last_of_long(views, buffers)


def _after(views: U32, buffers: Sequence[pa.Buffer], *, start: int) -> U64 | None:
    """Returns the words of `words_after` of some texts; None where one has none."""
    lengths = views[:, LENGTH].astype(np.int64)
    rest = lengths - start
    if rest.min() < 0 or rest.max() > WORD_BYTES:
        return None
    long = np.flatnonzero(lengths > INLINE_BYTES)
    if len(long) == len(views):
        found = _last_of_long(views, buffers) << (BYTE * (WORD_BYTES - rest)).astype(np.uint64)
    elif start > INLINE_BYTES:
        return None  # one text is no longer than what all begin with
    else:
        found = _inline(views, min(start, INLINE_BYTES - WORD_BYTES))
        found <<= np.uint64(BYTE * max(start - (INLINE_BYTES - WORD_BYTES), 0))
        found[long] = _last_of_long(views[long], buffers) << (BYTE * (WORD_BYTES - rest[long])).astype(np.uint64)
    ends = (found >> (BYTE * np.minimum(WORD_BYTES - rest, WORD_BYTES - 1)).astype(np.uint64)) & LAST_BYTE
    return None if ((ends == 0) & (rest > 0)).any() else found


def _inline(views: U32, start: int) -> U64:
    """Returns the eight bytes from `start` on of texts that are in their views, with zeros behind."""
    first = INLINE_AT + start
    each = np.ascontiguousarray(views).view(np.uint8)[:, first : first + WORD_BYTES]
    return np.ascontiguousarray(each).view(np.uint64)[:, 0].byteswap()  # the first byte counts most


def _last_of_long(views: U32, buffers: Sequence[pa.Buffer]) -> U64:
    """Returns the last eight bytes of texts that are in buffers."""
    found, numbers = np.empty(len(views), np.uint64), views[:, BUFFER]
    places = views[:, OFFSET].astype(np.int64) + views[:, LENGTH] - WORD_BYTES
    if len(numbers) and (numbers == numbers[0]).all():
        found[:] = _at(buffers[numbers[0]], places)
    else:
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            found[rows] = _at(buffers[number], places[rows])
    return found.byteswap(inplace=True)


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
