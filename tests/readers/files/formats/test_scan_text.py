"""The text formats json, csv and text, with files that Java Paimon wrote."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, scan
from morrow.readers.files.formats import text as text_lines

FIELDS = tuple(
    t.DataField(i, name, type_)
    for i, (name, type_) in enumerate(
        {
            "id": t.IntType(),
            "c": t.CharType(length=5),
            "s": t.VarCharType(),
            "d": t.DecimalType(precision=10, scale=2),
            "dt": t.DateType(),
            "tm": t.TimeType(precision=3),
            "ts": t.TimestampType(precision=6),
            "t0": t.TimestampType(precision=0),
            "by": t.VarBinaryType(),
            "bo": t.BooleanType(),
            "f": t.FloatType(),
            "x": t.DoubleType(),
            "i8": t.TinyIntType(),
        }.items()
    )
)
ARRAY = t.DataField(13, "ar", t.ArrayType(True, t.IntType()))
MAP = t.DataField(14, "m", t.MapType(True, t.VarCharType(), t.DateType()))
ROW = t.DataField(
    15, "r", t.RowType(True, (t.DataField(16, "p", t.BigIntType()), t.DataField(17, "q", t.VarCharType())))
)

# Written by Java Paimon 1.4.2.
JAVA_JSON = r"""
{"id":"0","c":"ab","s":"plain","d":"-12.50","dt":"2024-02-29","tm":"12:34:56.789","ts":"2024-02-29 12:30:00.123456","t0":"1969-12-31 23:59:59","by":"AAH/","bo":"true","f":"NaN","x":"-Infinity","i8":"-7","ar":["1",null,"3"],"m":{"k":"1970-01-04","z":null},"r":{"p":"5","q":null}}
{"id":"1","c":null,"s":null,"d":null,"dt":null,"tm":null,"ts":null,"t0":null,"by":null,"bo":null,"f":null,"x":null,"i8":null,"ar":null,"m":null,"r":null}
{"id":"2","c":"ab","s":"q\"uo,te\\back","d":"-12.50","dt":"2024-02-29","tm":"12:34:56.789","ts":"2024-02-29 12:30:00.123456","t0":"1969-12-31 23:59:59","by":"AAH/","bo":"false","f":"1.1","x":"1.0E300","i8":"-7","ar":["1",null,"3"],"m":{"k":"1970-01-04","z":null},"r":{"p":"5","q":"in"}}
""".lstrip()  # noqa: E501  # the file has these lines
JAVA_CSV = r"""
0,ab,plain,-12.50,2024-02-29,12:34:56.789,2024-02-29 12:30:00.123456,1969-12-31 23:59:59,AAH/,true,NaN,-Infinity,-7
1,,,,,,,,,,,,
2,ab,"q\"uo,te",-12.50,2024-02-29,12:34:56.789,2024-02-29 12:30:00.123456,1969-12-31 23:59:59,AAH/,false,1.1,1.0E300,-7
""".lstrip()


def source(
    path: Path, text: str | bytes, rows: int = -1, columns: tuple[t.DataField, ...] = (), **options: str
) -> FileSource:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    format_ = path.name.split(".")[1]
    return FileSource(
        LocalStore(), str(path), 0, rows, format_, {k.replace("__", "."): v for k, v in options.items()}, columns
    )


def java_row(**other: Any) -> dict[str, Any]:
    return {
        "c": "ab",
        "s": "plain",
        "d": Decimal("-12.50"),
        "dt": dt.date(2024, 2, 29),
        "tm": dt.time(12, 34, 56, 789_000),
        "ts": dt.datetime(2024, 2, 29, 12, 30, 0, 123_456),
        "t0": dt.datetime(1969, 12, 31, 23, 59, 59),
        "by": b"\x00\x01\xff",
        "i8": -7,
        **other,
    }


@pytest.mark.parametrize(
    ("name", "text", "quoted"), [("f.json", JAVA_JSON, r'q"uo,te\back'), ("f.csv", JAVA_CSV, 'q"uo,te')]
)
def test_files_of_java(tmp_path: Path, name: str, text: str, quoted: str) -> None:
    frame = scan([source(tmp_path / name, text, 3)], FIELDS, position="at").collect()

    assert frame.drop("at").schema == {each.name: to_polars_dtype(each.type) for each in FIELDS}
    first, second, third = frame.to_dicts()
    assert math.isnan(first.pop("f"))
    assert first == java_row(id=0, at=0, bo=True, x=-math.inf)
    assert second == {**dict.fromkeys(each.name for each in FIELDS), "id": 1, "at": 1}
    assert third == java_row(id=2, at=2, s=quoted, bo=False, f=pytest.approx(1.1), x=1e300)


def test_nested_json(tmp_path: Path) -> None:
    frame = scan([source(tmp_path / "f.json", JAVA_JSON)], [ROW, MAP, ARRAY]).collect()

    assert frame.schema == {each.name: to_polars_dtype(each.type) for each in (ROW, MAP, ARRAY)}
    days = [{"key": "k", "value": dt.date(1970, 1, 4)}, {"key": "z", "value": None}]
    assert frame.rows() == [
        ({"p": 5, "q": None}, days, [1, None, 3]),
        (None, None, None),
        ({"p": 5, "q": "in"}, days, [1, None, 3]),
    ]


def test_json_numbers_as_texts_are_doubles_of_java(tmp_path: Path) -> None:
    text = t.VarCharType()
    fields = [
        NAME,
        t.DataField(2, "x", t.DoubleType()),
        t.DataField(3, "n", t.ArrayType(element=text)),
        t.DataField(4, "r", t.RowType(fields=(t.DataField(5, "s", text),))),
        t.DataField(6, "m", t.MapType(key=text, value=text)),
    ]
    lines = [
        r'{"name": 1.0, "x": 1.5, "n": [-0.0, 1e3, 7, "a: 1.0", null], "r": {"s": 12345678.5}, "m": {"1.0": 2.50}}',
        r'{"name": "say \"x\": 1.0, \\", "x": 2, "n": [1E400], "r": {"s": "y"}, "m": {}}',
        r'{"name": 12345678901234567890, "r": null}',
    ]
    assert scan([source(tmp_path / "f.json", "".join(f"{line}\n" for line in lines))], fields).collect().rows() == [
        ("1.0", 1.5, ["-0.0", "1000.0", "7", "a: 1.0", None], {"s": "1.23456785E7"}, [{"key": "1.0", "value": "2.5"}]),
        ('say "x": 1.0, \\', 2.0, ["Infinity"], {"s": "y"}, []),
        ("12345678901234567890", None, None, None, None),
    ]


@pytest.mark.parametrize("text", ['{"id":1},{"id":2}\n', "\n"])
def test_a_line_of_json_is_one_object(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unsupported, match="not one JSON object"):
        scan([source(tmp_path / "f.json", text)], [ID]).collect()


def test_json_numbers_and_missing_members(tmp_path: Path) -> None:
    file = source(tmp_path / "f.json", '{"id": 7, "more": 1}\n{}\n')

    assert scan([file], [FIELDS[0], FIELDS[2]]).collect().rows() == [(7, None), (None, None)]


@pytest.mark.parametrize("name", ["f.json", "f.csv"])
@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (t.TinyIntType(), "128"),
        (t.IntType(), "x"),
        (t.DateType(), "2024-02-30"),
        (t.TimestampType(precision=3), "2024-02-29"),
        (t.BooleanType(), "maybe"),
        (t.VarBinaryType(), "%%"),
    ],
    ids=str,
)
def test_text_that_is_no_value(tmp_path: Path, name: str, type_: t.DataType, text: str) -> None:
    line = f'{{"v":"{text}"}}\n' if name == "f.json" else f"{text}\n"

    with pytest.raises(Unsupported, match="f\\."):
        scan([source(tmp_path / name, line)], [t.DataField(0, "v", type_)]).collect()


@pytest.mark.parametrize("name", ["f.json", "f.csv"])
def test_instants_are_refused_since_the_writers_zone_is_unknown(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unsupported, match="WITH LOCAL TIME ZONE in a text format"):
        scan([source(tmp_path / name, "{}\n")], [t.DataField(0, "v", t.LocalZonedTimestampType())]).collect()


ID, NAME = t.DataField(0, "id", t.IntType()), t.DataField(1, "name", t.VarCharType())


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("1;a\n2;b\n", {"csv__field-delimiter": ";"}, [(1, "a"), (2, "b")]),
        ("1|a\n", {"delimiter": "|"}, [(1, "a")]),
        ("id,name\n1,a\n", {"csv__include-header": "true"}, [(1, "a")]),
        ("1,NULL\n2,\n", {"csv__null-literal": "NULL"}, [(1, None), (2, "")]),
        ("1,'a,b'\n", {"csv__quote-character": "'"}, [(1, "a,b")]),
        ('1,"a\\"b\\\\c"\n2,"d""e"\n', {}, [(1, 'a"b\\c'), (2, 'd"e')]),
        ("1,a\r\n2,b\r\n", {}, [(1, "a"), (2, "b")]),
        ("", {}, []),
    ],
)
def test_csv_dialects(tmp_path: Path, text: str, options: dict[str, str], rows: list[Any]) -> None:
    file = source(tmp_path / "f.csv", text, len(rows), **options)

    assert scan([file], [ID, NAME]).collect().rows() == rows


def test_csv_columns_are_named_by_the_caller(tmp_path: Path) -> None:
    file = source(
        tmp_path / "f.csv",
        "1,a\n2,\n",
        columns=tuple(t.DataField(n, c, t.VarCharType()) for n, c in enumerate(("id", "name"))),
    )

    assert scan([file], [NAME], position="at").collect().rows() == [("a", 0), (None, 1)]
    assert scan([file], [], position="at").collect()["at"].to_list() == [0, 1]
    with pytest.raises(Unsupported, match="without 'city'"):
        scan([file], [t.DataField(2, "city", t.VarCharType())]).collect()


@pytest.mark.parametrize("text", ["1\n", "1,a,b\n"])
def test_csv_lines_of_another_width(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unsupported, match=r"a line of . values, not 2"):
        scan([source(tmp_path / "f.csv", text)], [ID, NAME]).collect()


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1,dir\\", (1, "dir")),
        (r"1,\\server\share", (1, "servershare")),
        (r"1,a\\b\c", (1, "a\\bc")),
        ('1,"a\\', None),
        ('1,5"', None),
        ('1, "a"', None),
        (r'1,"x\"y\\"', (1, 'x"y\\')),
        (r'1,"\n"', (1, "n")),
        ('"1","a,""b"', (1, 'a,"b')),
        (" \t", (None, None)),
        ('1," "', (1, " ")),
    ],
)
def test_csv_lines_are_cut_as_java_cuts_them(tmp_path: Path, line: str, row: tuple[Any, ...] | None) -> None:
    file = source(tmp_path / "f.csv", f"{line}\n2,b\n", 2)

    if row is None:
        with pytest.raises(Unsupported, match="a quote neither around a value"):
            scan([file], [ID, NAME]).collect()
    else:
        assert scan([file], [ID, NAME]).collect().rows() == [row, (2, "b")]


def test_csv_of_one_column_may_have_empty_lines(tmp_path: Path) -> None:
    assert scan([source(tmp_path / "f.csv", "1\n\n3\n")], [ID]).collect()["id"].to_list() == [1, None, 3]


@pytest.mark.parametrize(
    ("text", "options", "lines"),
    [
        ("a\n\nc\n", {}, ["a", "", "c"]),
        ("a\nb", {}, ["a", "b"]),
        ("a\r\nb\rc\n", {}, ["a", "b", "c"]),
        ("\ufeffa\n", {}, ["a"]),
        ("a\nb||c||", {"text__line-delimiter": "||"}, ["a\nb", "c"]),
        ("héé\n", {}, ["héé"]),
        ("", {}, []),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 1 << 24])
def test_text(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, str],
    lines: list[str],
    chunk_bytes: int,
) -> None:
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", max(chunk_bytes, 3 if text.startswith("\ufeff") else 1))

    frame = scan([source(tmp_path / "f.text", text, len(lines), **options)], [NAME], position="at").collect()

    assert frame["name"].to_list() == lines
    assert frame["at"].to_list() == list(range(len(lines)))


def test_text_has_one_column_of_text(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="one column of text"):
        scan([source(tmp_path / "f.text", "1\n")], [ID]).collect()


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]  # pyarrow ships no types


@pytest.mark.parametrize(("extension", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("zst", zstd)])
@pytest.mark.parametrize(("name", "text"), [("f.json", '{"id":"1"}\n'), ("f.csv", "1\n")])
def test_compressed_text(tmp_path: Path, name: str, text: str, extension: str, compress: Any) -> None:
    file = source(tmp_path / f"{name}.{extension}", compress(text.encode()))

    assert scan([file], [ID]).collect().rows() == [(1,)]


def test_framings_of_hadoop_are_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="text compressed with snappy"):
        scan([source(tmp_path / "f.json.snappy", b"")], [ID]).collect()


@pytest.mark.parametrize("text", [b"\xff\xfe\n", b'{"name": \n', b"\x1f\x8b"])
def test_garbage_is_a_corrupt_file(tmp_path: Path, text: bytes) -> None:
    with pytest.raises((CorruptFile, Unsupported), match=r"f\.json"):
        scan([source(tmp_path / "f.json", text)], [NAME]).collect()


def test_filters_and_limits(tmp_path: Path) -> None:
    file = source(tmp_path / "f.json", "".join(f'{{"id":"{i}"}}\n' for i in range(100)), 100)

    assert scan([file], [ID]).filter(pl.col("id") >= 98).collect()["id"].to_list() == [98, 99]
    assert scan([file], [ID]).head(3).collect()["id"].to_list() == [0, 1, 2]
