"""The container of data file indexes: its contents, the indexes that it asks, and damaged containers."""

from __future__ import annotations

import datetime as dt
import struct
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.file_index import ALL, NONE, ColumnIndex, FileIndex, IndexResult, read_file_index
from morrow.engine.format.file_index.bloom_filter import hash_bytes
from morrow.engine.format.file_index.row_sets import make_result
from morrow.engine.format.types import DataType, IntType, parse_atomic

# INT column "c" with the rows 7 and null, as Java writes it: one bitmap index of version 1.
BITMAP = bytes.fromhex("01000000020000000101fffffffe00000007ffffffff")
INT = IntType()


def container(columns: dict[str, dict[str, bytes | None]]) -> bytes:
    """Build a container as Java's FileIndexFormat writes it."""

    def name(text: str) -> bytes:
        return struct.pack(">H", len(text.encode())) + text.encode()

    size = 24 + sum(len(name(c)) + 4 + sum(len(name(k)) + 8 for k in indexes) for c, indexes in columns.items())
    head, body = struct.pack(">qiii", 1493475289347502, 1, size, len(columns)), b""
    for column, indexes in columns.items():
        head += name(column) + struct.pack(">i", len(indexes))
        for kind, data in indexes.items():
            head += name(kind) + struct.pack(">ii", -1 if data is None else size + len(body), len(data or b""))
            body += data or b""
    return head + struct.pack(">i", 0) + body


def test_columns_and_their_indexes() -> None:
    index = read_file_index(
        container({"c": {"bitmap": BITMAP, "from-the-future": b"?"}, "é": {}}), where="data-0.index"
    )

    assert index.columns == {"c": (ColumnIndex("bitmap", BITMAP), ColumnIndex("from-the-future", b"?")), "é": ()}


def test_questions() -> None:
    index = read_file_index(container({"c": {"bitmap": BITMAP, "from-the-future": b"?"}}), where="data-0.index")

    assert index.evaluate("c", INT, "=", (7,), row_count=2).mask(2).tolist() == [True, False]
    assert index.evaluate("c", INT, "=", (8,)) == NONE
    assert index.evaluate("c", INT, "IS NULL").positions() == [1]
    assert index.evaluate("c", INT, "!=", (8,)).positions() == [0]
    assert index.evaluate("c", INT, "<", (8,)) == ALL, "the bitmap index knows no order"
    assert index.evaluate("other", INT, "=", (7,)) == ALL, "the column has no index"
    assert index.evaluate("c", INT, "STARTS WITH", ("7",)) == ALL


def test_empty_lists() -> None:
    index = read_file_index(container({"c": {"bitmap": BITMAP}}), where="data-0.index")

    assert index.evaluate("c", INT, "IN") == NONE
    assert index.evaluate("c", INT, "NOT IN") == ALL
    with pytest.raises(InvalidArgument, match="c = is compared with nothing"):
        index.evaluate("c", INT, "=")


def test_an_index_that_saw_no_row() -> None:
    index = read_file_index(container({"c": {"bloom-filter": None}}), where="data-0.index")

    assert index.evaluate("c", INT, "=", (7,)) == NONE
    assert index.evaluate("c", INT, "IS NULL") == ALL


def test_all_indexes_of_a_column_are_asked() -> None:
    no_bits_set = struct.pack(">i", 3) + bytes(8)
    index = read_file_index(container({"c": {"bitmap": BITMAP, "bloom-filter": no_bits_set}}), where="data-0.index")

    assert index.evaluate("c", INT, "=", (7,)) == NONE


