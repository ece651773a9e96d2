"""Counting of the values of ORC streams by the heads of their runs, without decoding the values."""

from __future__ import annotations

import numpy as np

from morrow.engine.errors import CorruptFile
from morrow.engine.format.orc_layout import read_varint
from morrow.engine.format.orc_rle import DIRECT, LITERALS, PATCHED_BASE, SHORT_REPEAT, SHORT_REPEAT_MIN, WIDTHS

REPEAT_MIN = 3
"""The fewest values of a run of bytes, and of a run of version 1."""
CONTROL_VALUES = 256
SIGN = 0x80
MOST_WIDTH = WIDTHS[-1]


def count_values(data: bytes, where: str, *, version: int = 2, most_runs: int | None = None) -> int | None:
    """Counts the values of a whole stream of integers; None where it has more than `most_runs` runs.

    Raises:
        CorruptFile: the stream ends within a run, or a run is invalid.
    """
    at, end, values, widths = 0, len(data), 0, WIDTHS
    left = end if most_runs is None else most_runs
    try:
        while at < end:
            left -= 1
            if left < 0:
                return None
            head = data[at]
            if version == 1:
                count, at = _old_run(data, at, where)
            elif head >> 6 == DIRECT:
                count = ((head & 1) << 8 | data[at + 1]) + 1
                at += 2 + (count * widths[head >> 1 & 31] + 7 >> 3)
            elif head >> 6 == SHORT_REPEAT:
                count = (head & 7) + SHORT_REPEAT_MIN
                at += 2 + (head >> 3 & 7)
            else:
                count = ((head & 1) << 8 | data[at + 1]) + 1
                at = (_after_patched if head >> 6 == PATCHED_BASE else _after_delta)(data, at, count, where)
            values += count
    except IndexError as error:
        raise CorruptFile(where, "an integer stream ends within the head of a run") from error
    if at != end:
        raise CorruptFile(where, f"an integer stream ends {at - end} bytes before its last run does")
    return values


def _after_patched(data: bytes, at: int, count: int, where: str) -> int:
    width, base_size, patch_width = WIDTHS[data[at] >> 1 & 31], (data[at + 2] >> 5) + 1, WIDTHS[data[at + 2] & 31]
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
    if not patches or gap_width + patch_width > MOST_WIDTH:
        raise CorruptFile(where, "a patched run without patches, or with patches of more than 64 bits")
    entry_width: int = next(each for each in WIDTHS if each >= gap_width + patch_width)
    end: int = at + 4 + base_size + (count * width + 7 >> 3) + (patches * entry_width + 7 >> 3)
    return end


def _after_delta(data: bytes, at: int, count: int, where: str) -> int:
    code = data[at] >> 1 & 31
    _, at = read_varint(data, at + 2, where)
    _, at = read_varint(data, at, where)
    return at + (max(count - 2, 0) * WIDTHS[code] + 7 >> 3 if code else 0)


def _old_run(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Reads a run of version 1: a step and a base, or literal varints."""
    control = data[at]
    if control < LITERALS:
        return control + REPEAT_MIN, read_varint(data, at + 2, where)[1]
    at += 1
    for _ in range(CONTROL_VALUES - control):
        _, at = read_varint(data, at, where)
    return CONTROL_VALUES - control, at


def count_bytes(data: bytes, where: str, most_runs: int | None = None) -> int | None:
    """Counts the bytes of a byte stream; None where it has more than `most_runs` runs.

    Raises:
        CorruptFile: the stream ends within a run.
    """
    at, end, count = 0, len(data), 0
    left = end if most_runs is None else most_runs
    while at < end:
        left -= 1
        if left < 0:
            return None
        control = data[at]
        if control < LITERALS:
            count, at = count + control + REPEAT_MIN, at + 2
        else:
            count, at = count + CONTROL_VALUES - control, at + 1 + CONTROL_VALUES - control
    if at != end:
        raise CorruptFile(where, "a byte stream ends within a run")
    return count


def count_varints(data: bytes) -> int:
    """Counts the base-128 numbers that end in these bytes."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) < SIGN))
