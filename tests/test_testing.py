"""Morrow's catalogs follow the contract of `Catalog`, as does one that commits itself and whose names are not paths."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
from morrow.engine.errors import UnclearOutcome, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.io.object_store import ObjectStore
from morrow.testing import CatalogTests
from tests.support.memory_catalog import MemoryCatalog
from tests.support.s3_server import BUCKET, s3_server


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


class TestFilesystemCatalog(CatalogTests):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> CatalogProtocol:
        return FilesystemCatalog(LocalStore(), str(tmp_path))


class TestFilesystemCatalogInS3(CatalogTests):
    @pytest.fixture
    def catalog(self, storage_options: dict[str, str]) -> CatalogProtocol:
        return FilesystemCatalog(ObjectStore.of_url(f"s3://{BUCKET}/", storage_options), uuid.uuid4().hex)


class TestCatalogThatCommits(CatalogTests):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> MemoryCatalog:
        return MemoryCatalog(LocalStore(), str(tmp_path))

    def test_every_commit_is_the_catalogs(self, catalog: MemoryCatalog, tables: Catalog) -> None:
        table = tables.create_table("db.t", schema="id INT NOT NULL", primary_keys="id", options={"bucket": 1})
        table.upsert({"id": [1]})
        table.delete("id = 1")
        table.compact(full=True)
        table.alter.set_options({"snapshot.num-retained.max": 10})

        owner = catalog.owner("db.t")
        assert owner.commits == len(owner.snapshots) == len(table.snapshots())
        assert len(owner.schemas) == 2
        assert not (Path(owner.folder) / "snapshot" / "LATEST").exists()

    @pytest.mark.parametrize("answer", [True, False])
    def test_a_commit_without_an_answer_is_made_once(
        self, catalog: MemoryCatalog, tables: Catalog, monkeypatch: pytest.MonkeyPatch, answer: bool
    ) -> None:
        """A commit is made once if its answer gets lost, whether it is then found or others have followed it."""
        table = tables.create_table("db.t", schema="id INT")
        owner = catalog.owner("db.t")
        commit, asked = owner.commit_snapshot, []

        def commit_snapshot(branch: str, base: Snapshot | None, snapshot: Snapshot) -> bool:
            asked.append(snapshot)
            if len(asked) > 1:
                return answer
            commit(branch, base, snapshot)
            raise UnclearOutcome("no answer")

        monkeypatch.setattr(owner, "commit_snapshot", commit_snapshot)
        table.append({"id": [1]})

        assert asked[0] == asked[1]
        assert (owner.commits, table.scan().count()) == (1, 1)

    def test_what_it_does_not_do_is_refused(self, tables: Catalog) -> None:
        table = tables.create_table("db.t", schema="id INT")
        table.append({"id": [1]})
        with pytest.raises(Unsupported, match="the creation of a branch in the catalog MemoryTable"):
            table.branches.create("dev", snapshot=1)

    def test_rows_are_those_of_the_newest_snapshot_of_the_catalog(
        self, catalog: MemoryCatalog, tables: Catalog
    ) -> None:
        table = tables.create_table("db.t", schema="id INT")
        for number in range(2):
            table.append({"id": [number]})
        catalog.owner("db.t").snapshots.pop()

        assert table.scan().count() == 1
