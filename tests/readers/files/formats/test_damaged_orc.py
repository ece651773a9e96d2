"""Damaged ORC data files: Arrow never sees the file itself, so nothing crashes and little memory is used."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.orc_file import DECIMAL, SECONDARY, OrcLayout, encode_message, parse_fields
from morrow.engine.format.orc_stripes import (
    DATA,
    DICTIONARY_DATA,
    DICTIONARY_V2,
    DIRECT_V2,
    INT,
    LENGTH,
    LIST,
    LONG,
    MAP,
    PRESENT,
    STRING,
    STRUCT,
    Column,
    build_orc_file,
)
from morrow.engine.io.local import LocalStore
from morrow.readers.files import FileSource, scan
from morrow.readers.files.formats.orc import decode_stripes
from morrow.readers.files.source import translate_errors
from tests.campaigns.damage.changes import apply, random_change

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
TEXT = t.VarCharType(length=2**31 - 1)
FIELDS = tuple(
    t.DataField(number, name, type_)
    for number, (name, type_) in enumerate(
        {
            "id": t.BigIntType(),
            "small": t.SmallIntType(),
            "flag": t.BooleanType(),
            "real": t.DoubleType(),
            "text": TEXT,
            "few": TEXT,
            "bytes": t.VarBinaryType(length=2**31 - 1),
            "price": t.DecimalType(precision=12, scale=2),
            "wide": t.DecimalType(precision=38, scale=3),
            "at": t.TimestampType(precision=6),
            "day": t.DateType(),
            "list": t.ArrayType(element=t.IntType()),
            "map": t.MapType(key=TEXT, value=t.BigIntType()),
            "row": t.RowType(fields=(t.DataField(100, "a", t.IntType()), t.DataField(101, "b", TEXT))),
        }.items()
    )
)


def table(rows: int) -> pa.Table:
    def some(number: int, value: object) -> object:
        return None if (number * 7919) % 5 == 0 else value

    def column(field: t.DataField, make: Callable[[int], object]) -> pa.Array:
        return pa.array([some(number + field.id, make(number)) for number in range(rows)], field.type.arrow())

    makers: list[Callable[[int], object]] = [
        lambda n: n * 3,
        lambda n: n % 100,
        lambda n: n % 3 > 0,
        lambda n: n / 7,
        lambda n: f"text {n * 7919}",
        lambda n: f"few {n % 4}",
        lambda n: bytes([n % 256]) * (n % 9),
        lambda n: Decimal(n % 1000) / 4,
        lambda n: Decimal(n * 10**15) / 8,
        lambda n: n * 10**12 + 5,
        lambda n: n,
        lambda n: [some(n + i, i) for i in range(n % 5)],
        lambda n: [(f"k{i}", n) for i in range(n % 3)],
        lambda n: {"a": some(n, n), "b": f"b{n}"},
    ]
    return pa.table({field.name: column(field, make) for field, make in zip(FIELDS, makers, strict=True)})


def stored(codec: str = "uncompressed", rows: int = 300) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table(rows), sink, compression=codec, dictionary_key_size_threshold=0.5)
    return sink.getvalue()


def source(path: Path, content: bytes, rows: int = 300) -> FileSource:
    path.write_bytes(content)
    return FileSource(LocalStore(), str(path), 0, rows, "orc")


def read(file: FileSource, columns: tuple[t.DataField, ...] = FIELDS) -> pa.Table:
    with translate_errors(file.path):
        stripes = [stripe.columns for stripe in decode_stripes(file, columns)]
    return pa.concat_tables(
        pa.Table.from_arrays(list(arrays), names=[column.name for column in columns]) for arrays in stripes
    )


@pytest.mark.parametrize("codec", CODECS)
def test_sound_files_of_every_codec(codec: str, tmp_path: Path) -> None:
    found = read(source(tmp_path / "f", stored(codec)))

    assert found.to_pylist() == table(300).to_pylist()


CHILD = """
import json, resource, sys
from pathlib import Path
from tests.readers.files.formats.test_damaged_orc import damaged_reads
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([damaged_reads(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])),
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10]))
"""


def damaged_reads(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Damage files `count` times and count the outcomes; untyped errors are raised."""
    numbers, outcomes = random.Random(seed), {"refused": 0, "same": 0, "other": 0}
    sound = {codec: stored(codec, 100) for codec in CODECS}
    rows = table(100)
    for number in range(count):
        content = sound[CODECS[number % len(CODECS)]]
        file = source(folder / "damaged", apply(random_change(numbers, content), content), 100)
        try:
            found = read(file)
            found.validate(full=True)
            outcomes["same" if found.equals(rows) else "other"] += 1
        except MorrowError:
            outcomes["refused"] += 1
    return outcomes


