"""Changing a table's schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import AlreadyExists, ColumnNotFound, InvalidArgument
from morrow.engine.schema.changes import DropColumn, RenameColumn
from morrow.tables.altering import Alteration


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    return morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema="id INT, amount INT, place ROW<city STRING, tags ARRAY<INT>>, `a.b` INT",
        primary_keys="id",
        options={"bucket": 1},
    )


def columns(table: morrow.Table) -> str:
    return ", ".join(str(field) for field in table.schemas()[-1].fields)


ADDED: list[tuple[Callable[[Alteration], object], str]] = [
    (lambda a: a.add_column("n", "STRING"), "`a.b` INT, `n` STRING"),
    (lambda a: a.add_column("n", pa.uint8(), first=True), "`n` SMALLINT, `id` INT NOT NULL"),
    (lambda a: a.add_column("n", "DATE", after="id"), "`id` INT NOT NULL, `n` DATE, `amount`"),
    (lambda a: a.add_column("n", "DATE", before="amount"), "`id` INT NOT NULL, `n` DATE, `amount`"),
    (lambda a: a.add_column("place.zip", "INT", first=True), "`place` ROW<`zip` INT, `city` STRING"),
    (lambda a: a.add_column(("place", "zip"), "INT"), "`tags` ARRAY<INT>, `zip` INT>"),
    (lambda a: a.drop_column("amount"), "`id` INT NOT NULL, `place`"),
    (lambda a: a.drop_column("place.city"), "`place` ROW<`tags` ARRAY<INT>>"),
    (lambda a: a.drop_column("a.b"), "`tags` ARRAY<INT>>"),
    (lambda a: a.rename_column("amount", "cents"), "`cents` INT"),
    (lambda a: a.rename_column("place.city", "town"), "ROW<`town` STRING"),
    (lambda a: a.move_column("a.b", first=True), "`a.b` INT, `id`"),
    (lambda a: a.move_column("id", last=True), "`a.b` INT, `id` INT NOT NULL"),
    (lambda a: a.move_column("a.b", after="id"), "`id` INT NOT NULL, `a.b` INT"),
    (lambda a: a.move_column("id", before="a.b"), "`id` INT NOT NULL, `a.b` INT"),
    (lambda a: a.set_type("amount", "BIGINT"), "`amount` BIGINT"),
    (lambda a: a.widen("place.tags.element", pa.int64()), "`tags` ARRAY<BIGINT>"),
]


@pytest.mark.parametrize(("change", "expected"), ADDED)
def test_one_change_is_one_version(table: morrow.Table, change: Callable[[Alteration], object], expected: str) -> None:
    change(table.alter)
    assert expected in columns(table)
    assert len(table.schemas()) == 2


def test_a_new_column_with_comment_and_default(table: morrow.Table) -> None:
    table.alter.add_column("n", "INT", comment="how many", default=3)
    field = table.schemas()[-1].by_name["n"]
    assert (field.description, field.default_value) == ("how many", "3")
    table.alter.set_comment("n", None).set_default("n", None)
    assert table.schemas()[-1].by_name["n"].description is None


def test_several_changes_are_one_version(table: morrow.Table) -> None:
    with table.alter() as changes:
        changes.rename_column("amount", "cents")
        changes.set_type("cents", "BIGINT")
        changes.set_options({"write-only": True, "snapshot.num-retained.max": 20})
        changes.set_table_comment("money")

    assert "`cents` BIGINT" in columns(table)
    assert table.options == {"bucket": "1", "write-only": "true", "snapshot.num-retained.max": "20"}
    assert (table.comment, len(table.schemas())) == ("money", 2)
    table.alter.unset_options("write-only", "snapshot.num-retained.max")
    assert table.options == {"bucket": "1"}


def test_changes_as_values(table: morrow.Table) -> None:
    table.alter(DropColumn(("a.b",)), RenameColumn(("amount",), "a.b"))
    assert len(table.schemas()) == 2
    assert table.schemas()[-1].by_name["a.b"].id == 1


def test_a_batch_with_a_refused_change_changes_nothing(table: morrow.Table) -> None:
    with pytest.raises(AlreadyExists), table.alter() as changes:
        changes.add_column("n", "INT")
        changes.add_column("id", "INT")
    with pytest.raises(RuntimeError), table.alter() as changes:
        changes.add_column("n", "INT")
        raise RuntimeError
    assert len(table.schemas()) == 1


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        (lambda a: a.move_column("id"), InvalidArgument, "Give first=True, last=True, after= or before="),
        (lambda a: a.add_column("n", "INT", first=True, after="id"), InvalidArgument, "a column has one place"),
        (lambda a: a.add_column("n", 5), InvalidArgument, "the column 'n' has the type 5"),
        (lambda a: a.add_column("n", pa.null()), InvalidArgument, "Arrow type null"),
        (lambda a: a.drop_column(()), InvalidArgument, "is no path of a column"),
        (lambda a: a.drop_column("nope.x"), ColumnNotFound, "no column 'nope'"),
        (lambda a: a.set_nullable("amount", False), InvalidArgument, "may hold nulls"),
        (lambda a: a.set_options({"bucket": None}), InvalidArgument, "give text, a number, True or False"),
        (lambda a: a.__enter__(), InvalidArgument, r"a batch of changes is t.alter\(\)"),
    ],
)
def test_calls_that_are_wrong(
    table: morrow.Table, change: Callable[[Any], object], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        change(table.alter)
    assert len(table.schemas()) == 1


def test_it_says_what_it_is(table: morrow.Table) -> None:
    assert repr(table.alter) == f"Alteration({table.path})"
    assert repr(table.alter()) == f"Alteration({table.path}, 0 changes pending)"


def test_rows_there_are_are_read_with_the_new_schema(table: morrow.Table) -> None:
    table.append(pa.table({"id": [1], "amount": [5], "place": [{"city": "Rome", "tags": [1]}], "a.b": [7]}))
    with table.alter() as changes:
        changes.rename_column("place.city", "town")
        changes.set_type("amount", "STRING")
        changes.drop_column("a.b")
        changes.add_column("n", "INT", first=True)
    assert table.scan().to_arrow().to_pylist() == [
        {"n": None, "id": 1, "amount": "5", "place": {"town": "Rome", "tags": [1]}}
    ]
