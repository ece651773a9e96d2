"""Tables by other writers are read or refused by name, and never called damaged."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import morrow
from morrow.doctor.report import Severity
from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.buckets import compute_buckets
from tests.support.data_files import FORMATS
from tests.support.table_factory import TableFactory
from tests.support.written import new_table
from tests.test_corruption import rewrite

TEXTS = [("id", "INT"), ("v", "STRING")]
Write = Callable[[pa.Table, Path], None]


def stored_by(write: Write, monkeypatch: pytest.MonkeyPatch, folder: Path, fields: Any, rows: pa.Table) -> morrow.Table:
    """Return a table with one data file that `write` has written."""
    monkeypatch.setitem(FORMATS, "parquet", lambda table, _fields, path, _size: write(table, path))
    factory = TableFactory(folder / "t", fields)
    factory.write_file(rows, value_stats=False)
    factory.commit()
    return morrow.open(folder / "t")


def write_shredded(table: pa.Table, path: Path) -> None:
    """Write variants that consist of the member ``n``, whose number is stored separately."""
    rows = [
        {"metadata": variant["metadata"], "typed_value": {"n": {"typed_value": 5}}}
        for variant in table["v"].to_pylist()
    ]
    kind = pa.struct({"value": pa.binary(), "metadata": pa.binary(), "typed_value": pa.struct({"n": SHREDDED})})
    pq.write_table(table.set_column(1, pa.field("v", kind), pa.array(rows, kind)), path)


SHREDDED = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])


def write_encrypted(table: pa.Table, path: Path, plain_footer: bool = False) -> None:
    class Keys(pe.KmsClient):
        def __init__(self, _config: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _name: str) -> bytes:
            return base64.b64encode(key)

    properties = pe.CryptoFactory(Keys).file_encryption_properties(
        pe.KmsConnectionConfig(),
        pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=plain_footer),
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def write_bytes_as_text(table: pa.Table, path: Path) -> None:
    """Write the text ``\\xff``, which results if Spark casts bytes."""
    buffers = [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    pq.write_table(table.set_column(1, "v", pa.Array.from_buffers(pa.string(), 1, buffers)), path)


def write_without_a_column(table: pa.Table, path: Path) -> None:
    pq.write_table(table.select(["id"]), path)


VARIANT = [t.DataField(0, "id", t.IntType()), t.DataField(1, "v", t.VariantType())]
NO_NAMES, NAME_N = b"\x01\x00\x00", b"\x01\x01\x00\x01n"
"""Metadata of variants: the names of their members."""


@pytest.mark.parametrize(
    ("write", "fields", "value", "told"),
    [
        (write_encrypted, TEXTS, "a", "an encrypted file"),
        (partial(write_encrypted, plain_footer=True), TEXTS, "a", "an encrypted file"),
        (write_bytes_as_text, TEXTS, "a", "text that is not UTF-8"),
        (write_without_a_column, TEXTS, "a", "a file without the column 'v'"),
    ],
    ids=["encrypted", "an encrypted column", "bytes as text", "a column less"],
)
def test_sound_files_that_are_not_read(
    write: Write, fields: Any, value: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([value], VARIANT_OR_TEXT[type(value)])})
    table = stored_by(write, monkeypatch, tmp_path, fields, rows)

    for read in (table.to_arrow, table.scan().lazy().collect, table.scan().verify):
        with pytest.raises(Unsupported, match=rf"-0\.parquet: {told} is not supported; ") as refused:
            read()
        assert "backup" not in str(refused.value)
    findings = [finding for finding in table.doctor(data=True).findings if finding.check == "data"]
    assert [told in finding.what for finding in findings] == [True]
    assert "backup" not in findings[0].what + findings[0].remedy


VARIANT_OR_TEXT = {dict: pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), str: pa.string()}


def of_shredded(metadata: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> morrow.Table:
    value = {"value": b"\x0c\x05", "metadata": metadata}
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([value], VARIANT_OR_TEXT[dict])})
    return stored_by(write_shredded, monkeypatch, folder, VARIANT, rows)


def test_shredded_variants_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = of_shredded(NAME_N, tmp_path, monkeypatch)
    stored = [{"value": b"\x02\x01\x00\x00\x02\x0c\x05", "metadata": NAME_N}]

    for read in (table.to_arrow, table.scan(["v"], "id = 1").to_arrow):
        assert read()["v"].to_pylist() == stored
    for found in (
        table.to_polars(),
        table.scan().lazy().collect(),
        pl.concat(map(pl.DataFrame, table.scan().to_batches())),
    ):
        assert found["v"].to_list() == stored
    assert table.scan().to_dicts() == [{"id": 1, "v": {"n": 5}}]
    assert table.scan().verify() == 1
    assert table.doctor(data=True).healthy


def test_shredded_variants_whose_metadata_lacks_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = of_shredded(NO_NAMES, tmp_path, monkeypatch)

    reads = (table.to_arrow, table.scan(filter="id = 1").to_polars, table.scan().lazy().collect, table.scan().to_dicts)
    for read in (*reads, lambda: list(table.scan().to_batches()), table.scan().verify):
        with pytest.raises(CorruptFile, match=r"-0\.parquet: a VARIANT in the column 'v': .* lacks the name 'n'"):
            read()
    findings = [finding for finding in table.doctor(data=True).findings if finding.check == "data"]
    assert ["lacks the name 'n'" in finding.what for finding in findings] == [True]


def test_vectors_are_lists_where_java_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_lists(table: pa.Table, path: Path) -> None:
        pq.write_table(table.set_column(1, "v", table["v"].cast(pa.list_(pa.float32()))), path, store_schema=False)

    fields = [t.DataField(0, "id", t.IntType()), t.DataField(1, "v", t.VectorType(element=t.FloatType(), length=2))]
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([[0.5, 1.5], None], pa.list_(pa.float32(), 2))})
    table = stored_by(write_lists, monkeypatch, tmp_path, fields, rows)

    assert table.to_arrow()["v"].to_pylist() == [[0.5, 1.5], None]
    assert table.doctor(data=True).healthy


def test_counts_of_nulls_that_are_not_those_of_the_blobs(golden_root: Path, tmp_path: Path) -> None:
    """pypaimon streams blobs and writes a wrong null count."""
    folder = shutil.copytree(golden_root / "public/blob/warehouse/db.db/t", tmp_path / "t")
    nulls = morrow.open(folder).count("pic IS NULL")

    def uncount(record: dict[str, Any]) -> None:
        if record["_FILE"]["_FILE_NAME"].endswith(".blob"):
            record["_FILE"]["_VALUE_STATS"]["_NULL_COUNTS"] = [7]

    rewrite(folder, "manifest", uncount)
    morrow.clear_caches()
    table = morrow.open(folder)

    assert table.count("pic IS NULL") == nulls == 0
    assert table.doctor(data=True).healthy


def test_a_key_that_is_the_partition_key(tmp_path: Path) -> None:
    """pypaimon creates such tables; Java does not load them."""
    factory = TableFactory(tmp_path / "t", [("day", "INT"), ("n", "BIGINT")], ["day"], ["day"])
    factory.write_file(pa.table({"day": [1], "n": [10]}), partition={"day": 1})
    factory.commit()

    with pytest.raises(Unsupported, match=r"key.* partition keys is not supported; copy its rows into a table with"):
        morrow.open(tmp_path / "t").to_arrow()


def test_appends_after_a_snapshot_that_does_not_count_its_rows(tmp_path: Path) -> None:
    """Some versions of pypaimon, and Paimon before 0.4, do not count rows."""
    factory = TableFactory(tmp_path / "t", TEXTS)
    factory.write_file(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    snapshot = tmp_path / "t/snapshot" / f"snapshot-{factory.commit()}"
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"totalRecordCount": None}))

    table = morrow.open(tmp_path / "t")
    table.append([{"id": 3, "v": "c"}])

    assert table.snapshots()[-1].total_record_count == 3
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_keys_in_the_buckets_of_pypaimon_1_3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It took the MD5 of a key, stored row kinds as INT, and recorded a least sequence number that is one too low."""
    monkeypatch.setitem(FORMATS, "parquet", lambda table, _fields, path, _size: write_int_kinds(table, path))
    factory = TableFactory(tmp_path / "t", [("k", "INT"), ("v", "STRING")], ["k"], options={"bucket": "4"})
    for keys in (range(20), range(10)):
        for bucket in range(4):
            mine = [key for key in keys if md5_bucket(key, 4) == bucket]
            file = factory.write_file(pa.table({"k": mine, "v": list(map(str, mine))}), bucket=bucket, sequence_start=1)
            file.record["_MIN_SEQUENCE_NUMBER"] = 0
        factory.commit()
    table = morrow.open(tmp_path / "t")
    assert [table.scan(filter=f"k = {key}").to_arrow().num_rows for key in range(20)] == [1] * 20
    (finding,) = [each for each in table.doctor(data=True).findings if each.severity == Severity.ERROR]
    assert (finding.where, finding.remedy) == ("buckets", "`Table.rescale(4)`")
    for write in (table.upsert, table.delete):
        with pytest.raises(Unsupported, match=r"keys lie in other buckets .*table.rescale\(4\)"):
            write([{"k": 1, "v": "new"}] if write == table.upsert else "k = 1")

    table.rescale(4)
    table.upsert([{"k": 1, "v": "new"}])
    assert table.delete("k = 2") is not None
    assert "by bucket" in str(table.scan(filter="k = 1").explain())
    expected = {key: str(key) for key in range(20) if key != 2} | {1: "new"}
    assert dict(zip(*table.to_arrow().sort_by("k").to_pydict().values())) == expected
    assert table.doctor(data=True).healthy


