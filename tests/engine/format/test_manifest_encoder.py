"""Encoded manifests: decoders read all containers, and Java would write the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import avro_encoder, manifest_encoder
from morrow.engine.format.avro import read_container
from morrow.engine.format.manifest import decode_index_manifest, decode_manifest, decode_manifest_list
from morrow.engine.format.manifest_encoder import (
    INDEX_MANIFEST,
    MANIFEST,
    MANIFEST_LIST,
    StoredSchema,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from morrow.engine.format.manifest_entries import (
    MANIFEST_LIST_COLUMNS,
    DataFileMeta,
    DeletionRange,
    EntryKind,
    IndexEntry,
    IndexFileMeta,
    ManifestEntry,
    SimpleStats,
    index_entries_of,
    index_frame,
    to_entries,
    to_entry_frame,
)

FORMATS = ["avro", "parquet", "orc"]
AVRO_CODECS = ["zstd", "snappy", "deflate", "bzip2", "null"]
SCHEMAS = json.loads((Path(__file__).parents[2] / "support" / "avro_schemas.json").read_text())
PATH = "t/manifest/manifest-a-0"

ENTRY = ManifestEntry(
    EntryKind.ADD,
    partition=b"\0\0\0\1 partition",
    bucket=3,
    total_buckets=4,
    file=DataFileMeta(
        file_name="data-ü-0.parquet",
        file_size=2**40,
        row_count=3,
        min_sequence_number=-1,
        max_sequence_number=2**63 - 1,
        schema_id=0,
        level=5,
        key_stats=SimpleStats(b"\0\0\0\1min", b"\0\0\0\1max", (0, None)),
        extra_files=("a.index", "b.index"),
        creation_time=1_715_688_000_123,
        delete_row_count=None,
        embedded_file_index=b"",
        file_source=None,
        value_stats_cols=(),
        write_cols=("k", "v"),
    ),
)
INDEX = IndexEntry(
    EntryKind.ADD,
    partition=bytes(12),
    bucket=0,
    file=IndexFileMeta(
        index_type="DELETION_VECTORS",
        file_name="index-a-0",
        file_size=35,
        row_count=2,
        deletion_ranges=(DeletionRange("data-a-0.orc", 1, 22, 5), DeletionRange("data-a-1.orc", 31, 22, None)),
    ),
)
LISTED = pl.DataFrame(
    {
        "_VERSION": [2, 2],
        "_FILE_NAME": ["manifest-a-0", "manifest-a-1"],
        "_FILE_SIZE": [1200, 0],
        "_NUM_ADDED_FILES": [2, 0],
        "_NUM_DELETED_FILES": [1, 1],
        "_PARTITION_STATS": [{"_MIN_VALUES": b"\1", "_MAX_VALUES": b"\2", "_NULL_COUNTS": [0, None]}] * 2,
        "_SCHEMA_ID": [0, 2**40],
        "_MIN_BUCKET": [0, None],
        "_MAX_BUCKET": [-2, None],
        "_MIN_LEVEL": [0, None],
        "_MAX_LEVEL": [5, None],
        "_MIN_ROW_ID": [7, None],
        "_MAX_ROW_ID": [None, None],
    },
    schema=MANIFEST_LIST_COLUMNS,
)


@pytest.mark.parametrize("format", FORMATS)
def test_every_kind_of_file_reads_back(format: str) -> None:
    entries, index = to_entry_frame([ENTRY]), index_frame([INDEX])

    assert decode_manifest(encode_manifest(entries, format, "zstd"), PATH).equals(entries)
    assert decode_index_manifest(encode_index_manifest(index, format, "zstd"), PATH).equals(index)
    assert decode_manifest_list(encode_manifest_list(LISTED, format, "zstd"), PATH).equals(LISTED)


@pytest.mark.parametrize("format", FORMATS)
def test_files_without_entries(format: str) -> None:
    assert decode_manifest(encode_manifest(to_entry_frame([]), format, "zstd"), PATH).height == 0
    assert decode_index_manifest(encode_index_manifest(index_frame([]), format, "zstd"), PATH).height == 0
    assert decode_manifest_list(encode_manifest_list(LISTED[:0], format, "zstd"), PATH).height == 0


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_codecs_of_avro(codec: str) -> None:
    data = encode_manifest(to_entry_frame([ENTRY]), "avro", codec)

    assert read_container(data, where=PATH).codec == {"zstd": "zstandard"}.get(codec, codec)
    assert to_entries(decode_manifest(data, PATH)) == [ENTRY]


def test_blocks_are_closed_at_64000_bytes() -> None:
    entries = pl.concat([to_entry_frame([ENTRY])] * 2_000)
    container = read_container(encode_manifest(entries, "avro", "null"), where=PATH)
    row = container.blocks[-1].size // container.blocks[-1].rows

    assert all(0 <= block.size - 64_000 < row for block in container.blocks[:-1])
    assert container.rows == 2_000


def test_global_indexes_are_kept() -> None:
    members = {
        "_ROW_RANGE_START": 0,
        "_ROW_RANGE_END": 9,
        "_INDEX_FIELD_ID": 1,
        "_EXTRA_FIELD_IDS": [2],
        "_INDEX_META": b"m",
    }
    plain = index_frame([INDEX, INDEX])
    index = plain.with_columns(pl.Series("_GLOBAL_INDEX", [members, None], dtype=plain.schema["_GLOBAL_INDEX"]))

    for format in FORMATS:
        assert decode_index_manifest(encode_index_manifest(index, format, "zstd"), PATH).equals(index)


# Random entries


def _names(most: int = 3) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=most).map(tuple)


LONGS = st.integers(-(2**63), 2**63 - 1)
STATS = st.builds(
    SimpleStats,
    st.binary(max_size=40),
    st.binary(max_size=40),
    st.lists(st.none() | LONGS, max_size=3).map(tuple),
)
ENTRIES = st.builds(
    ManifestEntry,
    st.sampled_from(EntryKind),
    st.binary(max_size=40),
    st.integers(-2, 1000),
    st.integers(1001, 2**31 - 1) | st.integers(-2, 0),  # more than any bucket, or a table without a number of buckets
    st.builds(
        DataFileMeta,
        file_name=st.text(st.characters(codec="utf-8"), max_size=60),
        file_size=st.integers(2**20, 2**40),
        row_count=st.integers(0, 2**20),
        min_key=st.binary(max_size=40),
        max_key=st.binary(max_size=40),
        key_stats=STATS,
        value_stats=STATS,
        min_sequence_number=st.integers(-(2**63), 0),
        max_sequence_number=st.integers(0, 2**63 - 1),
        schema_id=LONGS,
        level=st.integers(0, 100),
        extra_files=_names(),
        creation_time=st.integers(0, 2**42),
        delete_row_count=st.none() | st.just(0),
        embedded_file_index=st.none() | st.binary(max_size=300),
        file_source=st.none() | st.integers(0, 1),
        value_stats_cols=st.none() | _names(),
        external_path=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
        first_row_id=st.none() | LONGS,
        write_cols=st.none() | _names(),
    ),
)


@settings(max_examples=settings().max_examples // 2)  # six entries already mean hundreds of drawn values
@given(entries=st.lists(ENTRIES, min_size=1, max_size=6), format=st.sampled_from(FORMATS))
def test_any_entries_read_back(entries: list[ManifestEntry], format: str) -> None:
    data = encode_manifest(to_entry_frame(entries), format, "zstd")

    assert to_entries(decode_manifest(data, PATH)) == entries


def test_index_entries_read_back() -> None:
    data = encode_index_manifest(index_frame([INDEX]), "avro", "zstd")

    assert index_entries_of(decode_index_manifest(data, PATH)) == [INDEX]


# Manifests that Java wrote


@pytest.mark.parametrize(
    ("name", "schema"), [("manifest", MANIFEST), ("manifest_list", MANIFEST_LIST), ("index_manifest", INDEX_MANIFEST)]
)
def test_the_avro_schema_is_that_of_java(name: str, schema: StoredSchema) -> None:
    expected = SCHEMAS[name]
    written = json.loads(schema.avro)

    assert [member["name"] for member in written["fields"]] == [member["name"] for member in expected["fields"]]


Codec = tuple[Callable[[bytes, str], pl.DataFrame], Callable[[pl.DataFrame, str, str], bytes], StoredSchema]
KINDS: dict[str, Codec] = {
    "manifest-list-": (decode_manifest_list, encode_manifest_list, MANIFEST_LIST),
    "index-manifest-": (decode_index_manifest, encode_index_manifest, INDEX_MANIFEST),
    "manifest-": (decode_manifest, encode_manifest, MANIFEST),
}


def test_avro_files_of_java_come_out_byte_for_byte(golden_root: Path) -> None:
    seen = 0
    for file in sorted((golden_root / "public").glob("[cm]*/warehouse/db.db/t/manifest/*")):
        data = file.read_bytes()
        if not data.startswith(b"Obj"):
            continue
        decode, encode, schema = next(kind for prefix, kind in KINDS.items() if file.name.startswith(prefix))
        of_java = read_container(data, where=str(file))
        again = read_container(encode(decode(data, str(file)), "avro", of_java.codec), where="again")

        assert of_java.schema == schema.avro
        assert [bytes(again.payload(b)) for b in again.blocks] == [bytes(of_java.payload(b)) for b in of_java.blocks]
        seen += 1
    assert seen > 400


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_files_of_java_in_other_formats_have_the_same_columns(golden_root: Path, format: str) -> None:
    folder = golden_root / "public" / f"manifest_{format}" / "warehouse" / "db.db" / "t" / "manifest"
    for file in sorted(folder.iterdir()):
        decode, encode, _ = next(kind for prefix, kind in KINDS.items() if file.name.startswith(prefix))
        frame = decode(file.read_bytes(), str(file))

        assert decode(encode(frame, format, "zstd"), "again").equals(frame)
        if format == "parquet":
            assert _parquet_schema(encode(frame, format, "zstd")) == _parquet_schema(file.read_bytes())


def _parquet_schema(data: bytes) -> list[tuple[Any, ...]]:
    schema = pq.ParquetFile(pa.BufferReader(data)).schema
    columns = [schema.column(i) for i in range(len(schema))]
    return [(c.path, c.physical_type, str(c.logical_type), c.max_definition_level) for c in columns]


# Refused manifests


def test_a_format_or_codec_that_nobody_knows() -> None:
    entries = to_entry_frame([ENTRY])
    with pytest.raises(Unsupported, match="the manifest format 'csv' is not supported; known are avro, parquet, orc"):
        encode_manifest(entries, "csv", "zstd")
    for format in FORMATS:
        with pytest.raises(Unsupported, match="codec 'arj'"):
            encode_manifest(entries, format, "arj")


@pytest.mark.parametrize("format", FORMATS)
def test_a_null_where_the_format_has_none(format: str) -> None:
    entries = to_entry_frame([ENTRY]).with_columns(pl.lit(None, pl.Binary).alias("_PARTITION"))

    with pytest.raises(InvalidArgument, match="_PARTITION"):
        encode_manifest(entries, format, "zstd")


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_is_missing(format: str) -> None:
    with pytest.raises(InvalidArgument, match="the column '_SCHEMA_ID'"):
        encode_manifest_list(LISTED.drop("_SCHEMA_ID"), format, "zstd")


# Few rows are encoded one by one, many rows by columns


def _encode_columns(table: pa.Table, record: dict[str, object]) -> bytes:
    pieces = avro_encoder._encode_members({name: table[name].combine_chunks() for name in table.column_names}, record)
    return b"".join(avro_encoder._join_pieces(pieces, table.num_rows).to_pylist())


def test_single_rows_have_the_bytes_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[tuple[pl.DataFrame, StoredSchema]] = []
    avro = manifest_encoder._encode_avro
    keep = {**manifest_encoder.ENCODERS, "avro": lambda *given: (met.append(given[:2]), avro(*given))[1]}
    monkeypatch.setattr(manifest_encoder, "ENCODERS", keep)
    columns = "id BIGINT NOT NULL, p STRING, v STRING, d DECIMAL(20, 2), f DOUBLE"
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file-index.bloom-filter.columns": "v"}
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table(
        "db.t", schema=columns, primary_keys=["id", "p"], partition_keys=["p"], options=options
    )
    for number in range(3):
        table.append({"id": [1, number], "p": ["a", "ü"], "v": ["x", None]})
    assert {schema.avro for _, schema in met} >= {MANIFEST.avro, MANIFEST_LIST.avro}
    for frame, schema in met:
        rows, whole = manifest_encoder._to_rows(frame, schema), manifest_encoder._to_table(frame, schema)
        names = [field.name for field in schema.arrow]
        expected = _encode_columns(whole.select(names), json.loads(schema.avro))
        assert manifest_encoder._encode_rows(rows, schema.avro) == expected
