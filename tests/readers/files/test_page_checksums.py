"""Data files are checked against their page checksums with ``morrow.open(path, verify="pages")``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
import morrow.duckdb
from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.readers.files import FileSource, page_checksums
from morrow.readers.files.page_checksums import Pages, check_pages, count_pages
from morrow.spark.job.sections import ScanJob
from tests.support.profile import IS_LONG
from tests.support.s3_server import BUCKET, client_of, s3_server

ROWS = 4_000


@pytest.fixture(autouse=True)
def cold() -> None:
    morrow.clear_caches()


def rows(start: int = 0) -> pl.DataFrame:
    ids = pl.int_range(start, start + ROWS, eager=True)
    return pl.DataFrame({"id": ids, "name": ids.hash().cast(pl.String), "score": ids.hash(1).cast(pl.Float64)})


def append_table(folder: Path) -> morrow.Table:
    table = catalog_of(folder).create_table("db.t", schema="id BIGINT, name STRING, score DOUBLE")
    table.append(rows())
    return table


def keyed_table(folder: Path, **options: str) -> morrow.Table:
    options = {"bucket": "1", "write-only": "true", **options}
    table = catalog_of(folder).create_table(
        "db.t", schema="id BIGINT, name STRING, score DOUBLE", primary_keys=["id"], options=options
    )
    table.upsert(rows())
    table.upsert(rows(ROWS // 2))
    return table


def catalog_of(folder: Path) -> morrow.Catalog:
    catalog = morrow.Catalog(folder)
    catalog.create_database("db")
    return catalog


def files(table: morrow.Table) -> list[Path]:
    return sorted(Path(table.path).rglob("data-*.parquet"))


def flip(file: Path, column: str) -> None:
    """Flip one bit near the end of the last page of a column."""
    chunk = next(
        group.column(i)
        for group in [pq.read_metadata(file).row_group(0)]
        for i in range(group.num_columns)
        if group.column(i).path_in_schema == column
    )
    data = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start + chunk.total_compressed_size - 9] ^= 16
    file.write_bytes(data)


def source(file: Path) -> FileSource:
    return FileSource(LocalStore(), str(file), file.stat().st_size, -1, "parquet")


FACES: dict[str, Callable[[morrow.Scan], Any]] = {
    "to_arrow": lambda scan: scan.to_arrow(),
    "to_polars": lambda scan: scan.to_polars(),
    "to_batches": lambda scan: list(scan.to_batches()),
    "to_reader": lambda scan: scan.to_reader().read_all(),
    "lazy": lambda scan: scan.lazy().collect(),
    "to_pandas": lambda scan: scan.to_pandas(),
    "dataset": lambda scan: scan.dataset().to_table(),
    "to_duckdb": lambda scan: scan.to_duckdb().fetchall(),
    "arrow stream": lambda scan: pa.table(scan),
}


@pytest.mark.parametrize("face", FACES)
def test_every_face_refuses_a_damaged_page(tmp_path: Path, face: str) -> None:
    path = append_table(tmp_path).path
    assert FACES[face](morrow.open(path, verify="pages").scan()) is not None
    flip(files(morrow.open(path))[0], "score")
    with pytest.raises(Exception, match=r"data-.*column 'score' in row group 0: the checksum of a page is wrong"):
        FACES[face](morrow.open(path, verify="pages").scan())


def test_a_catalog_hands_it_to_its_tables(tmp_path: Path) -> None:
    flip(files(append_table(tmp_path))[0], "score")
    checked = morrow.Catalog(tmp_path, verify="pages")
    with pytest.raises(CorruptFile, match="score"):
        checked.table("db.t").scan().to_arrow()
    with pytest.raises(Exception, match="column 'score' in row group 0"):
        checked.sql("SELECT sum(score) FROM db.t").fetchall()


def test_only_what_is_read_is_hashed(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    flip(files(table)[0], "score")
    checked = morrow.open(table.path, verify="pages")
    assert checked.scan(["id", "name"]).to_polars().equals(rows().select("id", "name"))
    assert checked.scan().count() == ROWS
    assert checked.dataset().to_table(columns=["id"]).num_rows == ROWS
    with pytest.raises(CorruptFile, match="score"):
        checked.scan(["id"], filter="score > 0").count()


def test_merges_check_what_decides_them(tmp_path: Path) -> None:
    table = keyed_table(tmp_path)
    checked = morrow.open(table.path, verify="pages")
    assert checked.scan().count() == ROWS * 3 // 2
    morrow.clear_caches()
    flip(files(table)[0], "id")
    with pytest.raises(CorruptFile, match="column 'id'"):
        checked.scan(["name"]).to_arrow()
    with pytest.raises(CorruptFile, match="column 'id'"):
        checked.scan().count()


def test_compaction_does_not_make_damage_sound(tmp_path: Path) -> None:
    table = keyed_table(tmp_path)
    flip(files(table)[0], "score")
    with pytest.raises(CorruptFile, match="score"):
        morrow.open(table.path, verify="pages").compact(full=True)


def test_deletion_vectors(tmp_path: Path) -> None:
    table = catalog_of(tmp_path).create_table(
        "db.t",
        schema="id BIGINT, name STRING, score DOUBLE",
        options={"bucket": "-1", "deletion-vectors.enabled": "true"},
    )
    table.append(rows())
    table.delete("id < 10")
    flip(files(table)[0], "name")
    with pytest.raises(CorruptFile, match="name"):
        morrow.open(table.path, verify="pages").scan().to_polars()


def test_once_per_file_and_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    check = page_checksums.check_chunk

    def counted(*arguments: Any) -> Pages:
        hashed.append(arguments[1].column)
        return check(*arguments)

    monkeypatch.setattr(page_checksums, "check_chunk", counted)
    path = append_table(tmp_path).path
    for _ in range(2):
        morrow.open(path, verify="pages").scan(["id"]).to_arrow()
        morrow.open(path, verify="pages").scan(["name", "id"]).to_arrow()
    assert hashed == ["id", "name"]
    morrow.open(path).scan().to_arrow()
    assert hashed == ["id", "name"]


def test_pages_without_a_checksum_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "data-1.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), file)
    assert count_pages(source(file)) == Pages(checked=0, unchecked=4)
    check_pages([source(file)], ["a", "b"])
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), file, write_page_checksum=True)
    assert count_pages(source(file)) == Pages(checked=4, unchecked=0)


def test_pages_and_headers_larger_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data-1.parquet"
    pq.write_table(
        pa.table({"a": [f"{i:09}" for i in range(5000)]}), file, write_page_checksum=True, use_dictionary=False
    )
    monkeypatch.setattr(page_checksums, "WINDOW_BYTES", 128)
    assert count_pages(source(file)) == Pages(checked=1)
    flip(file, "a")
    with pytest.raises(CorruptFile, match="checksum"):
        count_pages(source(file))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_no_flip_of_pages_or_their_headers_goes_unnoticed(tmp_path: Path, version: str) -> None:
    file = tmp_path / "data-1.parquet"
    columns = {"a": [1, None, 3] * 20, "b": ["x", "y", None] * 20, "c": [[1], [], None] * 20}
    pq.write_table(pa.table(columns), file, write_page_checksum=True, data_page_version=version)
    sound = file.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    missed = []
    for at in range(4, footer):
        for bit in range(8) if IS_LONG else (at % 8, (at + 3) % 8):
            file.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :])
            try:
                count_pages(source(file))
            except CorruptFile:
                continue
            with suppress(OSError, pa.ArrowException):
                if pq.read_table(file).to_pydict() != columns:
                    missed.append((at, bit))
    assert missed == []


@pytest.mark.parametrize("length", [0, 3, 11, 12, 200])
def test_a_file_that_is_cut_off(tmp_path: Path, length: int) -> None:
    file = tmp_path / "data-1.parquet"
    pq.write_table(pa.table({"a": list(range(100))}), file, write_page_checksum=True)
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(CorruptFile):
        count_pages(source(file))


def test_another_value(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="pages"):
        morrow.open(tmp_path, verify="all")  # type: ignore[arg-type]  # the error is tested


def test_masks_of_unchecked_keys_are_not_taken(tmp_path: Path) -> None:
    table = keyed_table(tmp_path)
    flip(files(table)[0], "id")
    with suppress(CorruptFile):  # the plain read may succeed or fail
        table.scan().to_arrow()
    for columns in (["name"], ["name", "score"]):
        with pytest.raises(CorruptFile, match="column 'id'"):
            morrow.open(table.path, verify="pages").scan(columns).to_arrow()


def test_paimon_scan(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    flip(files(table)[0], "score")
    connection = morrow.duckdb.install(duckdb.connect(), verify="pages")
    assert connection.sql(f"SELECT count(name) FROM paimon_scan('{table.path}')").fetchall() == [(ROWS,)]
    with pytest.raises(duckdb.Error, match="column 'score' in row group 0"):
        connection.sql(f"SELECT sum(score) FROM paimon_scan('{table.path}')").fetchall()


def test_tasks_of_spark_check_as_their_driver_does(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for opened in (morrow.open(table.path), morrow.open(table.path, verify="pages")):
        scan = opened.scan()
        assert ScanJob.of(scan.plan, scan.store).store.store().checks_pages == scan.store.checks_pages
    assert scan.store.checks_pages


def test_a_store_in_the_cloud(tmp_path: Path) -> None:
    with s3_server() as options:
        catalog = morrow.Catalog(f"s3://{BUCKET}/w", storage_options=options, verify="pages")
        catalog.create_database("db")
        table = catalog.create_table("db.t", schema="id BIGINT, name STRING, score DOUBLE")
        table.append(rows())
        assert table.scan(["score"]).to_polars().height == ROWS
        morrow.clear_caches()
        client = client_of(options)
        (key,) = [e["Key"] for e in client.list_objects_v2(Bucket=BUCKET)["Contents"] if "/data-" in e["Key"]]
        file = tmp_path / "data-1.parquet"
        client.download_file(BUCKET, key, str(file))
        flip(file, "score")
        client.upload_file(str(file), BUCKET, key)
        assert table.scan(["id"]).to_polars().height == ROWS
        with pytest.raises(CorruptFile, match="column 'score' in row group 0"):
            table.scan().to_polars()