def test_char_keys_in_orc_files_are_found_without_their_blanks(tmp_path: Path) -> None:
    """ORC drops trailing blanks of CHAR; bounds of keys, hashes of buckets and indexes have them."""
    kinds = [("k", "CHAR(4)"), ("c", "CHAR(3)")]
    factory = TableFactory(tmp_path / "t", kinds, primary_keys=["k"], options={"bucket": "4", "file.format": "orc"})
    stored = [f"{letter}   " for letter in "abcdefgh"] + ["zulu"]
    buckets = compute_buckets([pl.Series(stored)], [t.CharType(length=4)], 4)
    for bucket in range(4):
        rows = [key for key, number in zip(stored, buckets) if number == bucket]
        factory.write_file(pa.table({"k": rows, "c": ["x  "] * len(rows)}), bucket=bucket, format="orc", level=5)
    factory.commit()
    table = morrow.open(tmp_path / "t")
    for key in map(str.strip, stored):
        assert table.get(key) == {"k": key, "c": "x"}
        assert table.count(f"k = '{key}'") == table.count(f"k LIKE '{key}%' AND c IN ('x', 'y')") == 1
    assert table.count("k <> 'a'") == table.count("k > 'a'") == 8
    assert table.count("c = 'x'") == 9
    for write in (lambda: table.upsert([{"k": "a"}]), lambda: table.delete("k = 'a'")):
        with pytest.raises(Unsupported, match="CHAR keys with trailing blanks, which ORC drops"):
            write()


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_orc_files_take_no_char_keys_that_they_would_change(tmp_path: Path, format: str) -> None:
    options = {"bucket": "2", "file.format": format}
    table = new_table(tmp_path, "k CHAR(4), c CHAR(4)", keys=["k"], options=options)
    table.upsert([{"k": "a", "c": "b "}])
    if format == "orc":
        with pytest.raises(InvalidArgument, match=r"'k': orc files drop trailing blanks .* the key 'a   ' has some"):
            table.upsert([{"k": "a   "}])
        return
    table.upsert([{"k": "a   "}])
    assert table.count() == 2


def md5_bucket(key: int, count: int) -> int:
    return int(hashlib.md5(json.dumps([key]).encode()).hexdigest(), 16) % count


def write_int_kinds(table: pa.Table, path: Path) -> None:
    at = table.column_names.index("_VALUE_KIND")
    pq.write_table(table.set_column(at, "_VALUE_KIND", table["_VALUE_KIND"].cast("int32")), path)
