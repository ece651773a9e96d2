"""Versions of a schema taken by whoever is first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from morrow.engine.errors import AlreadyExists, CommitConflict, InvalidArgument, StorageError, UnclearOutcome
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import IntType
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema import changes as c
from morrow.engine.schema.committing import commit_changes, create_first_schema
from morrow.engine.schema.creating import new_schema
from tests.support.faulty_store import Fault, FaultKind, FaultyStore


def first_schema(columns: str = "id INT") -> TableSchema:
    return new_schema(columns, where="/t")


def add(name: str) -> c.AddColumn:
    return c.AddColumn((name,), IntType())


@pytest.fixture
def table(tmp_path: Path) -> TableMetadata:
    metadata = TableMetadata(LocalStore(), str(tmp_path / "t"))
    create_first_schema(metadata, first_schema())
    return metadata


def test_a_table_is_made_once(table: TableMetadata) -> None:
    with pytest.raises(AlreadyExists, match="there is a table already"):
        create_first_schema(table, first_schema("other STRING"))
    assert list(table.latest_schema().by_name) == ["id"]


def test_changes_are_one_new_version(table: TableMetadata) -> None:
    changed = commit_changes(table, [add("a"), add("b")])

    assert (changed.id, list(changed.by_name)) == (1, ["id", "a", "b"])
    assert table.latest_schema() == changed
    assert commit_changes(table, [c.SetComment(("a",), None)]) == changed
    assert table.schema_ids() == [0, 1]


def test_all_changes_or_none(table: TableMetadata) -> None:
    with pytest.raises(AlreadyExists):
        commit_changes(table, [add("a"), add("id")])
    assert table.schema_ids() == [0]


def test_nobody_who_changes_the_schema_at_the_same_time_is_lost(table: TableMetadata) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: commit_changes(table, [add(f"c{number}")]), range(40)))

    schemas = table.schemas()
    assert [schema.id for schema in schemas] == list(range(41))
    assert set(schemas[-1].by_name) == {"id", *(f"c{number}" for number in range(40))}
    assert sorted(field.id for field in schemas[-1].fields) == list(range(41))


def test_whoever_loses_every_time_is_told(table: TableMetadata) -> None:
    class Late(LocalStore):
        def create(self, path: str, data: bytes) -> bool:  # noqa: ARG002  # whatever it is, it is too late
            return False

    with pytest.raises(CommitConflict, match="was changed by others 100 times"):
        commit_changes(TableMetadata(Late(), table.root), [add("a")])


def test_a_lost_answer_is_looked_up(table: TableMetadata) -> None:
    class Unclear(LocalStore):
        def create(self, path: str, data: bytes) -> bool:
            super().create(path, data)
            raise UnclearOutcome("no answer")

    assert commit_changes(TableMetadata(Unclear(), table.root), [add("a")]).id == 1
    assert table.schema_ids() == [0, 1]


@pytest.mark.parametrize("kind", [FaultKind.BAD_DISK, FaultKind.NO_SPACE, FaultKind.LOST, FaultKind.DONE])
def test_every_operation_may_fail(table: TableMetadata, kind: FaultKind) -> None:
    counting = FaultyStore(LocalStore())
    commit_changes(TableMetadata(counting, table.root), [add("c")])
    for at in range(len(counting.asked)):
        before = table.latest_schema()
        store = FaultyStore(LocalStore(), Fault(at, kind))
        try:
            changed = commit_changes(TableMetadata(store, table.root), [add(f"c{at}")])
        except StorageError:
            # A read that fails, or a write whose answer was lost: whole or not at all.
            assert list(table.latest_schema().by_name) in (list(before.by_name), [*before.by_name, f"c{at}"])
        else:
            assert table.latest_schema() == changed


def test_other_branches_that_options_name_are_there(table: TableMetadata, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"'scan.fallback-branch' names the branch 'b'; there are main$"):
        commit_changes(table, [c.SetOption("scan.fallback-branch", "b")])
    create_first_schema(TableMetadata(LocalStore(), table.root, "b"), first_schema())
    assert commit_changes(table, [c.SetOption("scan.fallback-branch", "b")]).id == 1

    fresh = TableMetadata(LocalStore(), str(tmp_path / "u"))
    with pytest.raises(InvalidArgument, match=r"names the branch 'b'; there are main$"):
        create_first_schema(fresh, new_schema("id INT", options={"scan.fallback-branch": "b"}, where="/u"))
    assert fresh.schema_ids() == []
