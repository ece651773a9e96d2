"""ORC metadata files: the values equal Arrow's, and any damage raises `CorruptFile`."""

from __future__ import annotations

import datetime as dt
import io
import zoneinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format.orc_columns import decode_unsigned, find_offsets, read_orc

ROOM = 1 << 20
TIME = dt.datetime(2026, 3, 4, 5, 6, 7, 89_000)
TABLE = pa.table(
    {
        "small": pa.array([1, None, -128, 127] * 50, pa.int8()),
        "int": pa.array([5, -5, 2**31 - 1, None] * 50, pa.int32()),
        "long": pa.array([*range(-60, 60), *([2**63 - 1, -(2**63), None, 0] * 20)], pa.int64()),
        "text": pa.array(["", "ä", None, "much longer than that"] * 50),
        "bytes": pa.array([b"", b"\x00\xff", None, bytes(300)] * 50),
        "time": pa.array([TIME, None, TIME + dt.timedelta(milliseconds=1), TIME] * 50, pa.timestamp("ms")),
        "list": pa.array([[1, None], [], None, [3] * 20] * 50, pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 4, "b": "x"}] * 50),
    }
)


def stored(compression: str = "zstd") -> bytes:
    sink = io.BytesIO()
    orc.write_table(TABLE, sink, compression=compression, dictionary_key_size_threshold=0.9)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_values(compression: str) -> None:
    assert read_orc(stored(compression), "f", ROOM).to_pylist() == TABLE.to_pylist()


def test_files_of_java(golden_root: Path) -> None:
    files = [*(golden_root / "public" / "manifest_orc" / "warehouse" / "db.db" / "t" / "manifest").iterdir()]
    read = {file: read_orc(file.read_bytes(), file.name, ROOM) for file in files if file.read_bytes()[:3] == b"ORC"}
    assert len(read) > 3
    for file, table in read.items():
        assert table.to_pylist() == orc.ORCFile(str(file)).read().to_pylist()


def test_damage_raises_nothing_else() -> None:
    sound = stored()
    refused = 0
    for at in range(0, len(sound), 13):
        damaged = sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :]
        try:
            read_orc(damaged, "f", ROOM).validate(full=True)
        except MorrowError:
            refused += 1
    assert refused > len(sound) // 52


@pytest.mark.parametrize("length", [0, 1, 3, 100, 500])
def test_a_file_that_is_cut_short(length: int) -> None:
    with pytest.raises(CorruptFile):
        read_orc(stored()[:length], "f", ROOM)


def test_no_more_is_decompressed_than_there_is_room_for() -> None:
    with pytest.raises(CorruptFile, match="decompresses to more"):
        read_orc(stored(), "f", 1000)


def test_types_that_metadata_does_not_have() -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"x": [1.5]}), sink)
    with pytest.raises(Unsupported, match="an ORC column of kind 6"):
        read_orc(sink.getvalue(), "f", ROOM)


# The four kinds of runs, with the examples from the ORC specification.

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


# Offsets as in Java: the zone database from 1900 on, and today's standard offset before.

HOUR = 3_600


def instant(*date: int) -> int:
    return int(dt.datetime(*date, tzinfo=dt.UTC).timestamp())  # type: ignore[misc]  # no zone in date


def offset(zone: str, *date: int) -> int:
    return int(find_offsets(np.array([instant(*date)]), zone, "f")[0])


@pytest.mark.parametrize(
    ("zone", "date", "seconds"),
    [
        ("UTC", (2024, 7, 1), 0),
        ("Asia/Shanghai", (2024, 7, 1), 8 * HOUR),
        ("Asia/Shanghai", (1899, 12, 31), 8 * HOUR),
        ("Asia/Shanghai", (1900, 6, 1), 8 * HOUR + 5 * 60 + 43),
        ("America/New_York", (2024, 7, 1), -4 * HOUR),
        ("America/New_York", (2024, 12, 31), -5 * HOUR),
        ("America/New_York", (1, 1, 1), -5 * HOUR),
        ("America/New_York", (9999, 7, 1), -4 * HOUR),
        ("Australia/Sydney", (9999, 12, 31), 11 * HOUR),
    ],
)
def test_offsets(zone: str, date: tuple[int, ...], seconds: int) -> None:
    assert offset(zone, *date) == seconds


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"]),
    st.datetimes(dt.datetime(1901, 1, 1), dt.datetime(9990, 1, 1)),
)
def test_offsets_of_all_years_since_1901_are_those_of_the_zone_database(zone: str, moment: dt.datetime) -> None:
    aware = moment.replace(tzinfo=dt.UTC, microsecond=0)
    expected = aware.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()

    assert dt.timedelta(seconds=int(find_offsets(np.array([int(aware.timestamp())]), zone, "f")[0])) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "Etc'UTC"])
def test_an_unknown_zone_is_unsupported(zone: str) -> None:
    with pytest.raises(Unsupported, match="f: the time zone"):
        offset(zone, 2024, 1, 1)
