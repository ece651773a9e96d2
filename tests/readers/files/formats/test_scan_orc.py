"""ORC files: types, stripes, and timestamps of every year and zone, with the same rows as in Java."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, scan, translate_errors, verify

ID = t.DataField(0, "id", t.IntType())


def source(path: Path, rows: int = -1, **options: str) -> FileSource:
    return FileSource(LocalStore(), str(path), path.stat().st_size, rows, "orc", options)


def written(path: Path, table: pa.Table, **options: Any) -> FileSource:
    orc.write_table(table, str(path), **options)
    return source(path, table.num_rows)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_stripes_positions_and_projection(tmp_path: Path, compression: str) -> None:
    noise = np.random.default_rng(7).bytes(50_000 * 64)
    table = pa.table({"noise": pa.array(np.frombuffer(noise, "S64")), "id": pa.array(range(50_000), pa.int32())})
    file = written(tmp_path / "f.orc", table, stripe_size=100_000, compression=compression)
    assert orc.ORCFile(file.path).nstripes > 1

    frame = scan([file], [ID], position="at").filter(pl.col("id").is_in([0, 20_000, 49_999])).collect()

    assert frame.columns == ["id", "at"]
    assert frame["at"].to_list() == [0, 20_000, 49_999]


@pytest.mark.parametrize(
    ("column", "kind"),
    [(["aaaaaaaaaaaaaaaac", "abcdefg"], t.VarCharType()), ([float("-inf"), -0.5], t.DoubleType())],
)
def test_blocks_of_lz4_that_begin_with_a_run(tmp_path: Path, column: list[Any], kind: t.DataType) -> None:
    """The first four bytes of such a block could be a length in front of it if blocks have Java's size."""
    file = written(tmp_path / "f.orc", pa.table({"c": column}), compression="lz4", compression_block_size=262_144)

    assert scan([file], [t.DataField(0, "c", kind)]).collect()["c"].to_list() == column


def test_positions_alone_count_the_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "f.orc", pa.table({"id": pa.array([7, 8, 9], pa.int32())}))

    assert scan([file], [], position="at").collect()["at"].to_list() == [0, 1, 2]
    assert scan([file], [ID]).select(pl.len()).collect().item() == 3
    assert scan([file, file], [ID]).head(4).collect()["id"].to_list() == [7, 8, 9, 7]


def test_a_dot_in_a_name_is_no_path(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([{"b": 1}]), "a.b": pa.array([2], pa.int32())})

    frame = scan([written(tmp_path / "f.orc", table)], [t.DataField(0, "a.b", t.IntType())]).collect()

    assert frame.to_dicts() == [{"a.b": 2}]


DAY = t.DataField(1, "day", t.DateType())
CODE = t.DataField(2, "code", t.CharType(length=4))


@pytest.mark.parametrize(
    ("type_", "stored", "read"),
    [
        (t.TinyIntType(), pa.array([-128, None], pa.int8()), [-128, None]),
        (
            t.DecimalType(precision=38, scale=3),
            pa.array([Decimal("-1.250")], pa.decimal128(38, 3)),
            [Decimal("-1.250")],
        ),
        (t.BinaryType(length=2), pa.array([b"\x00\xff", None]), [b"\x00\xff", None]),
        (t.CharType(length=5), pa.array(["ab   ", " a", None]), ["ab", " a", None]),
        (t.VarCharType(length=5), pa.array(["ab   "]), ["ab   "]),
        (t.TimeType(precision=3), pa.array([86_399_999, None], pa.int32()), [dt.time(23, 59, 59, 999_000), None]),
        (t.DateType(), pa.array([dt.date(1, 1, 1)]), [dt.date(1, 1, 1)]),
        (t.ArrayType(True, t.TimeType()), pa.array([[1_000], [None], None], pa.list_(pa.int32())), None),
        (t.ArrayType(True, t.CharType(length=4)), pa.array([["a ", None], None, []]), [["a", None], None, []]),
        (
            t.MapType(True, t.CharType(length=2), t.RowType(True, (DAY, CODE))),
            pa.array(
                [[("k ", {"day": None, "code": "c "}), ("l", None)], None, []],
                pa.map_(pa.string(), pa.struct([("day", pa.date32()), ("code", pa.string())])),
            ),
            [[{"key": "k", "value": {"day": None, "code": "c"}}, {"key": "l", "value": None}], None, []],
        ),
        (
            t.MultisetType(True, t.VarCharType()),
            pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int32())),
            [[{"key": "a", "value": 2}]],
        ),
        (t.VectorType(True, t.FloatType(), 2), pa.array([[1.0, 2.0]], pa.list_(pa.float32())), [[1.0, 2.0]]),
    ],
    ids=str,
)
def test_types(tmp_path: Path, type_: t.DataType, stored: pa.Array, read: list[Any] | None) -> None:
    column = scan([written(tmp_path / "f.orc", pa.table({"v": stored}))], [t.DataField(0, "v", type_)]).collect()["v"]

    assert column.dtype == to_polars_dtype(type_)
    assert column.to_list() == (read or [[dt.time(0, 0, 1)], [None], None])


