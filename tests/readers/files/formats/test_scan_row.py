"""Row files: values of all types, the layout, keyed and changed tables, and damaged files."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format.row_layout import FOOTER, BlockIndex, decode_footer, decode_index, encode_end

COLUMNS = (
    "id INT NOT NULL, b BOOLEAN, t TINYINT, h SMALLINT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(10, 2), "
    "w DECIMAL(30, 5), s STRING, x BYTES, day DATE, c TIME(3), ts TIMESTAMP(0), ms TIMESTAMP(3), us TIMESTAMP(6), "
    "ns TIMESTAMP(9), z TIMESTAMP_LTZ(6), a ARRAY<INT>, sa ARRAY<STRING>, p MAP<STRING, INT>, "
    "q MAP<INT, ARRAY<STRING>>, r ROW<i INT, s STRING, n ROW<x BIGINT>>, v VECTOR<FLOAT NOT NULL, 2>, j VARIANT, "
    "k ARRAY<ROW<s STRING, i INT>>, y MULTISET<STRING>"
)


def make_row(number: int, draw: random.Random) -> dict[str, Any]:
    """Return a random row of `COLUMNS`; every fifth value is null."""

    def maybe(make: Callable[[], Any]) -> Any:
        return None if draw.random() < 0.2 else make()

    def text() -> str:
        return "".join(draw.choice("aé𝄞z") for _ in range(draw.choice([0, 1, 3, 13, 200])))

    def many(make: Callable[[], Any]) -> list[Any]:
        return [maybe(make) for _ in range(draw.choice([0, 1, 2, 9, 20]))]

    def moment(low: int = 1, high: int = 9999, step: int = 1) -> dt.datetime:
        return dt.datetime(draw.randint(low, high), 1, 1, 2, 3, 4, draw.randrange(0, 10**6, step))

    makers: dict[str, Callable[[], Any]] = {
        "b": lambda: draw.random() < 0.5,
        "t": lambda: draw.randint(-128, 127),
        "h": lambda: draw.randint(-(2**15), 2**15 - 1),
        "l": lambda: draw.randint(-(2**63), 2**63 - 1),
        "f": lambda: draw.choice([0.25, -0.0, float("inf"), -1.5]),
        "d": draw.random,
        "m": lambda: Decimal(draw.randint(-(10**9), 10**9)).scaleb(-2),
        "w": lambda: Decimal(f"{draw.randint(-1, 1) * draw.randrange(10 ** draw.randint(1, 29))}E-5"),
        "s": text,
        "x": lambda: text().encode(),
        "day": lambda: dt.date.fromordinal(draw.randint(1, 3_000_000)),
        "c": lambda: dt.time(draw.randrange(24), 1, 2, draw.randrange(1000) * 1000),
        "ts": lambda: moment().replace(microsecond=0),
        "ms": lambda: moment(step=1000),
        "us": moment,
        "ns": lambda: moment(1700, 2200),
        "z": lambda: moment().replace(tzinfo=dt.UTC),
        "a": lambda: many(lambda: draw.randint(-9, 9)),
        "sa": lambda: many(text),
        "p": lambda: {text(): maybe(lambda: 1) for _ in range(draw.randrange(3))},
        "q": lambda: {number: maybe(lambda: many(text)) for number in range(draw.randrange(3))},
        "r": lambda: {"i": maybe(lambda: 3), "s": maybe(text), "n": maybe(lambda: {"x": maybe(lambda: 2**40)})},
        "v": lambda: [1.5, draw.choice([2.0, 3.0])],
        "j": lambda: {"a": text()},
        "k": lambda: many(lambda: {"s": maybe(text), "i": maybe(lambda: 5)}),
        "y": lambda: {text(): 2},
    }
    return {"id": number} | {name: maybe(make) for name, make in makers.items()}


@pytest.mark.parametrize("seed", range(3))
def test_values_of_all_types_are_those_of_parquet(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.files.formats.row.CHUNK_BYTES", 5000 * seed or 1)
    monkeypatch.setattr("morrow.writers.files.formats.row.PIECE_BYTES", 5000 * seed or 50_000)
    draw = random.Random(seed)
    rows = [make_row(number, draw) for number in range(draw.choice([1, 40, 700]))]
    catalog = morrow.Catalog(tmp_path)
    options = {"file.format": "row", "file.block-size": draw.choice(["1b", "4kb", "64kb"])}
    table, expected = (
        catalog.create_table(f"db.{each['file.format']}", schema=COLUMNS, options=each)
        for each in (options, {"file.format": "parquet"})
    )
    table.append(rows)
    expected.append(rows)
    frame = table.to_polars()
    assert frame.equals(expected.to_polars(), null_equal=True)
    for name in frame.columns:  # columns that are not read are passed by
        assert table.scan([name]).to_polars()[name].equals(frame[name], null_equal=True)
    assert table.count("s IS NULL AND id > 7") == expected.count("s IS NULL AND id > 7")
    assert table.doctor(data=True).healthy


def find_row_file(folder: Path) -> Path:
    (path,) = folder.glob("**/*.row")
    return path


def read_block(data: bytes) -> bytes:
    """Return the rows of a file of a single block, uncompressed."""
    footer = decode_footer(data[-FOOTER.size :], len(data), "file")
    index = decode_index(data[footer[2] : footer[2] + footer[3]], footer, "file")
    return pa.Codec("zstd").decompress(data[: footer[2]], int(index.uncompressed[0]), asbytes=True)


def build_file(block: bytes, rows: int) -> bytes:
    compressed = pa.compress(block, "zstd", asbytes=True)
    return compressed + encode_end([BlockIndex(*(np.array([each]) for each in (len(compressed), len(block), rows)))])


def test_the_bytes_of_rows(tmp_path: Path) -> None:
    schema = "i INT, s STRING, d DECIMAL(20, 0), t TIMESTAMP(6), a ARRAY<SMALLINT>"
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, options={"file.format": "row"})
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 5)
    table.append([{"i": 1, "s": "é", "d": -129, "t": moment, "a": [7, None]}, {"s": "x" * 130}])
    first = b"\0" + b"\1\0\0\0" + b"\2\xc3\xa9" + b"\2\xff\x7f"  # null bits, i, s, d
    first += struct.pack("<q", 1000) + b"\x88\x27" + b"\2" + b"\2" + b"\7\0"  # t and 5000 nanoseconds, a: null bits
    second = b"\x1d" + b"\x82\1" + b"x" * 130
    assert read_block(find_row_file(tmp_path).read_bytes()) == first + second + struct.pack("<3i", 0, len(first), 2)


def test_keyed_tables_and_changed_columns(tmp_path: Path) -> None:
    options = {"bucket": 1, "file.format": "row", "changelog-producer": "input"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="k INT, v INT", primary_keys="k", options=options)
    table.upsert({"k": [1, 2], "v": [1, 2]})
    table.alter.set_type("v", "BIGINT")
    table.alter.rename_column("v", "u")
    table.alter.add_column("w", "STRING", first=True)
    table = morrow.open(tmp_path / "db.db/t")
    table.upsert([{"k": 2, "u": 2**40, "w": "x"}])
    rows = [{"w": None, "k": 1, "u": 1}, {"w": "x", "k": 2, "u": 2**40}]
    assert table.to_polars().sort("k").to_dicts() == rows
    table.compact(full=True)
    assert table.to_polars().sort("k").to_dicts() == rows
    assert {path.suffix for path in tmp_path.glob("**/bucket-0/*")} == {".row"}
    assert table.doctor(data=True).healthy


def test_columns_of_data_evolution(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": True, "data-evolution.enabled": True, "file.format": "row"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="a INT, b STRING, c INT", options=options)
    table.append([{"a": 1, "b": "x", "c": 1}, {"a": 2, "b": "y", "c": 2}])
    table.update({"c": "a + 5"}, "a = 2")
    assert table.to_polars().to_dicts() == [{"a": 1, "b": "x", "c": 1}, {"a": 2, "b": "y", "c": 7}]


def test_damaged_rows_are_other_values_or_errors(tmp_path: Path) -> None:
    draw = random.Random(1)
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=COLUMNS, options={"file.format": "row"})
    table.append([make_row(number, draw) for number in range(5)])
    path = find_row_file(tmp_path)
    data = path.read_bytes()
    block, size = bytearray(read_block(data)), path.stat().st_size
    outcomes = set()
    for _ in range(100):
        place, bit = draw.randrange(len(block)), 1 << draw.randrange(8)
        block[place] ^= bit
        damaged = build_file(bytes(block), 5)
        block[place] ^= bit
        path.write_bytes(damaged if len(damaged) == size else damaged[:size].ljust(size, b"\0"))
        try:
            outcomes.add(table.to_polars().height)
        except (CorruptFile, Unsupported) as error:
            outcomes.add(type(error))
    assert outcomes <= {5, CorruptFile, Unsupported}


def test_files_of_other_columns(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    tables = [
        catalog.create_table(f"db.{n}", schema=s, options={"file.format": "row"})
        for n, s in enumerate(("a INT", "a INT, b INT"))
    ]
    tables[0].append({"a": [1, 2]})
    tables[1].append({"a": [1, 2], "b": [1, 2]})
    paths = [find_row_file(tmp_path / f"db.db/{number}") for number in range(2)]
    with pytest.raises(MorrowError):
        paths[0].write_bytes(paths[1].read_bytes()[: paths[0].stat().st_size])
        tables[0].to_polars()
