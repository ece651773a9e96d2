"""The four kinds of runs, with the examples of the ORC specification."""

from __future__ import annotations

import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.format.orc_rle import decode_unsigned

SHORT_REPEAT = ("0a2710", [10_000] * 5)
DIRECT = ("5e035ca1ab1edeadbeef", [23_713, 43_806, 57_005, 48_879])
DELTA = ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
PATCHED_BASE = (
    "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
    [
        2030,
        2000,
        2020,
        1_000_000,
        2040,
        2050,
        2060,
        2070,
        2080,
        2090,
        2100,
        2110,
        2120,
        2130,
        2140,
        2150,
        2160,
        2170,
        2180,
        2190,
    ],
)
FALLING = ("c00264" + "01", [100, 99, 98])


@pytest.mark.parametrize(("stream", "values"), [SHORT_REPEAT, DIRECT, DELTA, PATCHED_BASE, FALLING])
def test_runs(stream: str, values: list[int]) -> None:
    assert decode_unsigned(bytes.fromhex(stream), len(values), "f").tolist() == values


def test_runs_follow_each_other() -> None:
    data = bytes.fromhex(SHORT_REPEAT[0] + DIRECT[0] + DELTA[0])

    assert decode_unsigned(data, 19, "f").tolist() == SHORT_REPEAT[1] + DIRECT[1] + DELTA[1]
    assert decode_unsigned(data, 7, "f").tolist() == [10_000] * 5 + [23_713, 43_806]


@pytest.mark.parametrize("stream", [SHORT_REPEAT, DIRECT, DELTA, PATCHED_BASE])
def test_a_cut_off_run_is_a_corrupt_file(stream: tuple[str, list[int]]) -> None:
    data = bytes.fromhex(stream[0])

    with pytest.raises(CorruptFile, match="f: "):
        decode_unsigned(data[: len(data) // 2], len(stream[1]), "f")
    with pytest.raises(CorruptFile):
        decode_unsigned(data, len(stream[1]) + 1, "f")


def test_no_values() -> None:
    assert decode_unsigned(b"", 0, "f").tolist() == []