# --- timestamps ---

# Written by Java Paimon 1.4.2 on a machine in Asia/Shanghai, and on one in America/New_York with
# orc.timestamp-ltz.legacy.type=false: the same seven values in TIMESTAMP(6) `ts` and TIMESTAMP_LTZ(6) `ltz`.
SHANGHAI = """
T1JDCgYSBAgHUAAKEgoCAAASDAgHEgYIABAMGCpQAAolCgcAAAAAAAAAEhoIBkoUGP+/zMfjoBwg/u/+ofqdczDZ/DxQAQolCgcA
AAAAAAAAEhoIBkoUGP+PiOPjoBwg/p/DhvqdczDZ/DxQAcAGAAL//PgF/5/Jw9kDgO7Qvr4DAIOqfoAAAAAqMQBmgncXOplxoDdu
BQAAAAAAAAAALwAAzg8SAnoR+v/8+AX/4czD2QOA7tC+vgMAg6p+gAAAACoxAGaCdxc6mXGgN24FAAAAAAAAAAAvAADODxICehH6
CgYIBhAAGAgKBggGEAEYFAoGCAYQAhgnCgYIBhADGCcKBggBEAEYBAoGCAAQAhgCCgYIARACGCIKBggFEAIYFAoGCAAQAxgCCgYI
ARADGCIKBggFEAMYFBICCAASAggCEgIIAhICCAIaDUFzaWEvU2hhbmdoYWkKUgoECAdQAAoOCAcSBggAEAwYKlAAWAQKHAgGShQY
/7/Mx+OgHCD+7/6h+p1zMNn8PFABWDgKHAgGShQY/4+I4+OgHCD+n8OG+p1zMNn8PFABWDgIAxDYAhoKCAMQahh0IHcoByIUCAwS
AwECAxoCaWQaAnRzGgNsdHoiEggDOg4KCXBhaW1vbi5pZBIBMCISCAk6DgoJcGFpbW9uLmlkEgExIhIIEjoOCglwYWltb24uaWQS
ATIwBzoECAdQADoOCAcSBggAEAwYKlAAWAQ6HAgGShQY/7/Mx+OgHCD+7/6h+p1zMNn8PFABWDg6HAgGShQY/4+I4+OgHCD+n8OG
+p1zMNn8PFABWDhAkE5IAFgBYgUxLjkuMgjFARAAIgIADChUMAmC9AMDT1JDFA=="""
NEW_YORK = """
T1JDCgYSBAgHUAAKEgoCAAASDAgHEgYIABAMGCpQAAolCgcAAAAAAAAAEhoIBkoUGP+/zMfjoBwg/u/+ofqdczDZ/DxQAQolCgcA
AAAAAAAAEhoIBkoUGP/f5qLioBwg/u/+ofqdczDZ/DxQAcAGAAL//PgF/5/Jw9kDgO7Qvr4DAIOqfn8AAAAqMQBmgmkIOplxrkdu
BQAAAAAAAAAALwAAzg8SAnoR+v/8+AX/k7TD2QOA4ru+vgMAg6p+gAAAACowAGaCdxg6mXGgN24FAAAAAAAAAAAvAADODxICehH6
CgYIBhAAGAgKBggGEAEYFAoGCAYQAhgnCgYIBhADGCcKBggBEAEYBAoGCAAQAhgCCgYIARACGCIKBggFEAIYFAoGCAAQAxgCCgYI
ARADGCIKBggFEAMYFBICCAASAggCEgIIAhICCAIaEEFtZXJpY2EvTmV3X1lvcmsKUgoECAdQAAoOCAcSBggAEAwYKlAAWAQKHAgG
ShQY/7/Mx+OgHCD+7/6h+p1zMNn8PFABWDgKHAgGShQY/9/mouKgHCD+7/6h+p1zMNn8PFABWDgIAxDbAhoKCAMQahh0IHooByIU
CAwSAwECAxoCaWQaAnRzGgNsdHoiEggDOg4KCXBhaW1vbi5pZBIBMCISCAk6DgoJcGFpbW9uLmlkEgExIhIIEjoOCglwYWltb24u
aWQSATIwBzoECAdQADoOCAcSBggAEAwYKlAAWAQ6HAgGShQY/7/Mx+OgHCD+7/6h+p1zMNn8PFABWDg6HAgGShQY/9/mouKgHCD+
7/6h+p1zMNn8PFABWDhAkE5IAFgBYgUxLjkuMgjFARAAIgIADChUMAmC9AMDT1JDFA=="""
WRITTEN = (
    "0001-01-01 00:00:00.000000",
    "1900-01-01 00:00:00.000000",
    "1969-12-31 23:59:59.500000",
    "1970-01-01 03:00:00.250000",
    "2024-07-01 12:30:00.123456",
    "9999-12-31 23:59:59.999999",
    None,
)
YEAR_1_BY_JULIAN_CALENDAR = "0000-12-30 00:00:00.000000"
SECOND_LATE = "1970-01-01 00:00:00.500000"

