"""A damaged table never gives wrong rows: a read returns the right rows or raises a MorrowError, and nothing else."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, MorrowError, UnsafePath, Unsupported
from tests.support.profile import IS_LONG
from tests.support.table_factory import AVRO, TableFactory
from tests.support.written import new_table

FIELDS = [("id", "INT"), ("name", "STRING"), ("score", "DOUBLE")]
FLIPS_PER_FILE = 24 if IS_LONG else 4
"""Number of single-byte changes for each file, spread evenly over it."""


def rows(ids: list[int], tag: str) -> pa.Table:
    return pa.table({"id": ids, "name": [f"{tag}-{i}" for i in ids], "score": [i / 4 for i in ids]})


def append_table(path: Path) -> None:
    table = TableFactory(path, FIELDS, options={"bucket": "-1"}, manifest_codec="null")
    table.write_file(rows([1, 2, 3], "a"))
    table.commit()
    table.write_file(rows([4, 5], "b"))
    table.commit()


def merged_table(path: Path) -> None:
    table = TableFactory(path, FIELDS, primary_keys=["id"], manifest_codec="null")
    table.write_file(rows([1, 2, 3, 4], "old"), level=5)
    table.write_file(rows([2, 9], "new"))
    table.write_file(rows([3], "gone"), kinds=["-D"])
    table.commit()


def table_with_vectors(path: Path) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    table = TableFactory(path, FIELDS, options=options, manifest_codec="null")
    file = table.write_file(rows(list(range(50)), "a"))
    table.commit()
    table.deletion_vector(file, range(0, 50, 3))
    table.commit("OVERWRITE")


TABLES: dict[str, Callable[[Path], None]] = {
    "append": append_table,
    "merged": merged_table,
    "vectors": table_with_vectors,
}


def read(path: Path) -> list[dict[str, Any]]:
    morrow.clear_caches()
    found = morrow.open(str(path)).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row))


def answer(path: Path) -> list[dict[str, Any]] | None:
    """Read the rows, or return None for a MorrowError. All other exceptions are findings and are raised."""
    try:
        return read(path)
    except MorrowError:
        return None


def flips(size: int) -> Iterator[tuple[int, int]]:
    """Yield positions and bits to flip: the first and last bytes, and others spread over the file."""
    positions = {*range(min(size, 8)), *range(max(size - 8, 0), size), *range(0, size, max(size // FLIPS_PER_FILE, 1))}
    for i, position in enumerate(sorted(positions)):
        yield position, 1 << i % 8


def damaged_reads(table: Path, file: Path, damage: Callable[[bytes], Iterator[tuple[str, bytes]]]) -> list[str]:
    """Return a description of each damage with which wrong rows were read."""
    sound, truth, findings = file.read_bytes(), read(table), []
    for what, content in damage(sound):
        file.write_bytes(content)
        found = answer(table)
        if found is not None and found != truth:
            findings.append(f"{file.relative_to(table)} {what}: {found}")
    file.write_bytes(sound)
    return findings


def flipped(content: bytes) -> Iterator[tuple[str, bytes]]:
    for position, bits in flips(len(content)):
        yield f"bit at {position}", content[:position] + bytes([content[position] ^ bits]) + content[position + 1 :]


def footer_flipped(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Change a Parquet footer. Pages have checksums, which neither Polars nor DuckDB verifies."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for what, tail in flipped(content[footer:]):
        yield f"footer {what}", content[:footer] + tail


def truncated(content: bytes) -> Iterator[tuple[str, bytes]]:
    for length in sorted({0, 1, len(content) // 2, len(content) - 1}):
        yield f"cut to {length}", content[:length]


def files_below(table: Path, folder: str) -> list[Path]:
    found = sorted(p for p in table.rglob("*") if p.is_file() and p.relative_to(table).parts[0].startswith(folder))
    assert found, folder
    return found


@pytest.fixture(scope="module", params=TABLES)
def sound_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "t"
    TABLES[request.param](path)
    return path


@pytest.mark.parametrize(
    ("folder", "damage"),
    [("manifest", flipped), ("manifest", truncated), ("bucket-", footer_flipped), ("bucket-", truncated)],
)
def test_damage_is_noticed(sound_table: Path, folder: str, damage: Callable[..., Any], tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(sound_table, table)
    assert [line for file in files_below(table, folder) for line in damaged_reads(table, file, damage)] == []


@pytest.mark.parametrize("damage", [flipped, truncated])
def test_damaged_vectors_are_noticed(damage: Callable[..., Any], tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    (index,) = files_below(tmp_path / "t", "index")
    assert damaged_reads(tmp_path / "t", index, damage) == []


@pytest.mark.parametrize("folder", ["schema", "snapshot"])
def test_json_that_is_cut_short_is_noticed(sound_table: Path, folder: str, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(sound_table, table)
    for file in files_below(table, folder):
        if file.name not in ("LATEST", "EARLIEST"):
            assert damaged_reads(table, file, truncated) == []


@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"999999999999999999999", b"0", b"\xff\xfe"])
def test_hints_are_only_hints(sound_table: Path, hint: str, content: bytes, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(sound_table, table)
    truth = read(table)
    (table / "snapshot" / hint).write_bytes(content)
    assert read(table) == truth


def test_a_missing_file_is_named(sound_table: Path, tmp_path: Path) -> None:
    for folder in ("manifest", "bucket-"):
        for i, name in enumerate(p.relative_to(sound_table) for p in files_below(sound_table, folder)):
            table = tmp_path / f"{folder}{i}"
            shutil.copytree(sound_table, table)
            truth = read(table)
            (table / name).unlink()
            try:
                assert read(table) == truth, f"{name} is not needed for the latest rows, or it is"
            except MorrowError as error:
                assert name.name in str(error)


ESCAPES = ["../../secret.parquet", "/etc/passwd", "a/../../../secret.parquet", "..", "", "."]


@pytest.mark.parametrize("name", ESCAPES)
def test_a_data_file_outside_the_table_is_refused(name: str, tmp_path: Path) -> None:
    append_table(tmp_path / "t")
    rewrite(tmp_path / "t", "manifest", lambda record: record["_FILE"].update(_FILE_NAME=name))
    with pytest.raises(UnsafePath):
        read(tmp_path / "t")


@pytest.mark.parametrize("name", ESCAPES)
def test_a_manifest_outside_the_table_is_refused(name: str, tmp_path: Path) -> None:
    append_table(tmp_path / "t")
    rewrite(tmp_path / "t", "manifest_list", lambda record: record.update(_FILE_NAME=name))
    with pytest.raises(UnsafePath):
        read(tmp_path / "t")


@pytest.mark.parametrize("name", ESCAPES)
def test_a_manifest_list_outside_the_table_is_refused(name: str, tmp_path: Path) -> None:
    append_table(tmp_path / "t")
    file = tmp_path / "t" / "snapshot" / "snapshot-2"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"deltaManifestList": name}))
    with pytest.raises(UnsafePath):
        read(tmp_path / "t")


@pytest.mark.parametrize("name", ESCAPES)
def test_an_index_file_outside_the_table_is_refused(name: str, tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    rewrite(tmp_path / "t", "index_manifest", lambda record: record.update(_FILE_NAME=name))
    with pytest.raises(UnsafePath):
        read(tmp_path / "t")


def one_range(record: dict[str, Any], **changes: Any) -> None:
    record["_DELETIONS_VECTORS_RANGES"][0].update(changes)


def in_file(record: dict[str, Any], **changes: Any) -> None:
    record["_FILE"].update(changes)


def misnamed(record: dict[str, Any]) -> None:
    name = record["_DELETIONS_VECTORS_RANGES"][0]["f0"]
    one_range(record, f0=name.replace("data-", "da83-"))


CONTRADICTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "a vector of no known file": ("index_manifest", lambda r: one_range(r, f0="data-unknown-0.parquet")),
    "vectors without ranges": ("index_manifest", lambda r: r.update(_DELETIONS_VECTORS_RANGES=None)),
    "a vector before the file": ("index_manifest", lambda r: one_range(r, f1=-1)),
    "a vector after the file": ("index_manifest", lambda r: one_range(r, f1=2**31 - 1)),
    "another cardinality": ("index_manifest", lambda r: one_range(r, _CARDINALITY=16)),
    "fewer rows": ("manifest", lambda r: in_file(r, _ROW_COUNT=49)),
    "more rows": ("manifest", lambda r: in_file(r, _ROW_COUNT=51)),
    "a negative number of rows": ("manifest", lambda r: in_file(r, _ROW_COUNT=-50)),
    "another size": ("manifest", lambda r: in_file(r, _FILE_SIZE=r["_FILE"]["_FILE_SIZE"] + 1)),
    "an unknown schema": ("manifest", lambda r: in_file(r, _SCHEMA_ID=7)),
    "a format without a name": ("manifest", lambda r: in_file(r, _FILE_NAME="data")),
    "a kind that is neither add nor delete": ("manifest", lambda r: r.update(_KIND=2)),
    "a bucket that there is not": ("manifest", lambda r: r.update(_TOTAL_BUCKETS=1, _BUCKET=1)),
    "a bucket below all": ("manifest", lambda r: r.update(_BUCKET=-3)),
    "a level below zero": ("manifest", lambda r: in_file(r, _LEVEL=-1)),
    "sequence numbers that end before they begin": ("manifest", lambda r: in_file(r, _MIN_SEQUENCE_NUMBER=1 << 40)),
    "a file that is deleted and was not added": ("manifest", lambda r: r.update(_KIND=1)),
    "a partition in a table without partitions": ("manifest", lambda r: r.update(_PARTITION=b"\0\0\0\1" + bytes(16))),
    "a column that the schema lacks": ("manifest", lambda r: in_file(r, _WRITE_COLS=["id", "nane"])),
    "a file without columns": ("manifest", lambda r: in_file(r, _WRITE_COLS=[])),
    "an index file that is deleted": ("index_manifest", lambda r: r.update(_KIND=1)),
    "an index of an unknown type": ("index_manifest", lambda r: r.update(_INDEX_TYPE="DELETION_VECTORR")),
    "vectors of another index": ("index_manifest", lambda r: r.update(_INDEX_TYPE="HASH")),
    "another number of vectors": ("index_manifest", lambda r: r.update(_ROW_COUNT=2)),
    "a vector of a file of almost this name": ("index_manifest", misnamed),
    "other counts of files": ("manifest_list", lambda r: r.update(_NUM_ADDED_FILES=2)),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictions_are_noticed(what: str, tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    rewrite(tmp_path / "t", *CONTRADICTIONS[what])
    with pytest.raises(MorrowError):
        read(tmp_path / "t")


COUNTED = ("fewer rows", "more rows", "another cardinality", "a file that is deleted and was not added")


@pytest.mark.parametrize("what", COUNTED)
def test_a_count_of_rows_notices_contradictions_too(what: str, tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    rewrite(tmp_path / "t", *CONTRADICTIONS[what])
    with pytest.raises(MorrowError):
        morrow.open(tmp_path / "t").scan().count()


def test_entries_that_are_lost_are_missed(tmp_path: Path) -> None:
    append_table(tmp_path / "t")
    file = tmp_path / "t" / "snapshot" / "snapshot-2"
    snapshot = json.loads(file.read_text())
    for side in ("ManifestList", "ManifestListSize"):  # the base list of snapshot 1 is empty
        snapshot[f"base{side}"] = json.loads((file.parent / "snapshot-1").read_text())[f"base{side}"]
    file.write_text(json.dumps(snapshot))
    with pytest.raises(Unsupported, match="files with 2 rows where it says 5"):
        read(tmp_path / "t")


def test_a_snapshot_of_an_old_version_counts_no_rows(tmp_path: Path) -> None:
    append_table(tmp_path / "t")
    truth = read(tmp_path / "t")
    file = tmp_path / "t" / "snapshot" / "snapshot-2"
    snapshot = json.loads(file.read_text())
    file.write_text(
        json.dumps({k: v for k, v in snapshot.items() if k not in ("totalRecordCount", "deltaRecordCount")})
    )
    assert read(tmp_path / "t") == truth


def with_options(table: Path, options: dict[str, str], schema_id: int = 0) -> None:
    """Set the options of the schema; with an id, add a schema with this id and these options."""
    node = json.loads((table / "schema" / "schema-0").read_text())
    (table / "schema" / f"schema-{schema_id}").write_text(json.dumps(node | {"id": schema_id, "options": options}))


def test_vectors_of_a_table_that_never_had_them_are_noticed(tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    with_options(tmp_path / "t", {"bucket": "-1"})
    with pytest.raises(Unsupported, match="no version of the schema has the option"):
        read(tmp_path / "t")


def test_vectors_of_a_table_that_has_them_no_longer_are_not_ignored(tmp_path: Path) -> None:
    table_with_vectors(tmp_path / "t")
    with_options(tmp_path / "t", {"bucket": "-1"}, schema_id=1)
    with pytest.raises(Unsupported, match="rows that they mark as dead would come back"):
        read(tmp_path / "t")


def test_keys_in_no_order_are_noticed(tmp_path: Path) -> None:
    merged_table(tmp_path / "t")
    rewrite(tmp_path / "t", "manifest", with_exchanged_bounds)
    with pytest.raises(CorruptFile, match="above its greatest"):
        read(tmp_path / "t")


def test_keys_that_begin_with_nan_as_in_pypaimon_are_not_called_damaged(tmp_path: Path) -> None:
    options = {"bucket": 1, "manifest.compression": "null"}
    table = new_table(tmp_path, "k DOUBLE NOT NULL, v INT", keys=["k"], options=options)
    table.upsert({"k": [math.nan, 1.0], "v": [1, 2]})
    rewrite(Path(table.path), "manifest", with_exchanged_bounds)
    with pytest.raises(Unsupported, match="whose keys begin with NaN"):
        read(Path(table.path))


def with_exchanged_bounds(record: dict[str, Any]) -> None:
    file = record["_FILE"]
    in_file(record, _MIN_KEY=file["_MAX_KEY"], _MAX_KEY=file["_MIN_KEY"])


def one_int(value: int) -> bytes:
    """Encode a BinaryRow of one INT: arity, null bits, slot."""
    return (1).to_bytes(4, "big") + bytes(8) + value.to_bytes(8, "little")


@pytest.mark.parametrize(("bound", "key"), [("_MIN_KEY", 2), ("_MAX_KEY", 3)])
def test_keys_outside_of_the_bounds_in_the_manifest_are_noticed(bound: str, key: int, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS, primary_keys=["id"], manifest_codec="null")
    for tag in ("old", "new"):
        table.write_file(rows([1, 2, 3, 4], tag))
    table.commit()
    rewrite(tmp_path / "t", "manifest", lambda r: in_file(r, **{bound: one_int(key)}))
    with pytest.raises(CorruptFile, match="its keys go from 1 to 4, outside"):
        read(tmp_path / "t")


def test_a_file_that_is_added_twice_is_noticed(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS, options={"bucket": "-1"})
    table.write_file(rows([1], "a"))
    table._pending *= 2
    table.commit()
    with pytest.raises(MorrowError):
        read(tmp_path / "t")


PREFIXES = {"manifest": "manifest-[0-9a-f]*", "manifest_list": "manifest-list-*", "index_manifest": "index-manifest-*"}


def rewrite(table: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every record of the metadata files of one kind, and correct the sizes stored elsewhere."""
    for file in sorted((table / "manifest").glob(PREFIXES[kind])):
        with file.open("rb") as stream:
            records: list[Any] = list(fastavro.reader(stream))
        for record in records:
            change(record)
        with file.open("wb") as stream:
            fastavro.writer(stream, AVRO[kind], records)
    sizes = {p.name: p.stat().st_size for p in (table / "manifest").iterdir()}
    if kind == "manifest":
        rewrite(table, "manifest_list", lambda record: record.update(_FILE_SIZE=sizes[record["_FILE_NAME"]]))
        return
    for file in (table / "snapshot").glob("snapshot-*"):
        snapshot = json.loads(file.read_text())
        for side in ("base", "delta"):
            snapshot[f"{side}ManifestListSize"] = sizes[snapshot[f"{side}ManifestList"]]
        file.write_text(json.dumps(snapshot))
