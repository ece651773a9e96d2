"""ORC files of metadata: the same values as Arrow reads, and whatever damage is a `CorruptFile`."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format.orc_columns import read_orc

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