TS = t.DataField(1, "ts", t.TimestampType(precision=6))
LTZ = t.DataField(2, "ltz", t.LocalZonedTimestampType(precision=6))


def texts(column: pl.Series) -> list[str | None]:
    return column.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").to_list()


def test_timestamps_written_in_shanghai(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    path.write_bytes(base64.b64decode(SHANGHAI))

    frame = scan([source(path, 7)], [TS, LTZ]).collect()

    as_java_reads = [YEAR_1_BY_JULIAN_CALENDAR, *WRITTEN[1:]]
    assert texts(frame["ts"]) == as_java_reads
    assert texts(frame["ltz"]) == as_java_reads
    assert frame.schema == {"ts": pl.Datetime("us"), "ltz": pl.Datetime("us", "UTC")}


def test_timestamps_written_in_new_york_with_instants_kept(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    path.write_bytes(base64.b64decode(NEW_YORK))

    frame = scan([source(path, 7, **{"orc.timestamp-ltz.legacy.type": "false"})], [TS, LTZ]).collect()

    assert texts(frame["ts"]) == [YEAR_1_BY_JULIAN_CALENDAR, *WRITTEN[1:]]
    assert texts(frame["ltz"]) == [*WRITTEN[:2], SECOND_LATE, *WRITTEN[3:]]


def test_instants_of_a_file_that_names_no_zone(tmp_path: Path) -> None:
    """Java names its zone only in files with TIMESTAMP columns; readers of other files may set an option."""
    path = tmp_path / "f.orc"
    path.write_bytes(base64.b64decode(SHANGHAI).replace(b"\x1a\x0dAsia/Shanghai", b"\x7a\x0dAsia/Shanghai"))

    def noon(**options: str) -> str | None:
        frame = scan([source(path, 7, **options)], [LTZ], position="at").filter(pl.col("at") == 4).collect()
        return texts(frame["ltz"])[0]

    assert noon() == "2024-07-01 04:30:00.123456"
    assert noon(**{"morrow.orc.writer-time-zone": "Asia/Shanghai"}) == WRITTEN[4]


INSTANTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).filter(
    # Writers round seconds towards zero, so the file itself loses the fraction in this one second.
    lambda value: not dt.datetime(1969, 12, 31, 23, 59, 59) < value < dt.datetime(1970, 1, 1)
)
VALUES = st.lists(st.none() | INSTANTS, max_size=40)
COMPRESSIONS = st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"])


@given(VALUES, COMPRESSIONS)
def test_timestamps_of_every_year_at_any_depth(
    tmp_path_factory: pytest.TempPathFactory, values: list[dt.datetime | None], compression: str
) -> None:
    """ORC's C++ writer takes microseconds, so years that nanoseconds cannot hold are written here too."""
    member = t.DataField(0, "at", t.TimestampType(precision=6))
    fields = [
        t.DataField(0, "plain", t.TimestampType(precision=6)),
        t.DataField(1, "zoned", t.LocalZonedTimestampType(precision=6)),
        t.DataField(2, "rows", t.ArrayType(True, t.RowType(True, (member,)))),
    ]
    rows = [None if value is None else [{"at": value}, None, {"at": None}] for value in values]
    table = pa.table(
        [pa.array(v, f.type.arrow()) for v, f in zip([values, values, rows], fields, strict=True)],
        schema=t.to_arrow_schema(fields),
    )
    path = tmp_path_factory.mktemp("orc") / "f.orc"

    frame = scan([written(path, table, compression=compression)], fields).collect()

    assert frame["plain"].to_list() == values
    assert frame["zoned"].dt.replace_time_zone(None).to_list() == values
    assert frame["rows"].to_list() == rows


def test_nanoseconds_outside_of_64_bits_are_refused(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))})
    file = written(tmp_path / "f.orc", table)

    with pytest.raises(Unsupported, match=r"TIMESTAMP\(9\) before 1677 or after 2262"):
        scan([file], [t.DataField(0, "v", t.TimestampType(precision=9))]).collect()


