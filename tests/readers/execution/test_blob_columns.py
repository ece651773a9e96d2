"""BLOB columns of tables that pypaimon 2.1 wrote: values, descriptors and `morrow.Blob`.

`tests/golden/blobs.tar.xz` has the warehouse, and the rows that pypaimon read back (`expected.json`): ARRAY<BLOB> and
MAP<K, BLOB>, placeholders of updates by row id, rolled files of two columns in partitions, views.
"""

from __future__ import annotations

import json
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.compat import pypaimon as compat
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, UnsafePath, Unsupported
from morrow.engine.format.blob_values import BlobPlaces
from morrow.engine.io.local import LocalStore
from morrow.engine.structs import replace
from morrow.readers.execution import blob_columns, execute

MAPS = ("b", "bin", "d38", "d5", "dt", "i16", "i32", "i64", "i8", "s")
TABLES = ("arr", "roll", "view", *(f"map_{key}" for key in MAPS))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blobs")
    with tarfile.open(Path(__file__).parents[2] / "golden/blobs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def expected(warehouse: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((warehouse / "expected.json").read_text())
    return found


def encode(value: object) -> Any:
    """Write a value as `expected.json` does; blobs are read."""
    if isinstance(value, (bytes, morrow.Blob)):
        return {"hex": bytes(value).hex()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in value]
    return value if value is None or isinstance(value, (int, str)) else str(value)


def encode_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: encode(v) for k, v in row.items()} for row in sorted(rows, key=lambda row: row["id"])]


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_of_pypaimon(warehouse: Path, expected: dict[str, Any], name: str) -> None:
    table = morrow.open(warehouse / "db.db" / name)

    assert encode_rows(table.scan().to_arrow().to_pylist()) == expected[name]
    assert encode_rows(list(table.scan().rows())) == expected[name]
    assert table.scan().verify() > 0


def test_faces_give_values_and_descriptors(warehouse: Path) -> None:
    table = morrow.open(warehouse / "db.db/arr")
    values = {1: b"a", 2: b"NEW2", 3: None, 4: b"", 5: b"e" * 100, 6: b"SIX"}

    def read(scan: morrow.Scan) -> list[dict[int, bytes | None]]:
        frames = [scan.to_polars(), scan.lazy().collect(), pl.from_arrow(scan.to_reader().read_all())]
        rows = [dict(frame.select("id", "pic").iter_rows()) for frame in frames if isinstance(frame, pl.DataFrame)]
        return [*rows, dict(scan.to_duckdb(duckdb.connect()).project("id, pic").fetchall())]

    assert read(table.scan()) == [values] * 4
    descriptors = read(table.with_options({"blob-as-descriptor": "true"}).scan())
    assert descriptors == [descriptors[0]] * 4
    blobs = {row["id"]: row["pic"] for row in table.scan().rows()}
    assert descriptors[0] == {id: None if blob is None else blob.descriptor for id, blob in blobs.items()}


def test_a_blob_is_read_in_parts(warehouse: Path) -> None:
    (row,) = morrow.open(warehouse / "db.db/arr").scan(filter="id = 1").rows()
    blob = row["pic"]
    assert (blob.size, blob.read(), blob.read(1), blob.read(0, 0)) == (1, b"a", b"", b"")
    (row,) = morrow.open(warehouse / "db.db/arr").scan(filter="id = 5").rows()
    blob = pickle.loads(pickle.dumps(row["pic"]))
    with blob.open() as stream:
        assert (stream.seek(-2, 2), stream.read()) == (98, b"ee")
    with pytest.raises(InvalidArgument, match="-1"):
        blob.read(-1)


