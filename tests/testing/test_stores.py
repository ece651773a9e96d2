"""The stores of Morrow keep what `FileStore` says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from morrow.engine.io.confined import confined
from morrow.engine.io.fsspec_store import store_of
from morrow.engine.io.local import LocalStore
from morrow.engine.io.objects import ObjectStore
from morrow.engine.io.store import FileStore
from morrow.testing import StoreTests
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
        return confined(LocalStore(), (str(tmp_path),))


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
        return store_of(fsspec.filesystem("memory"))

    @pytest.fixture
    def folder(self) -> str:
        return f"/some/{uuid.uuid4().hex}"


class TestLocalDiskOfFsspec(TestLocalStore):
    @pytest.fixture
    def store(self) -> FileStore:
        fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
        return store_of(fsspec.filesystem("file"))


class TestS3(StoreTests):
    @pytest.fixture
    def store(self, storage_options: dict[str, str]) -> FileStore:
        return ObjectStore.of_url(f"s3://{BUCKET}/", storage_options)

    @pytest.fixture
    def folder(self) -> str:
        return f"folder/{uuid.uuid4().hex}"