# --- what is refused ---


@pytest.fixture
def numbers(tmp_path: Path) -> FileSource:
    stamps = [dt.datetime(1, 1, 1) + dt.timedelta(days=700 * i) for i in range(1_000)]
    return written(
        tmp_path / "f.orc", pa.table({"id": pa.array(range(1_000), pa.int32()), "ts": stamps}), compression="zstd"
    )


def test_a_missing_column(numbers: FileSource) -> None:
    with pytest.raises(Unsupported, match="of the columns id, ts, without 'city'"):
        scan([numbers], [t.DataField(7, "city", t.VarCharType())]).collect()


def test_a_decimal_of_too_many_digits_does_not_end_the_process(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([Decimal(1)], pa.decimal128(38, 0))})
    file = written(tmp_path / "f.orc", table, compression="uncompressed")
    kind_and_precision = bytes.fromhex("080e20002826")
    data = Path(file.path).read_bytes()
    assert data.count(kind_and_precision) == 1
    Path(file.path).write_bytes(data.replace(kind_and_precision, bytes.fromhex("080e20002849")))

    with pytest.raises(CorruptFile, match="a decimal of 73 digits"):
        scan([file], [t.DataField(0, "v", t.DecimalType(precision=38))]).collect()


def test_a_nested_member_that_is_not_there(tmp_path: Path) -> None:
    file = written(tmp_path / "f.orc", pa.table({"r": pa.array([{"day": None}], pa.struct([("day", pa.date32())]))}))

    with pytest.raises(CorruptFile, match="has no member 'code'"):
        scan([file], [t.DataField(0, "r", t.RowType(True, (DAY, CODE)))]).collect()


def test_another_number_of_rows(numbers: FileSource) -> None:
    other = source(Path(numbers.path), rows=999)

    with pytest.raises(CorruptFile, match="has 1000 rows where metadata says 999"):
        scan([other], [ID]).collect()
    with pytest.raises(CorruptFile, match="has 1000 rows where metadata says 999"):
        verify(other, rows=True)


@given(st.data())
def test_damage_raises_nothing_but_morrow_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    stamps = [dt.datetime(1, 1, 1) + dt.timedelta(days=7_000 * i) for i in range(300)]
    folder = tmp_path_factory.mktemp("orc")
    table = pa.table({"id": pa.array(range(300), pa.int32()), "ts": stamps})
    damaged = bytearray(Path(written(folder / "f.orc", table, compression="zstd").path).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (folder / "f.orc").write_bytes(damaged[: data.draw(st.sampled_from([len(damaged), len(damaged) // 2, 3, 0]))])

    try:
        with translate_errors("f.orc"):
            scan([source(folder / "f.orc")], [ID, TS]).collect()
    except MorrowError as error:
        assert "f.orc" in str(error)
