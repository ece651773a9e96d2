"""ORC run-length encoding version 2 of integers: runs of up to 512 values, each in one of four encodings.

The two highest bits of a run's first byte give its encoding (bit fields are big-endian)::

    0  short repeat   2 type, 3 bytes of value - 1, 3 count - 3; the value
    1  direct         2 type, 5 width code, 9 count - 1; count values of that width
    2  patched base   direct's header, then 3 bytes of base - 1, 5 patch width code, 3 gap width - 1, 5 patches;
                      the base, count values, patches of (gap, high bits)
    3  delta          direct's header; base varint, first delta zigzag varint, count - 2 deltas of that width
                      (width code 0: every delta is the first)

Signed integers are zigzag numbers in short repeats, direct runs and the bases of delta runs; the base of a patched run
has its sign in the highest bit.

Bytes, and bits (eight a byte, highest first), have a separate encoding: a control byte c, then for c < 128 one byte
that is repeated c + 3 times, else 256 - c literal bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile
from morrow.engine.format.orc_layout import read_varint

SHORT_REPEAT, DIRECT, PATCHED_BASE, DELTA = range(4)
SHORT_REPEAT_MIN = 3
WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of each width code; code 0 means 0 in delta runs."""

LITERALS = 128
"""Control bytes from here on count the literal bytes that follow."""

Values = npt.NDArray[np.uint64]
Signed = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.bool_]
_MASK = (1 << 64) - 1


def decode_unsigned(data: bytes, count: int, where: str) -> Values:
    """Returns the first `count` values of a stream.

    Raises:
        CorruptFile: the stream holds fewer, or a run is invalid.
    """
    return _decoded(data, count, where, signed=False)[0][:count]


def decode_whole(data: bytes, count: int, where: str, *, signed: bool) -> Signed:
    """Returns the values of a stream that holds exactly `count` of them.

    Raises:
        CorruptFile: it holds fewer or more, or a run is invalid.
    """
    values, end = _decoded(data, count, where, signed=signed)
    if len(values) != count or end != len(data):
        raise CorruptFile(where, f"an integer stream holds more than {count} values")
    return values.view(np.int64)


def decode_bytes(data: bytes, count: int, where: str) -> Bytes:
    """Returns the bytes of a byte stream that holds exactly `count` of them.

    Raises:
        CorruptFile: it holds fewer or more.
    """
    source = np.frombuffer(data, np.uint8)
    runs: list[Bytes] = []
    at = found = 0
    while at < len(data) and found <= count:
        control = data[at]
        literal = control >= LITERALS
        size = 256 - control if literal else control + SHORT_REPEAT_MIN
        stored = source[at + 1 : at + 1 + (size if literal else 1)]
        runs.append(stored if literal else np.repeat(stored, size))
        at += 1 + (size if literal else 1)
        found += len(runs[-1])
    if found != count or at != len(data):
        raise CorruptFile(where, f"a byte stream does not hold {count} bytes")
    return np.concatenate(runs) if runs else np.empty(0, np.uint8)


def decode_bits(data: bytes, count: int, where: str) -> Bits:
    """Returns the bits of a stream that holds `count` of them, padded to whole bytes.

    Raises:
        CorruptFile: it holds fewer or more.
    """
    return np.unpackbits(decode_bytes(data, -(-count // 8), where))[:count].astype(np.bool_)


def _decoded(data: bytes, count: int, where: str, *, signed: bool) -> tuple[Values, int]:
    """Returns at least the first `count` values, in whole runs, and the position of the byte after them."""
    runs: list[Values] = []
    at = found = 0
    try:
        while found < count:
            values, at = _RUNS[data[at] >> 6](data, at, where, signed)
            runs.append(values)
            found += len(values)
    except (IndexError, ValueError, StopIteration, OverflowError) as error:
        raise CorruptFile(where, f"an integer stream ends after {found} of {count} values") from error
    return np.concatenate(runs) if runs else np.empty(0, np.uint64), at


def _zigzag(values: Values) -> Values:
    return (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))


def _short_repeat(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    header = data[at]
    size, count = (header >> 3 & 7) + 1, (header & 7) + SHORT_REPEAT_MIN
    value = _big_endian(data, at + 1, size)
    values = np.full(count, value, np.uint64)
    return _zigzag(values) if signed else values, at + 1 + size


def _direct(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    width, count = WIDTHS[data[at] >> 1 & 31], _count(data, at)
    values, end = _unpacked(data, at + 2, width, count)
    return _zigzag(values) if signed else values, end


def _patched_base(data: bytes, at: int, _where: str, signed: bool) -> tuple[Values, int]:
    width, count = WIDTHS[data[at] >> 1 & 31], _count(data, at)
    base_size, patch_width = (data[at + 2] >> 5) + 1, WIDTHS[data[at + 2] & 31]
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    at += 4
    base = _big_endian(data, at, base_size)
    values, at = _unpacked(data, at + base_size, width, count)
    entry_width = next(w for w in WIDTHS if w >= gap_width + patch_width)
    entries, at = _unpacked(data, at, entry_width, patches)
    places = np.cumsum(entries >> np.uint64(patch_width)).astype(np.int64)
    # A gap too wide for its field is a chain of entries whose patch is 0: adding zeros is harmless.
    patch = (entries & np.uint64((1 << patch_width) - 1)) << np.uint64(width)
    values = values.copy()
    np.bitwise_or.at(values, places, patch)
    sign = 1 << (8 * base_size - 1)
    if signed and base & sign:
        base = sign - base
    return values + np.array([base & _MASK], np.uint64), at


def _delta(data: bytes, at: int, where: str, signed: bool) -> tuple[Values, int]:
    code, count = data[at] >> 1 & 31, _count(data, at)
    base, at = read_varint(data, at + 2, where)
    if signed:
        base = ((base >> 1) ^ -(base & 1)) & _MASK
    zigzag, at = read_varint(data, at, where)
    first = (zigzag >> 1) ^ -(zigzag & 1)
    deltas = np.full(count - 1, first, np.int64)
    if code and count > 2:
        rest, at = _unpacked(data, at, WIDTHS[code], count - 2)
        deltas[1:] = rest.astype(np.int64) * (-1 if first < 0 else 1)
    steps = np.concatenate([np.array([base], np.uint64).view(np.int64), deltas])
    return np.cumsum(steps).view(np.uint64), at


_RUNS = {SHORT_REPEAT: _short_repeat, DIRECT: _direct, PATCHED_BASE: _patched_base, DELTA: _delta}


def _big_endian(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "big")


def _count(data: bytes, at: int) -> int:
    return ((data[at] & 1) << 8 | data[at + 1]) + 1


def _unpacked(data: bytes, at: int, width: int, count: int) -> tuple[Values, int]:
    """Returns `count` big-endian values of `width` bits from byte `at`, and the position of the byte after them."""
    end = at + (count * width + 7) // 8
    bits = np.unpackbits(np.frombuffer(data[at:end], np.uint8))[: count * width].reshape(count, width)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">u8").ravel().astype(np.uint64), end
