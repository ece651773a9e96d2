"""Manifest lists, manifests and index manifests in three containers, with every version of file metadata."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.manifest import (
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    decode_manifest_lists,
    decode_manifests,
    decode_outlines,
)
from morrow.engine.format.manifest_entries import (
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    INDEX_COLUMNS,
    MANIFEST_LIST_COLUMNS,
    OPTIONAL_COLUMNS,
    OUTLINE_COLUMNS,
)
from tests.support.table_factory import AVRO, TableFactory

Schema = Any
EMPTY_ROW = bytes(12)
STATS = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": [0, None]}
LISTED: dict[str, Any] = {
    "_VERSION": 2,
    "_FILE_NAME": "manifest-a-0",
    "_FILE_SIZE": 1200,
    "_NUM_ADDED_FILES": 2,
    "_NUM_DELETED_FILES": 1,
    "_PARTITION_STATS": STATS,
    "_SCHEMA_ID": 0,
    "_MIN_BUCKET": 0,
    "_MAX_BUCKET": 3,
    "_MIN_LEVEL": 0,
    "_MAX_LEVEL": 5,
    "_MIN_ROW_ID": None,
    "_MAX_ROW_ID": None,
}
RANGE = {"f0": "data-a-0.parquet", "f1": 1, "f2": 22, "_CARDINALITY": 5}
INDEX: dict[str, Any] = {
    "_VERSION": 1,
    "_KIND": 0,
    "_PARTITION": EMPTY_ROW,
    "_BUCKET": 0,
    "_INDEX_TYPE": "DELETION_VECTORS",
    "_FILE_NAME": "index-a-0",
    "_FILE_SIZE": 35,
    "_ROW_COUNT": 1,
    "_DELETIONS_VECTORS_RANGES": [RANGE],
    "_EXTERNAL_PATH": None,
    "_GLOBAL_INDEX": None,
}


def avro(schema: Schema, records: list[dict[str, Any]]) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, records)
    return stream.getvalue()


def without(schema: Schema, names: frozenset[str]) -> Schema:
    """Remove these fields from an Avro schema at any depth."""
    if isinstance(schema, list):
        return [without(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: without(value, names) if key in ("type", "items") else value for key, value in schema.items()}
    if "fields" in kept:
        kept["fields"] = [without(f, names) for f in schema["fields"] if f["name"] not in names]
    return kept


@pytest.fixture
def entry(tmp_path: Path) -> dict[str, Any]:
    """A manifest entry as the table factory writes it."""
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "STRING")], primary_keys=["id"])
    file = table.write_file(pa.table({"id": [1, 2], "v": ["a", None]}), value_stats=["v"])
    return {
        "_VERSION": 2,
        "_KIND": 0,
        "_PARTITION": EMPTY_ROW,
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": 1,
        "_FILE": dict(file.record),
    }


def manifest(entry: dict[str, Any], **changes: Any) -> bytes:
    """Build a manifest of one entry, with changed members of the entry or of its file."""
    entry = copy.deepcopy(entry)
    for name, value in changes.items():
        (entry if name in entry else entry["_FILE"])[name] = value
    return avro(AVRO["manifest"], [entry])


def test_a_manifest_list() -> None:
    frame = decode_manifest_list(avro(AVRO["manifest_list"], [LISTED]), "list")

    assert frame.schema == pl.Schema(MANIFEST_LIST_COLUMNS)
    assert frame.row(0, named=True) == {name: LISTED[name] for name in MANIFEST_LIST_COLUMNS}


def test_a_manifest_is_one_row_an_entry_with_the_file_unfolded(entry: dict[str, Any]) -> None:
    frame = decode_manifest(manifest(entry), "manifest-a")
    row = frame.row(0, named=True)

    assert frame.schema == pl.Schema({**ENTRY_COLUMNS, **FILE_COLUMNS})
    assert (row["_KIND"], row["_BUCKET"], row["_ROW_COUNT"], row["_LEVEL"]) == (0, 0, 2, 0)
    assert row["_VALUE_STATS_COLS"] == ["v"]
    assert row["_VALUE_STATS"]["_NULL_COUNTS"] == [1]
    assert row["_MIN_KEY"] == entry["_FILE"]["_MIN_KEY"]


def test_an_index_manifest() -> None:
    frame = decode_index_manifest(avro(AVRO["index_manifest"], [INDEX]), "index")

    assert frame.schema == pl.Schema(INDEX_COLUMNS)
    assert frame["_DELETIONS_VECTORS_RANGES"].to_list() == [[RANGE]]


def test_no_entries_at_all() -> None:
    assert decode_manifest(avro(AVRO["manifest"], []), "m").height == 0
    assert decode_manifest_list(avro(AVRO["manifest_list"], []), "m").height == 0


def entries_of(entry: dict[str, Any], *names: str, schema: Schema = AVRO["manifest"]) -> bytes:
    """Encode a manifest of files with these names."""
    return avro(schema, [entry | {"_FILE": entry["_FILE"] | {"_FILE_NAME": name}} for name in names])


def test_manifests_together_are_as_one_by_one(entry: dict[str, Any]) -> None:
    files = [(entries_of(entry, *names), path) for names, path in [("ab", "m0"), ("", "m1"), ("c", "m2")]]
    frames = decode_manifests(files)

    assert [frame["_FILE_NAME"].to_list() for frame in frames] == [["a", "b"], [], ["c"]]
    assert all(frame.equals(decode_manifest(*file)) for frame, file in zip(frames, files, strict=True))
    assert decode_manifest_lists([(avro(AVRO["manifest_list"], [LISTED]), "l")] * 2)[1]["_FILE_SIZE"].to_list() == [
        1200
    ]


def test_manifests_of_several_generations_and_containers_together(entry: dict[str, Any]) -> None:
    oldest = fastavro.parse_schema(without(copy.deepcopy(AVRO["manifest"]), OPTIONAL_COLUMNS))
    frame = decode_manifest(manifest(entry, _FILE_NAME="c"), "m")
    parquet = as_parquet(frame.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE")).to_arrow())
    data = [entries_of(entry, "a"), entries_of(entry, "b", schema=oldest), parquet]

    assert [f["_FILE_NAME"].item() for f in decode_manifests([(each, "m") for each in data])] == ["a", "b", "c"]


def test_outlines_are_all_but_statistics_of_any_container(entry: dict[str, Any]) -> None:
    oldest = fastavro.parse_schema(without(copy.deepcopy(AVRO["manifest"]), OPTIONAL_COLUMNS))
    frame = decode_manifest(manifest(entry, _FILE_NAME="c"), "m")
    parquet = as_parquet(frame.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE")).to_arrow())
    files = [(each, "m") for each in (entries_of(entry, "a", "b"), entries_of(entry, "d", schema=oldest), parquet)]

    for outlines, whole in (
        (decode_outlines(files), decode_manifests(files)),
        (decode_outlines(files[:1]), decode_manifests(files[:1])),
        (decode_outlines(files[:1] * 2), decode_manifests(files[:1] * 2)),
    ):
        assert all(one.equals(other.select(*OUTLINE_COLUMNS)) for one, other in zip(outlines, whole, strict=True))


@pytest.mark.parametrize("name", ["_KIND", "_FILE", "_VALUE_STATS", "_FILE_NAME"])
def test_an_outline_misses_what_its_manifest_misses(name: str, entry: dict[str, Any]) -> None:
    schema = fastavro.parse_schema(without(copy.deepcopy(AVRO["manifest"]), frozenset({name})))

    with pytest.raises(CorruptFile, match=f"^m: .*column {name}"):
        decode_outlines([(avro(schema, [entry]), "m")])
    with pytest.raises(CorruptFile, match=r"^m: the entry of data-.* holds impossible numbers"):
        decode_outlines([(manifest(entry, _ROW_COUNT=-1), "m")])


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-90] + b"\xff" * 74 + data[-16:]])
def test_of_manifests_together_the_damaged_one_is_named(
    damage: Callable[[bytes], bytes], entry: dict[str, Any]
) -> None:
    whole = entries_of(entry, "a", "b")

    with pytest.raises(CorruptFile, match=r"^m1: "):
        decode_manifests([(whole, "m0"), (damage(whole), "m1"), (whole, "m2")])
    with pytest.raises(CorruptFile, match=r"^m2: the entry of .* holds impossible numbers"):
        decode_manifests([(whole, "m0"), (whole, "m1"), (manifest(entry, _ROW_COUNT=-1), "m2")])


def as_parquet(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def as_orc(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    orc.write_table(table, stream)
    return stream.getvalue()


@pytest.mark.parametrize("container", [as_parquet, as_orc])
def test_manifests_may_be_parquet_or_orc(container: Callable[[pa.Table], bytes], entry: dict[str, Any]) -> None:
    expected = decode_manifest(manifest(entry), "m")
    outer = expected.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE"))
    table = outer.to_arrow(compat_level=pl.CompatLevel.oldest())

    assert decode_manifest(container(table), "m").equals(expected)


def test_the_oldest_generation_lacks_the_later_columns(entry: dict[str, Any]) -> None:
    schema = fastavro.parse_schema(without(copy.deepcopy(AVRO["manifest"]), OPTIONAL_COLUMNS))
    row = decode_manifest(avro(schema, [entry]), "m").row(0, named=True)

    later = OPTIONAL_COLUMNS & row.keys()
    assert len(later) == 8
    assert {row[name] for name in later} == {None}
    assert row["_FILE_NAME"] == entry["_FILE"]["_FILE_NAME"]


def test_deletion_vectors_of_old_versions_have_no_cardinality() -> None:
    schema = fastavro.parse_schema(without(copy.deepcopy(AVRO["index_manifest"]), frozenset({"_CARDINALITY"})))
    frame = decode_index_manifest(avro(schema, [INDEX]), "index")

    assert frame["_DELETIONS_VECTORS_RANGES"].to_list() == [[RANGE | {"_CARDINALITY": None}]]


@pytest.mark.parametrize("name", ["_KIND", "_PARTITION", "_FILE"])
def test_a_column_that_every_version_has_is_missing(name: str, entry: dict[str, Any]) -> None:
    schema = fastavro.parse_schema(without(copy.deepcopy(AVRO["manifest"]), frozenset({name})))

    with pytest.raises(CorruptFile, match=f"^m: .*column {name}"):
        decode_manifest(avro(schema, [entry]), "m")


@pytest.mark.parametrize(
    "changes",
    [
        *({"_ROW_COUNT": -1}, {"_FILE_SIZE": -1}, {"_KIND": 2}, {"_DELETE_ROW_COUNT": 3}, {"_DELETE_ROW_COUNT": -1}),
        {"_MIN_SEQUENCE_NUMBER": 9},
        {"_ROW_COUNT": 2**60},
    ],
)
def test_numbers_that_no_file_can_have(changes: dict[str, int], entry: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match=r"^m: the entry of data-.* holds impossible numbers"):
        decode_manifest(manifest(entry, **changes), "m")


def test_a_version_from_the_future(entry: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="m: manifest version 3 is not supported; upgrade Morrow"):
        decode_manifest(manifest(entry, _VERSION=3), "m")
    with pytest.raises(Unsupported, match="manifest version 9"):
        decode_manifest_list(avro(AVRO["manifest_list"], [LISTED | {"_VERSION": 9}]), "m")


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1junkPAR1", b"ORC junk", b"\0" * 9])
def test_bytes_that_are_no_manifest(data: bytes) -> None:
    for decode in (decode_manifest, decode_manifest_list, decode_index_manifest):
        with pytest.raises(CorruptFile, match=r"^m: "):
            decode(data, "m")


@pytest.mark.parametrize("data", [b"{}", b"Obj\x02" + bytes(50), b"\xff\x01"])
def test_manifests_of_other_formats(data: bytes) -> None:
    with pytest.raises(Unsupported, match=r"m: a manifest that begins with .* neither Avro, Parquet nor ORC"):
        decode_manifest(data, "m")


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_manifest_that_is_cut_short(cut: int, entry: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile):
        decode_manifest(manifest(entry)[:-cut], "m")


def test_a_null_where_the_format_has_none(entry: dict[str, Any]) -> None:
    frame = decode_manifest(manifest(entry), "m").with_columns(_BUCKET=pl.lit(None, pl.Int32))
    outer = frame.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE"))

    with pytest.raises(CorruptFile, match="the column _BUCKET holds a null"):
        decode_manifest(as_parquet(outer.to_arrow()), "m")


def test_a_column_both_in_the_file_and_beside_it(entry: dict[str, Any]) -> None:
    frame = decode_manifest(manifest(entry), "m")
    outer = frame.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE"), pl.col("_LEVEL"))

    with pytest.raises(CorruptFile, match="_FILE"):
        decode_manifest(as_parquet(outer.to_arrow()), "m")


@pytest.mark.parametrize("container", [as_parquet, as_orc])
def test_a_damaged_parquet_or_orc_manifest_raises_nothing_else(
    container: Callable[[pa.Table], bytes], entry: dict[str, Any]
) -> None:
    frame = decode_manifest(manifest(entry), "m")
    outer = frame.select(*ENTRY_COLUMNS, pl.struct(*FILE_COLUMNS).alias("_FILE"))
    data = container(outer.to_arrow(compat_level=pl.CompatLevel.oldest()))

    for position in range(0, len(data), len(data) // 300):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        # Neither container has checksums here, so a changed value may go unnoticed; damage that is noticed is typed.
        with contextlib.suppress(CorruptFile, Unsupported):
            decode_manifest(bytes(damaged), "m")
