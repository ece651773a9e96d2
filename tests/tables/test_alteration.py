"""Changing a table's schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import AlreadyExists, ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.schema.schema_changes import DropColumn, RenameColumn
from morrow.tables.alteration import Alteration
from tests.support.written import new_table, renamed_by_others


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
        (lambda a: a.drop_column(()), InvalidArgument, "is not the path of a column"),
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
    assert repr(table.alter).startswith(f"{table.path}: no schema change; call a method such as add_column")
    assert repr(table.alter()) == f"{table.path}: 0 schema changes pending"


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


ALIKE: list[tuple[str, Callable[[Alteration], object]]] = [
    ("'amount' and 'Amount'", lambda a: a.add_column("Amount", "INT")),
    ("'id' and 'ID'", lambda a: a.rename_column("amount", "ID")),
    ("'place.city' and 'place.CITY'", lambda a: a.add_column("place.CITY", "INT")),
    ("'place.Tags' and 'place.tags'", lambda a: a.rename_column("place.city", "Tags")),
    ("'new.element.x' and 'new.element.X'", lambda a: a.add_column("new", "ARRAY<ROW<x INT, X INT>>")),
]


@pytest.mark.parametrize(("names", "change"), ALIKE)
def test_names_that_differ_in_case_alone_are_refused(
    table: morrow.Table, names: str, change: Callable[[Alteration], object]
) -> None:
    with pytest.raises(InvalidArgument, match=f"the columns {names} differ in case alone"):
        change(table.alter)
    assert len(table.schemas()) == 1


def test_such_names_of_another_writer_stay(tmp_path: Path) -> None:
    made = new_table(tmp_path, "a INT, other STRING, r ROW<x INT, y INT>")
    table = renamed_by_others(made, {"other": "A", "y": "X"})
    table.append(pa.table({"a": [1], "A": ["x"], "r": [{"x": 2, "X": 3}]}))
    table.alter.add_column("b", "INT")
    assert table.scan(["A", "r"], filter="\"A\" = 'x'").to_polars().rows() == [("x", {"x": 2, "X": 3})]
    with pytest.raises(InvalidArgument, match="'b' and 'B'"):
        table.alter.add_column("B", "INT")
    table.alter.rename_column("A", "c")
    assert table.schema.names == ["a", "c", "r", "b"]


# --- types that lose values ---

NARROWER = [("v", "INT"), ("r.a", "DECIMAL(3, 0)"), ("l.element", "DOUBLE")]


@pytest.fixture(params=[{}, {"metadata.stats-mode": "none"}], ids=["statistics", "none"])
def numbers(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    options = {"bucket": 1, **request.param}
    made = new_table(tmp_path, "id INT, v BIGINT, r ROW<a BIGINT>, l ARRAY<BIGINT>", keys=["id"], options=options)
    made.upsert({"id": [1, 2], "v": [5, None], "r": [{"a": 5}, None], "l": [[5, None], None]})
    return made


@pytest.mark.parametrize(("path", "kind"), NARROWER)
def test_a_type_that_loses_values_is_set_only_by_name(numbers: morrow.Table, path: str, kind: str) -> None:
    great = 2**60 + 1
    numbers.alter.set_type(path, kind)  # allowed if no value is lost
    numbers.alter.set_type(path, "BIGINT")
    numbers.upsert({"id": [2], "v": [great], "r": [{"a": great}], "l": [[great]]})
    known = len(numbers.schemas())
    with pytest.raises(InvalidArgument, match=rf"'{path}' is BIGINT, and {great} would become .* lossy=True"):
        numbers.alter.set_type(path, kind)
    with pytest.raises(InvalidArgument, match="would become"), numbers.alter() as batch:
        batch.rename_column("id", "key").set_type(path, kind)
    assert len(numbers.schemas()) == known
    numbers.alter.set_type(path, kind, lossy=True)
    assert len(numbers.schemas()) == known + 1
    numbers.alter.set_type(path, "BIGINT", lossy=True)
    assert numbers.to_polars()["v"].to_list() == [5, great]
    numbers.upsert({"id": [2], "v": [7], "r": [{"a": 7}], "l": [[7]]})
    numbers.compact(full=True)
    numbers.alter.set_type(path, kind)


TEXTS = [
    ("INT", ["12", "+7", "0", "7.0"], ["007", "3.7", "x", "99999999999"]),
    ("DOUBLE", ["0.1", "-0.5", "1e3", "NaN"], ["9007199254740993", "1.2.3"]),
    ("FLOAT", ["0.1", "3"], ["0.123456789", "1e50"]),
    ("DECIMAL(6, 2)", ["1.5", "12"], ["1.234", "12345", ""]),
    ("DATE", ["2024-01-01", "2024-1-1", "2024-01-01 00:00:00"], ["2024-01-01 10:00:00", "today"]),
    ("TIMESTAMP(3)", ["2024-01-01", "2024-01-01 01:02:03.450000"], ["2024-01-01 00:00:00.123456"]),
    ("BOOLEAN", ["yes", "F"], ["maybe"]),
    ("VARBINARY(2)", ["ab"], ["abc"]),
    ("VARCHAR(2)", ["ab"], ["abc"]),
]


@pytest.mark.parametrize(("kind", "kept", "lost"), TEXTS)
def test_texts_that_another_type_preserves(kind: str, kept: list[str], lost: list[str], tmp_path: Path) -> None:
    table = new_table(tmp_path, "v STRING")
    table.append({"v": kept})
    for value in lost:
        table.append({"v": [value]})
        with pytest.raises(
            InvalidArgument, match=rf"'v' is STRING, and {re.escape(repr(value))} (would become|cannot be read)"
        ):
            table.alter.set_type("v", kind)
        table.rollback(1)
    table.alter.set_type("v", kind)
    assert table.to_polars()["v"].null_count() == 0


@pytest.mark.parametrize("path", ["v", "r.a", "r.x.y", "l.element", "m.value"])
def test_a_read_that_fails_at_a_value_of_before_says_how_to_set_the_type_back(tmp_path: Path, path: str) -> None:
    kinds = "v STRING, r ROW<a STRING, `x.y` STRING>, l ARRAY<STRING>, m MAP<STRING, STRING>"
    table = new_table(tmp_path, f"id INT, {kinds}")
    before = [{"id": 1, "v": "a", "r": {"a": "a", "x.y": "a"}, "l": ["a"], "m": {"k": "a"}}]
    table.append(before)
    table.append(before)
    column = tuple(path.split(".", 1))
    with pytest.raises(InvalidArgument, match=r"STRING, and 'a' cannot be read as INT .*lossy=True"):
        table.alter.set_type(column, "INT")
    table.alter.set_type(column, "INT", lossy=True)
    with pytest.raises(Unsupported, match="is not a whole number") as refused:
        table.to_polars()
    text = str(refused.value)
    assert f"the value 'a' of the column {path!r}, written as STRING by schema 0, as INT of schema 1" in text
    assert text.count("is not supported") == 1
    assert ".parquet: the value" in text
    call = text.partition("set the type back: table.")[2].partition(", or ")[0]
    eval(f"table.{call}", {"table": table})
    assert table.to_polars().height == 2
