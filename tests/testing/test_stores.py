"""The stores of Morrow follow the contract of `FileStore`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from obstore.store import MemoryStore

import morrow
from morrow.engine.io.fsspec_store import wrap_filesystem
from morrow.engine.io.local import LocalStore
from morrow.engine.io.object_store import ObjectStore
from morrow.engine.io.resolve import confine, resolve
from morrow.engine.io.store import FileStore, get_url_options
from morrow.testing import StoreTests
from tests.support.azure_server import KEY, azure_server
from tests.support.google_server import google_server
from tests.support.s3_server import BUCKET, s3_server


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options | {"aws_secret_access_key": "a secret that is not shown"}


class TestLocalStore(StoreTests):
    @pytest.fixture
    def store(self) -> FileStore:
        return LocalStore()

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path / "folder")


class TestConfinedStore(TestLocalStore):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        return confine(LocalStore(), (str(tmp_path),))


class TestStoreInMemory(StoreTests):
    @pytest.fixture
    def store(self) -> FileStore:
        return ObjectStore(MemoryStore(), "memory://", {})

    @pytest.fixture
    def folder(self) -> str:
        return "some/folder"


class TestMemoryOfFsspec(StoreTests):
    @pytest.fixture
    def store(self) -> FileStore:
        fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
        return wrap_filesystem(fsspec.filesystem("memory"))

    @pytest.fixture
    def folder(self) -> str:
        return f"/some/{uuid.uuid4().hex}"


class TestLocalDiskOfFsspec(TestLocalStore):
    @pytest.fixture
    def store(self) -> FileStore:
        fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
        return wrap_filesystem(fsspec.filesystem("file"))


class TestS3(StoreTests):
    @pytest.fixture
    def store(self, storage_options: dict[str, str]) -> FileStore:
        return ObjectStore.of_url(f"s3://{BUCKET}/", storage_options)

    @pytest.fixture
    def folder(self) -> str:
        return f"folder/{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with google_server(tmp_path_factory.mktemp("google")) as options:
        yield options


@pytest.fixture(scope="module")
def azure() -> Iterator[dict[str, str]]:
    with azure_server() as options:
        yield options


class TestGoogle(StoreTests):
    @pytest.fixture
    def store(self, google: dict[str, str]) -> FileStore:
        return resolve(f"gs://{BUCKET}", google)[0]

    @pytest.fixture
    def folder(self) -> str:
        return f"folder/{uuid.uuid4().hex}"


class TestAzure(StoreTests):
    @pytest.fixture
    def store(self, azure: dict[str, str]) -> FileStore:
        return resolve(f"abfs://{BUCKET}", azure)[0]

    @pytest.fixture
    def folder(self) -> str:
        return f"folder/{uuid.uuid4().hex}"


@pytest.mark.parametrize("place", ["gs://lake/w", "az://lake/w", "abfss://lake@team.dfs.core.windows.net/w2"])
def test_tables_in_other_clouds(place: str, google: dict[str, str], azure: dict[str, str]) -> None:
    """Polars' own client reads large files."""
    options = google if place.startswith("gs:") else azure
    rows = pl.DataFrame({"id": pl.int_range(1000, dtype=pl.Int32, eager=True), "v": ["a"] * 1000})
    table = morrow.Catalog(place, storage_options=options).create_table("db.t", schema="id INT, v STRING")
    table.append(rows)
    store = table._metadata.store
    urls = [store.url(file.path) for file in table.scan().plan.files]
    assert pl.scan_parquet(urls, storage_options=dict(get_url_options(store))).collect().equals(rows)
    assert morrow.open(table.path, storage_options=options).scan(filter="id = 7").to_duckdb().fetchall() == [(7, "a")]
    assert KEY not in repr(table) + repr(store.storage_options)
