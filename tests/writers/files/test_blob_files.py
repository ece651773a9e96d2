"""Blob files that Morrow writes: read back by the reader of blob files, whose rows are those of pypaimon."""

from __future__ import annotations

import datetime as dt
import io
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import FileMissing, InvalidArgument, UnsafePath
from morrow.engine.format.blob_layout import MAGIC, decode_zigzag_varints, encode_zigzag_varints
from morrow.engine.format.blobs import BlobDescriptor, BlobView
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.writers.files import blob_files

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def make_table(path: Path, columns: str, options: Mapping[str, str] = MappingProxyType({})) -> morrow.Table:
    catalog = morrow.Catalog(path / "lake")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", columns, options={**EVOLVING, **options})


def read(table: morrow.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@given(st.lists(st.integers(-2, 1 << 62)))
def test_lengths_come_back(lengths: list[int]) -> None:
    assert np.cumsum(decode_zigzag_varints(encode_zigzag_varints(lengths), "f")).tolist() == lengths


def test_values_are_bytes_paths_streams_and_parts_of_files(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB, gallery ARRAY<BLOB>, named MAP<STRING, BLOB>")
    file = tmp_path / "picture"
    file.write_bytes(b"picture" * 1000)

    def opened() -> io.BytesIO:
        return io.BytesIO(b"opened")

    part = morrow.Blob.from_path(file, 7, 3)
    rows = [
        {"id": 1, "pic": b"bytes", "gallery": [b"a", None, b""], "named": {"k": b"v", "none": None}},
        {"id": 2, "pic": file, "gallery": [file, part], "named": {"": file}},
        {"id": 3, "pic": io.BytesIO(b"stream"), "gallery": [], "named": {}},
        {"id": 4, "pic": morrow.Blob.from_stream(opened), "gallery": None, "named": None},
        {"id": 5, "pic": None, "gallery": [None], "named": {"x": part}},
        {"id": 6, "pic": morrow.Blob.from_url(file.as_uri()), "gallery": None, "named": None},
    ]
    table.append(rows)

    whole = file.read_bytes()
    pictures = [b"bytes", whole, b"stream", b"opened", None, whole]
    assert [row["pic"] for row in read(table)] == pictures
    assert [row["gallery"] for row in read(table)] == [[b"a", None, b""], [whole, b"pic"], [], None, [None], None]
    assert read(table)[1]["named"] == [("", whole)]
    assert read(table)[2]["named"] == []
    files = {file.path.rpartition(".")[2]: file for file in table.scan().plan.files}
    assert files["parquet"].write_columns == ("id",)
    assert {file.write_columns for file in table.scan().plan.files} == {("id",), ("pic",), ("gallery",), ("named",)}
    assert table.scan().verify() == 4


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("TINYINT", [-128, 0, 127]),
        ("BIGINT", [-(2**63), 2**63 - 1]),
        ("BOOLEAN", [True, False]),
        ("DECIMAL(5, 2)", [Decimal("-9.99"), Decimal("1.20")]),
        ("DECIMAL(38, 0)", [Decimal(10**37), Decimal(-128), Decimal(127), Decimal(128), Decimal(-129)]),
        ("DATE", [dt.date(1960, 2, 29), dt.date(9999, 1, 1)]),
        ("TIME(3)", [dt.time(0, 0), dt.time(23, 59, 59, 999000)]),
        ("BYTES", [b"", b"\0"]),
        ("STRING", ["", "é", "\U0001f600"]),
    ],
)
def test_keys_of_maps(tmp_path: Path, kind: str, keys: list[Any]) -> None:
    table = make_table(tmp_path, f"id INT, m MAP<{kind}, BLOB>")
    entries = [(key, None if number == 1 else b"%d" % number) for number, key in enumerate(keys)]
    table.append([{"id": 1, "m": entries}])
    assert read(table)[0]["m"] == entries