def test_damage_neither_ends_the_process_nor_takes_memory(tmp_path: Path) -> None:
    count, seed = (50_000, random.randrange(1 << 30)) if IS_LONG else (150, 2)
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(count), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"seed {seed}: {run.stderr}"
    outcomes, grown = json.loads(run.stdout)
    assert outcomes["refused"] > count // 4
    assert grown < 200


def stream_start(content: bytes, column: str, kind: int) -> int:
    layout = OrcLayout(io.BytesIO(content), "f")
    node = layout.types[0].children[layout.columns.index(column)]
    return layout.stripe(0).streams[node, kind][0]


REPEATED = bytes([4 << 3, 0, 0x3F, 0xFF, 0xFF, 0xFF])
"""A short repeat of 3 numbers of about a billion each."""
BOMBS: dict[str, tuple[Column, t.DataType, str]] = {
    "text": (Column(STRING, DIRECT_V2, {DATA: b"abc", LENGTH: REPEATED}), TEXT, "add up to more than the 3 bytes"),
    "dictionary": (
        Column(STRING, DICTIONARY_V2, {DATA: bytes(2), LENGTH: REPEATED, DICTIONARY_DATA: b"abc"}, dictionary=3),
        TEXT,
        "add up to more than the 3 bytes",
    ),
    "entries": (
        Column(
            STRING, DICTIONARY_V2, {DATA: bytes(2), LENGTH: bytes(2), DICTIONARY_DATA: b""}, dictionary=(1 << 32) - 2
        ),
        TEXT,
        "a dictionary of 4294967294 entries with 3 lengths",
    ),
    "list": (
        Column(LIST, DIRECT_V2, {LENGTH: REPEATED}, {"0": Column(INT, DIRECT_V2, {DATA: bytes(2)})}),
        t.ArrayType(element=t.IntType()),
        "more than there are",
    ),
    "list of nulls": (
        Column(LIST, DIRECT_V2, {LENGTH: REPEATED}, {"0": Column(INT, DIRECT_V2, {PRESENT: bytes(2), DATA: b""})}),
        t.ArrayType(element=t.IntType()),
        "more than there are",
    ),
    "list in a list": (
        Column(
            LIST,
            DIRECT_V2,
            {LENGTH: bytes([0, 1])},
            {"0": Column(LIST, DIRECT_V2, {LENGTH: REPEATED}, {"0": Column(INT, DIRECT_V2, {DATA: bytes(2)})})},
        ),
        t.ArrayType(element=t.ArrayType(element=t.IntType())),
        "more than there are",
    ),
    "map": (
        Column(
            MAP,
            DIRECT_V2,
            {LENGTH: bytes([0, 1])},
            {
                "0": Column(STRING, DIRECT_V2, {DATA: b"abc", LENGTH: REPEATED}),
                "1": Column(LONG, DIRECT_V2, {DATA: bytes(2)}),
            },
        ),
        t.MapType(key=TEXT, value=t.BigIntType()),
        "add up to more than the 3 bytes",
    ),
    "decimal": (
        Column(DECIMAL, DIRECT_V2, {DATA: bytes(3), SECONDARY: REPEATED}, precision=38, scale=2),
        t.DecimalType(precision=38, scale=2),
        "digits",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_number_that_asks_for_gigabytes_or_hours_is_refused(name: str, tmp_path: Path) -> None:
    column, type_, problem = BOMBS[name]
    content = build_orc_file(Column(STRUCT, members={"c": column}), 3)

    with pytest.raises(CorruptFile, match=problem):
        read(source(tmp_path / "f", content, 3), (t.DataField(0, "c", type_),))


@pytest.mark.parametrize(("nulls", "problem"), [(b"\xfe\x00\xe0", "null"), (b"\xff\x80", "CorruptFile")])
def test_maps_with_keys_that_are_null(nulls: bytes, problem: str, tmp_path: Path) -> None:
    """Arrow ends the process for null keys, so they are reported as damage."""
    keys = Column(LONG, DIRECT_V2, {PRESENT: nulls, DATA: bytes(2)})  # three zeros
    column = Column(
        MAP, DIRECT_V2, {LENGTH: bytes([0, 2])}, {"0": keys, "1": Column(LONG, DIRECT_V2, {DATA: bytes(4)})}
    )
    content = build_orc_file(Column(STRUCT, members={"c": column}), 3)

    with pytest.raises(MorrowError) as raised:
        read(
            source(tmp_path / "f", content, 3),
            (t.DataField(0, "c", t.MapType(key=t.BigIntType(), value=t.BigIntType())),),
        )
    assert problem in f"{raised.value} {type(raised.value).__name__}"


def test_long_text_and_long_lists_are_sound(tmp_path: Path) -> None:
    """Lengths that do not fit a dictionary of small numbers, and more items than are accepted without a check."""
    lists = pa.ListArray.from_arrays(pa.array([0, 9_000_000, 9_000_000], pa.int32()), np.full(9_000_000, 7))
    rows = pa.table({"s": ["x" * 9_000_000, "y" * 100_000], "l": lists})
    sink = io.BytesIO()
    orc.write_table(rows, sink, compression="zstd", dictionary_key_size_threshold=0.0)
    columns = (t.DataField(0, "s", TEXT), t.DataField(1, "l", t.ArrayType(element=t.BigIntType())))

    assert read(source(tmp_path / "f", sink.getvalue(), 2), columns).equals(rows)


def test_lists_of_more_items_than_there_are(tmp_path: Path) -> None:
    """Three lists of 5,000 items claim 16 million each."""
    sink = io.BytesIO()
    orc.write_table(pa.table({"list": pa.array([list(range(5000))] * 3, pa.list_(pa.int32()))}), sink)
    content = sink.getvalue()
    at = stream_start(content, "list", LENGTH)
    assert content[at : at + 3] == bytes([1 << 3, 5000 >> 8, 5000 & 255])
    damaged = content[: at + 1] + b"\xff" + content[at + 2 :]
    columns = (t.DataField(0, "list", t.ArrayType(element=t.IntType())),)

    with pytest.raises(CorruptFile):
        read(source(tmp_path / "f", damaged, 3), columns)


def test_an_empty_chunk_is_passed_over(tmp_path: Path) -> None:
    """Arrow would read past the end of its memory if bytes of an empty stored chunk are requested."""
    sink = io.BytesIO()
    rows = pa.table({"id": pa.array([5, 6, 7] * 50, pa.int64())})
    orc.write_table(rows, sink, compression="zstd")
    content = sink.getvalue()
    at = stream_start(content, "id", 1)
    header = int.from_bytes(content[at : at + 3], "little")
    damaged = content[:at] + b"\x01\x00\x00" + content[at + 3 :]
    assert header >> 1 > 3

    with pytest.raises(CorruptFile):
        read(source(tmp_path / "f", damaged, 150), FIELDS[:1])


def test_columns_that_are_not_read_are_not_looked_at(tmp_path: Path) -> None:
    content = stored()
    at = stream_start(content, "text", 1)
    file = source(tmp_path / "f", content[:at] + bytes(200) + content[at + 200 :])

    assert read(file, FIELDS[:1])["id"].to_pylist() == table(300)["id"].to_pylist()
    assert scan([file], [], position="at").collect()["at"].len() == 300


def retyped(content: bytes, column: str, kind: int) -> bytes:
    """Change the type of a column in the file's footer."""
    layout = OrcLayout(io.BytesIO(content), "f")
    node, seen, changed = layout.types[0].children[layout.columns.index(column)], -1, []
    for number, wire, value in parse_fields(layout.footer):
        seen += number == 4
        if number == 4 and seen == node:
            assert isinstance(value, bytes)
            value = encode_message((n, w, kind if n == 1 else v) for n, w, v in parse_fields(value))
        changed.append((number, wire, value))
    footer = encode_message(changed)
    script = encode_message((n, w, len(footer) if n == 1 else v) for n, w, v in parse_fields(layout.script))
    return content[: layout.footer_start] + footer + script + bytes([len(script)])


@pytest.mark.parametrize(("column", "kind"), [("flag", 1), ("real", 4), ("text", 15), ("day", 3), ("price", 4)])
def test_a_type_that_the_table_cannot_have(column: str, kind: int, tmp_path: Path) -> None:
    with pytest.raises((CorruptFile, Unsupported)):
        read(source(tmp_path / "f", retyped(stored(), column, kind)))


def test_whole_numbers_of_another_width_are_read_as_they_are(tmp_path: Path) -> None:
    """SHORT, INT and LONG have the same bytes, so nothing is truncated if the file names the wrong one."""
    sink = io.BytesIO()
    orc.write_table(pa.table({"id": pa.array([1 << 40, -5], pa.int64())}), sink, compression="uncompressed")

    for kind in (2, 3, 4):
        found = read(source(tmp_path / "f", retyped(sink.getvalue(), "id", kind), 2), FIELDS[:1])
        assert found["id"].to_pylist() == [1 << 40, -5]


def test_nulls_that_were_moved_are_noticed(tmp_path: Path) -> None:
    content = stored()
    for column in ("id", "real", "text", "few", "price", "list", "row", "at"):
        at = stream_start(content, column, 0)
        assert content[at] >= 128  # literal bytes
        damaged = apply(f"bit {at + 3}.2", content)
        with pytest.raises(CorruptFile):
            read(source(tmp_path / "f", damaged))


def test_text_that_is_no_text_is_refused(tmp_path: Path) -> None:
    content = stored()
    at = content.index(b"text 7919")
    with pytest.raises(Unsupported, match="UTF"):
        read(source(tmp_path / "f", apply(f"byte {at}=255", content)))


def test_structs_that_arrow_miswrites(tmp_path: Path) -> None:
    """Arrow's writer shifts the members of structs in a slice whose nulls it reads at other rows."""
    kind = pa.struct([("inner", pa.struct([("a", pa.int64())])), ("b", pa.bool_())])
    rows = [None, {"inner": {"a": 1}, "b": True}, {"inner": None, "b": True}, {"inner": {"a": 3}, "b": True}]
    sink = io.BytesIO()
    orc.write_table(pa.table({"s": pa.array(rows, kind)}).slice(1), sink)
    member = t.DataField(1, "inner", t.RowType((t.DataField(2, "a", t.BigIntType()),)))
    field = t.DataField(0, "s", t.RowType((member, t.DataField(3, "b", t.BooleanType()))))

    try:
        found = read(source(tmp_path / "f", sink.getvalue(), 3), (field,)).column("s").to_pylist()
    except CorruptFile as error:
        assert "pyarrow's ORC writer leaves it for nulls within structs" in str(error)
    else:
        assert found == rows[1:]