@pytest.mark.parametrize(
    ("type_text", "literal"),
    [
        ("INT", 7.0),
        ("INT", True),
        ("INT", "7"),
        ("BOOLEAN", 1),
        ("FLOAT", 0.1),
        ("FLOAT", 1e300),
        ("DECIMAL(10, 2)", Decimal("1.005")),
        ("DECIMAL(10, 2)", Decimal("1e1000000")),
        ("DECIMAL(10, 2)", Decimal("NaN")),
        ("DECIMAL(20, 2)", Decimal("1.00")),
        ("DATE", dt.datetime(2024, 1, 1)),
        ("TIME", dt.time(1, 2, 3, 4)),
        ("TIMESTAMP(3)", dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
        ("TIMESTAMP(6)", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", dt.datetime(2024, 1, 1)),
        ("CHAR(3)", "a"),
        ("STRING", "\ud800"),
        ("STRING", b"a"),
        ("BYTES", "a"),
    ],
)
def test_literals_that_are_not_exactly_of_the_type_are_not_looked_up(type_text: str, literal: object) -> None:
    no_bits_set = struct.pack(">i", 3) + bytes(8)
    columns: dict[str, dict[str, bytes | None]] = {"c": {"bloom-filter": no_bits_set, "bsi": b"", "range-bitmap": b""}}
    index = read_file_index(container(columns), where="data-0.index")

    assert index.evaluate("c", parse_atomic(type_text), "=", (literal,)) == ALL


def test_nanoseconds_share_the_key_of_their_microsecond() -> None:
    micro = dt.datetime(1970, 1, 1, 0, 0, 0, 7)
    nanos = parse_atomic("TIMESTAMP(9)")
    one_row_of_7_micros = bytes.fromhex("010000000100000001000000000000000007ffffffff")
    index = read_file_index(container({"c": {"bitmap": one_row_of_7_micros}}), where="data-0.index")

    assert index.evaluate("c", nanos, "=", (micro,)).positions() == [0]
    assert index.evaluate("c", nanos, "!=", (micro,)) == ALL, "the row may be 7,001 nanoseconds"
    assert index.evaluate("c", nanos, ">", (micro,)) == ALL


@pytest.mark.parametrize(
    ("data", "error", "problem"),
    [
        (b"", CorruptFile, "8 bytes are wanted, 0 are left"),
        (b"PAR1" + bytes(40), CorruptFile, "a file index begins with 1493475289347502"),
        (struct.pack(">qii", 1493475289347502, 2, 20), Unsupported, "version 2 of the file index"),
        (struct.pack(">qii", 1493475289347502, 1, 2**31 - 1), CorruptFile, "bytes are wanted"),
        (struct.pack(">qii", 1493475289347502, 1, 0), CorruptFile, "-16 bytes are wanted"),
        (struct.pack(">qiii", 1493475289347502, 1, 20, 2**31 - 1), CorruptFile, "2147483647 items cannot fit"),
        (container({"c": {"bitmap": BITMAP}})[:-1], CorruptFile, "20 bytes are wanted|bytes are wanted"),
    ],
)
def test_damaged_containers(data: bytes, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        read_file_index(data, where="data-0.index")


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap"])
def test_unknown_versions_of_an_index(kind: str) -> None:
    body = struct.pack(">i", 20) + b"\x09" + bytes(19) if kind == "range-bitmap" else b"\x09" + bytes(19)
    index = read_file_index(container({"c": {kind: body}}), where="data-0.index")

    with pytest.raises(Unsupported, match=rf"data-0.index \({kind} index of column c\): version 9 of the {kind} index"):
        index.evaluate("c", INT, "=", (1,))


def test_keys_of_a_block_ascend() -> None:
    """Keys of a block ascend: INT column "c" with the rows 7 and 9 in version 2, one block with both keys."""

    def index(*keys: int) -> FileIndex:
        entries = (struct.pack(">iii", key, -1 - row, -1) for row, key in enumerate(keys))
        block = struct.pack(">i", 2) + b"".join(entries)
        body = struct.pack(">bii?iiii", 2, 2, 2, False, 1, keys[0], 0, len(block)) + block
        return read_file_index(container({"c": {"bitmap": body}}), where="data-0.index")

    assert index(7, 9).evaluate("c", INT, "=", (9,)) != index(7, 9).evaluate("c", INT, "=", (8,))
    with pytest.raises(CorruptFile, match="ascend"):
        index(7, 5).evaluate("c", INT, "=", (9,))


def test_an_index_of_another_file() -> None:
    index = read_file_index(container({"c": {"bitmap": BITMAP}}), where="data-0.index")

    with pytest.raises(CorruptFile, match="it is about 2 rows, the data file has 3"):
        index.evaluate("c", INT, "=", (7,), row_count=3)
    with pytest.raises(CorruptFile, match="about 2 rows, the other"):
        index.evaluate("c", INT, "=", (7,)).mask(3)


@given(st.sampled_from(["bloom-filter", "bitmap", "bsi", "range-bitmap"]), st.binary(max_size=60), st.integers(0, 3))
@settings(max_examples=settings().max_examples * 2)
def test_any_bytes_answer_or_are_corrupt(kind: str, tail: bytes, version: int) -> None:
    data_type: DataType = INT
    index = read_file_index(container({"c": {kind: bytes([version]) + tail}}), where="data-0.index")

    for op, literals in (("=", (7,)), ("<", (7,)), ("IS NULL", ())):
        with suppress(CorruptFile, Unsupported):
            assert isinstance(index.evaluate("c", data_type, op, literals, row_count=100), IndexResult)


def test_results_combine() -> None:
    def of(*positions: int) -> IndexResult:
        return make_result(np.packbits(np.isin(np.arange(10), positions), bitorder="little"), 10)

    assert of(1, 2) & of(2, 3) == of(2)
    assert of(1, 2) | of(2, 3) == of(1, 2, 3)
    assert of(1) & of(2) == NONE
    assert [of(1) & ALL, of(1) & NONE, ALL & of(1), NONE & of(1)] == [of(1), NONE, of(1), NONE]
    assert [of(1) | ALL, of(1) | NONE, ALL | of(1), NONE | of(1)] == [ALL, of(1), ALL, of(1)]
    assert [repr(ALL), repr(NONE), repr(of(1, 9))] == ["ALL", "NONE", "2 of 10 rows"]
    assert ALL.mask(3).all() and not NONE.mask(3).any() and ALL.positions() is None


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_published_xxh64_values(data: bytes, digest: int) -> None:
    assert hash_bytes(data) == digest