def test_files_end_together_and_blob_files_earlier(tmp_path: Path) -> None:
    table = make_table(
        tmp_path, "id INT, v BIGINT, pic BLOB", {"target-file-size": "4 kb", "blob.target-file-size": "1 kb"}
    )
    ids = pa.array(range(3000), pa.int32())
    rows = pa.table(
        {"id": ids, "v": np.random.default_rng(7).integers(0, 1 << 62, 3000), "pic": [b"%d" % i for i in range(3000)]}
    )
    table.append(rows.cast(pa.schema([("id", pa.int32()), ("v", pa.int64()), ("pic", pa.large_binary())])))

    files = sorted(table.scan().plan.files, key=lambda file: (file.first_row_id or 0, file.format))
    data, blobs = ([f for f in files if f.format == kind] for kind in ("parquet", "blob"))
    assert len(data) > 1
    assert len(blobs) > 2 * len(data)
    for file in data:
        first, inside = (
            file.first_row_id or 0,
            [f for f in blobs if 0 <= (f.first_row_id or 0) - (file.first_row_id or 0) < file.row_count],
        )
        assert sum(f.row_count for f in inside) == file.row_count
        assert inside[0].first_row_id == first
    assert {row["id"]: row["pic"] for row in read(table)} == {i: b"%d" % i for i in range(3000)}


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 19), min_size=1), st.none() | st.binary(max_size=3), st.booleans()), max_size=4
    )
)
def test_updates_leave_placeholders(
    tmp_path_factory: pytest.TempPathFactory, updates: list[tuple[set[int], bytes | None, bool]]
) -> None:
    table = make_table(tmp_path_factory.mktemp("t"), "id INT, n INT, a BLOB, b BLOB")
    table.append([{"id": i, "n": 0, "a": b"%d" % i, "b": b"b"} for i in range(12)])
    table.append([{"id": i, "n": 0, "a": b"%d" % i, "b": b"b"} for i in range(12, 20)])
    expected = {i: b"%d" % i if i else b"0" for i in range(20)}
    for ids, value, compacts in updates:
        text = "NULL" if value is None else "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        table.update({"a": text, "n": "n + 1"}, f"id IN ({', '.join(map(str, ids))})")
        expected |= dict.fromkeys(ids, value)
        if compacts:
            table.compact()

    assert {row["id"]: row["a"] for row in read(table)} == expected
    assert {row["b"] for row in read(table)} == {b"b"}
    assert {row["id"]: row["n"] for row in read(table)} == {
        i: sum(i in ids for ids, _, _ in updates) for i in range(20)
    }