class Requests(list[tuple[str, int]]):
    """The ranges of blob files that are read."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = LocalStore.read_range

        def watched(store: LocalStore, path: str, start: int, length: int) -> bytes:
            if path.endswith(".blob"):
                self.append((path, length))
            return read(store, path, start, length)

        monkeypatch.setattr(LocalStore, "read_range", watched)


def test_rows_that_a_filter_drops_are_not_read(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = morrow.open(warehouse / "db.db/roll")
    requests = Requests()
    requests.watch(monkeypatch)

    assert table.scan(["id"], "id > 3").to_polars().height == 26
    assert table.scan().count() == 30
    assert requests == [], "no column of blobs is asked for"
    assert table.scan(["pic"], "id = 7").to_polars().item() == b"\x07" * 900
    lazily = table.scan().lazy().filter(pl.col("id") == 7).select("pic").collect()
    assert lazily.item() == b"\x07" * 900
    assert [length for _, length in requests if length >= 900] == [916, 916]
    requests.clear()
    assert sum(row["pic"].size for row in table.scan().rows()) == 30 * 900
    assert max(length for _, length in requests) < 900, "sizes come from the indexes"


def test_conditions_on_blobs_read_them(warehouse: Path) -> None:
    table = morrow.open(warehouse / "db.db/roll")
    assert table.scan(["id"], "octet_length(b2) = 1").to_polars().height == 10
    assert morrow.open(warehouse / "db.db/arr").scan(["id"], "pic IS NULL").to_polars()["id"].to_list() == [3]


def test_values_are_decoded_in_pieces(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_columns, "MAX_RESOLVED_BYTES", 2000)
    monkeypatch.setattr(blob_columns, "REFERENCE_ROWS", 3)
    scan = morrow.open(warehouse / "db.db/roll").scan()
    assert sorted(scan.to_polars()["pic"]) == [bytes([i]) * 900 for i in range(30)]
    assert max(batch.num_rows for batch in scan.to_batches()) <= 3
    assert scan.lazy().head(4).collect().height == 4


def test_views_are_left_if_the_option_says_so(warehouse: Path) -> None:
    table = morrow.open(warehouse / "db.db/view")
    left = table.with_options({"blob-view.resolve.enabled": "false"}).scan()
    assert left.to_polars()["v"][0].startswith(b"\x01WEIVBOLB")
    assert next(iter(left.rows()))["v"].startswith(b"\x01WEIVBOLB")


def test_damage_and_lost_files(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "db.db/arr", tmp_path / "arr")
    table = morrow.open(tmp_path / "arr")
    path = next(file.path for file in table.scan(["pic"]).plan.files if file.format == "blob" and file.row_count == 5)
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:4] + bytes([data[4] ^ 1]) + data[5:])
    with pytest.raises(CorruptFile, match="checksum"):
        table.scan(["pic"]).to_polars()
    Path(path).unlink()
    with pytest.raises(FileMissing):
        table.scan(["pic"]).to_polars()
    assert table.scan(["id"]).to_polars().height == 6


def test_descriptors_outside_of_the_roots(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    places = BlobPlaces(LocalStore(), str(folder), "t", (str(folder),), {})
    for uri in (str(secret), f"file://{secret}", f"{folder}/../secret", "s3://b/secret", "https://h/x"):
        with pytest.raises(UnsafePath, match="allowed_roots"):
            places.find(morrow.Blob(LocalStore(), uri).descriptor)
    with pytest.raises(UnsafePath, match="link"):
        places.locate(f"{folder}/link")
    allowed = BlobPlaces(LocalStore(), str(folder), "t", (str(folder), str(tmp_path)), {})
    assert allowed.find(morrow.Blob.from_path(secret, 1, 3).descriptor).read() == b"ecr"


def test_blobs_in_files_of_other_values_are_refused(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": True, "data-evolution.enabled": True}
    table = morrow.Catalog(tmp_path).create_table("db.t", "id INT, image BLOB", options=options)
    table.append({"id": [1], "image": [b"a"]})
    scan = table.scan()
    (section,) = scan.plan.sections
    # pypaimon's update of a shard writes such a file beside the file of blobs.
    files = [f if f.format == "blob" else replace(f, write_columns=("id", "image")) for f in section.files]
    plan = replace(scan.plan, sections=(replace(section, files=tuple(files)),))

    assert execute.to_polars(plan.with_columns(("id",)), scan.store)["id"].to_list() == [1]
    with pytest.raises(Unsupported, match="blobs of 'image' in a file of other values"):
        execute.to_polars(plan, scan.store)


@pytest.mark.parametrize("kind", ["BLOB", "ARRAY<BLOB>", "MAP<STRING, BLOB>"])
def test_columns_without_any_file_of_blobs_are_null(tmp_path: Path, kind: str) -> None:
    options = {"row-tracking.enabled": True, "data-evolution.enabled": True}
    table = morrow.Catalog(tmp_path).create_table("db.t", f"id INT, image {kind}", options=options)
    table.append({"id": [1], "image": [None]})
    scan = table.scan()
    (section,) = scan.plan.sections
    # pypaimon's write of some columns leaves out the file of blobs.
    files = tuple(f for f in section.files if f.format != "blob")
    plan = replace(scan.plan, sections=(replace(section, files=files),))
    assert plan.blob_files == ()

    assert execute.to_polars(plan, scan.store).rows() == [(1, None)]


def test_maps_in_shared_columns_beside_blobs(tmp_path: Path) -> None:
    table = pypaimon_table(
        tmp_path, {"fields.m.map.storage-layout": "shared-shredding"}, pa.map_("string", "large_binary")
    ).morrow
    table.append([{"id": 1, "pic": {"x": b"one"}, "m": {"a": 1}}])

    assert table.to_arrow().to_pylist() == [{"id": 1, "pic": [("x", b"one")], "m": [("a", 1)]}]


def pypaimon_table(folder: Path, options: dict[str, str], blobs: pa.DataType | None = None) -> Any:
    """Return a new table with an id, a BLOB (or another type of blobs) and a map, by the interface of pypaimon."""
    catalog = compat.CatalogFactory.create({"warehouse": str(folder)})
    catalog.create_database("db", True)
    members = [
        pa.field("id", pa.int32()),
        pa.field("pic", blobs or pa.large_binary()),
        pa.field("m", pa.map_("string", "int32")),
    ]
    tracked = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
    catalog.create_table(
        "db.t", compat.Schema.from_pyarrow_schema(pa.schema(members), options=tracked | options), False
    )
    return catalog.get_table("db.t")