def test_an_update_of_other_columns_reads_no_blob(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, n INT, pic BLOB")
    table.append([{"id": i, "n": 0, "pic": b"%d" % i} for i in range(3)])
    for file in table.scan().plan.files:
        if file.format == "blob":
            content = Path(file.path).read_bytes()
            Path(file.path).write_bytes(b"\xff" * 8 + content[8:])  # any value read would be corrupt
    table.update({"n": "id + 1"}, "id > 0")
    assert table.scan(["n"]).to_polars()["n"].to_list() == [0, 2, 3]
    table.update({"pic": None}, "id = 0")
    assert table.scan(["pic"], "id = 0").to_polars()["pic"].to_list() == [None]


def test_a_merge_copies_blobs(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB, copy BLOB, size INT")
    table.append([{"id": i, "pic": b"x" * i, "copy": None, "size": 0} for i in range(4)])
    table.update({"copy": "pic", "size": "octet_length(pic)"}, "octet_length(pic) > 1")
    assert [(row["copy"], row["size"]) for row in read(table)] == [(None, 0), (None, 0), (b"xx", 2), (b"xxx", 3)]


def test_values_that_are_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB")
    outside = BlobDescriptor(str(tmp_path / "secret")).encode()
    stream = io.BytesIO(b"x")
    for value, error, words in [
        ("https://example.com/x", InvalidArgument, "Blob.from_url"),
        (tmp_path / "absent", FileMissing, "absent"),
        (outside, UnsafePath, "allowed_roots"),
    ]:
        with pytest.raises(error, match=words):
            table.append([{"id": 1, "pic": value}])
    table.append([{"id": 1, "pic": stream}])
    assert table.scan().count() == 1
    assert sorted({path.suffix for path in Path(table.path).glob("bucket-0/*")}) == [".blob", ".parquet"]
    assert len(list(Path(table.path).glob("bucket-0/*"))) == 2, "failed writes leave no files"


def test_absent_files_become_null_if_the_option_says_so(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB", {"blob-write-null-on-missing-file": "true"})
    table.append([{"id": 1, "pic": tmp_path / "absent"}])
    assert read(table) == [{"id": 1, "pic": None}]


def test_descriptors_and_views_are_stored_in_data_files(tmp_path: Path) -> None:
    file = tmp_path / "external"
    file.write_bytes(b"0123456789")
    table = make_table(
        tmp_path, "id INT, d BLOB, v BLOB, pic BLOB", {"blob-descriptor-field": "d", "blob-view-field": "v"}
    )
    table.append([{"id": 1, "d": None, "v": None, "pic": b"seen"}])
    pic = next(field.id for field in table.scan().fields if field.name == "pic")
    table.append([{"id": 2, "d": morrow.Blob.from_path(file, 2, 3), "v": BlobView("db.t", pic, 0), "pic": None}])

    with pytest.raises(UnsafePath, match="allowed_roots"):
        table.scan(["d"]).to_polars()
    trusting = morrow.open(table.path, allowed_roots=[file])
    assert read(trusting)[1] == {"id": 2, "d": b"234", "v": b"seen", "pic": None}
    assert [row["v"] and row["v"].read(1, 2) for row in table.scan(["v"]).rows()] == [None, b"ee"]
    for name in ("d", "v"):
        with pytest.raises(InvalidArgument, match="no bytes"):
            table.append([{"id": 3, name: b"raw"}])


def test_comments_and_options_declare_blobs(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path / "lake")
    catalog.create_database("db")
    catalog.sql(
        "CREATE TABLE db.t (id INT, a BYTES COMMENT '__BLOB_FIELD; picture', "
        "b BYTES COMMENT '__BLOB_DESCRIPTOR_FIELD', c MAP<INT, BYTES> COMMENT '__BLOB_FIELD', d BYTES) "
        "WITH ('row-tracking.enabled' = 'true', "
        "'data-evolution.enabled' = 'true', 'blob-field' = 'd')"
    )
    table = catalog.table("db.t")
    assert [str(field.type) for field in table.scan().fields] == ["INT", "BLOB", "BLOB", "MAP<INT, BLOB>", "BLOB"]
    assert [field.description for field in table.scan().fields][:2] == [None, "picture"]
    options = table.options
    assert (options["blob-field"], options["blob-descriptor-field"]) == ("d,a,c", "b")


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id INT, a ROW<b BLOB>", {}, "only BLOB, ARRAY<BLOB>, MAP<K, BLOB>"),
        ("a BLOB", {}, "a column that is not a BLOB"),
        ("id INT, a ARRAY<BLOB>", {"blob-descriptor-field": "a"}, "not a BLOB"),
        ("id INT, a BLOB", {"blob-descriptor-field": "a", "blob-view-field": "a"}, "twice"),
        ("id INT, a INT", {"blob-field": "a"}, "cannot be a BLOB"),
    ],
)
def test_schemas_that_are_refused(tmp_path: Path, columns: str, options: dict[str, str], words: str) -> None:
    catalog = morrow.Catalog(tmp_path / "lake")
    catalog.create_database("db")
    with pytest.raises(InvalidArgument, match=words):
        catalog.create_table("db.t", columns, options=EVOLVING | options)


def test_frames_of_libraries(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB, gallery ARRAY<BLOB>")
    frame = pl.DataFrame({"id": [1], "pic": [b"p"], "gallery": [[b"g", None]]}, schema_overrides={"id": pl.Int32})
    for data in (frame, frame.lazy(), frame.to_arrow(), iter([frame, frame])):
        table.append(data)
    assert read(table) == [{"id": 1, "pic": b"p", "gallery": [b"g", None]}] * 5


SPARSE_VALUES, SPARSE_BYTES = 100, 1 << 30
READ_SPARSE = """
import sys, duckdb, morrow
table = morrow.open(sys.argv[1])
described = table.with_options({"blob-as-descriptor": "true"})
assert table.scan(["id"]).to_polars().height == table.scan().count() == 100
assert sum(batch.num_rows for batch in described.scan().to_batches()) == 100
assert sum(row["pic"].size + 16 for row in table.scan().rows()) == 100 << 30
assert [row["pic"].read(1000, 3) for row in table.scan(filter="id < 3").rows()] == [b"000", b"001", b"002"]
assert table.scan().to_duckdb(duckdb.connect()).aggregate("sum(id)").fetchall() == [(4950,)]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
assert int(peak.split()[1]) < 400 << 10, peak
"""


def test_a_table_of_100_gb_is_scanned_in_400_mb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are ranges of a sparse file, which takes no room on the disk."""

    def close(writer: blob_files.ColumnWriter, first_row_id: int | None = None) -> list[DataFileMeta]:  # noqa: ARG001
        folder = Path(table.path) / "bucket-0"
        folder.mkdir(exist_ok=True)
        index = encode_zigzag_varints([SPARSE_BYTES] * SPARSE_VALUES)
        with (folder / "data-sparse-1.blob").open("wb") as file:
            for number in range(SPARSE_VALUES):
                file.seek(number * SPARSE_BYTES + len(MAGIC) + 1000)
                file.write(b"%03d" % number)
            file.seek(SPARSE_VALUES * SPARSE_BYTES)
            file.write(index + len(index).to_bytes(4, "little") + b"\1")
            size = file.tell()
        return [
            DataFileMeta(
                file_name="data-sparse-1.blob",
                file_size=size,
                row_count=SPARSE_VALUES,
                min_sequence_number=0,
                max_sequence_number=0,
                schema_id=0,
                level=0,
                creation_time=0,
                value_stats_cols=(),
                write_cols=("pic",),
            )
        ]

    table = make_table(tmp_path, "id INT, pic BLOB")
    monkeypatch.setattr(blob_files.ColumnWriter, "write", lambda *_: None)
    monkeypatch.setattr(blob_files.ColumnWriter, "close", close)
    table.append([{"id": id, "pic": b""} for id in range(SPARSE_VALUES)])
    subprocess.run([sys.executable, "-c", READ_SPARSE, table.path], check=True, timeout=120)


def test_streams_that_give_no_bytes_and_parts_before_a_file_are_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path, "id INT, pic BLOB")
    closed = io.BytesIO(b"closed")
    closed.close()
    for stream in (io.StringIO("text"), closed):
        with pytest.raises(InvalidArgument, match=r"a stream of a BLOB: .*give an open file of bytes"):
            table.append([{"id": 1, "pic": stream}])
    for offset, length in ((-1, None), (0, -1)):
        with pytest.raises(InvalidArgument, match="begins at 0 or above and has no negative length"):
            morrow.Blob.from_path(tmp_path, offset, length)
    assert table.count() == 0
