"""A table as an object, and its description of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from tests.support.table_factory import TableFactory
from tests.support.written import new_table

FIELDS = [
    t.DataField(0, "id", t.BigIntType()),
    t.DataField(1, "v", t.VarCharType()),
    t.DataField(2, "dt", t.VarCharType()),
]


def commented(schema: Path, column: str, comment: str) -> None:
    """Set a column's comment in a schema file."""
    content = json.loads(schema.read_text())
    (field,) = (f for f in content["fields"] if f["name"] == column)
    field["description"] = comment
    content["comment"] = "All orders"
    schema.write_text(json.dumps(content))


@pytest.fixture
def factory(tmp_path: Path) -> TableFactory:
    """Make two snapshots: one with id 1 and 2, then one with 2 again."""
    factory = TableFactory(tmp_path / "orders", FIELDS, ["dt", "id"], ["dt"], options={"note": "x"})
    commented(factory.path / "schema" / "schema-0", "v", "free <b>text</b>")
    factory.write_file(pa.table({"id": [1, 2], "v": ["a", "old"]}), partition={"dt": "d1"})
    factory.commit()
    factory.write_file(pa.table({"id": [2], "v": ["new"]}), partition={"dt": "d1"})
    factory.commit()
    return factory


@pytest.fixture
def table(factory: TableFactory) -> morrow.Table:
    return morrow.open(factory.path)


def test_what_a_table_says_of_itself(table: morrow.Table, factory: TableFactory) -> None:
    assert table.name == "orders"
    assert table.path == str(factory.path)
    assert table.branch == "main"
    assert table.comment == "All orders"
    assert table.primary_keys == ("dt", "id")
    assert table.partition_keys == ("dt",)
    assert table.options["note"] == "x"
    assert table.schema.names == ["id", "v", "dt"]
    assert [field.nullable for field in table.schema] == [False, True, False]


def test_options_are_a_copy(table: morrow.Table) -> None:
    table.options["note"] = "changed"
    assert table.options["note"] == "x"


def test_column_comments_are_field_metadata(table: morrow.Table) -> None:
    assert table.schema.field("v").metadata == {b"comment": b"free <b>text</b>"}


def test_schemas_oldest_first(table: morrow.Table, factory: TableFactory) -> None:
    factory.alter(fields=[*FIELDS, t.DataField(3, "added", t.IntType())])
    assert [schema.id for schema in table.schemas()] == [0, 1]
    assert table.schema.names[-1] == "added"


def test_snapshots_oldest_first(table: morrow.Table) -> None:
    snapshots = table.snapshots()
    assert [(s.id, s.commit_kind, s.total_record_count, s.delta_record_count) for s in snapshots] == [
        (1, "APPEND", 2, 2),
        (2, "APPEND", 3, 1),
    ]
    assert snapshots[0].time <= snapshots[1].time


def test_snapshots_in_notebooks(table: morrow.Table) -> None:
    header, first, second = repr(table.snapshots()).splitlines()
    assert header.split() == ["id", "time", "(UTC)", "kind", "schema", "records", "added"]
    assert (first.split()[0], second.split()[0]) == ("1", "2")
    assert table.snapshots()._repr_html_().count("<tr>") == 3


def test_every_scan_sees_the_newest_snapshot(table: morrow.Table, factory: TableFactory) -> None:
    before = table.scan()
    factory.write_file(pa.table({"id": [3], "v": ["c"]}), partition={"dt": "d1"})
    factory.commit()
    assert (before.count(), table.scan().count()) == (2, 3)


def test_an_unknown_branch(table: morrow.Table) -> None:
    with pytest.raises(BranchNotFound, match="b1"):
        table.on_branch("b1")
    with pytest.raises(BranchNotFound, match="b1"):
        table.scan(branch="b1")


def test_repr(table: morrow.Table, factory: TableFactory) -> None:
    *lines, newest = repr(table).splitlines()
    assert newest.startswith("  snapshot 2, ") and newest.endswith(" UTC (now), 3 stored rows")
    assert lines == [
        f"Table({str(factory.path)!r}, primary key (dt, id), partitioned by (dt))",
        "  id: BIGINT NOT NULL",
        "  v: STRING",
        "  dt: STRING NOT NULL",
    ]


def test_repr_of_an_append_table(tmp_path: Path) -> None:
    assert "append" in repr(morrow.open(TableFactory(tmp_path / "t", [("x", "INT")]).path))


def test_html_is_escaped(table: morrow.Table) -> None:
    html = table._repr_html_()
    assert "free &lt;b&gt;text&lt;/b&gt;" in html
    assert "<b>text</b>" not in html


def test_many_columns_fit_a_screen(tmp_path: Path) -> None:
    made = morrow.Catalog(tmp_path).create_table("db.wide", schema={f"c{i}": "INT" for i in range(1000)})
    assert len(repr(made).splitlines()) == 43
    assert "  ... and 960 more columns" in repr(made)
    assert "... and 800 more rows" in made._repr_html_()


def test_reprs_show_no_secret_and_no_markup(tmp_path: Path) -> None:
    hostile = "<script>alert('1')</script>"
    catalog = morrow.Catalog(tmp_path)
    made = catalog.create_table(
        "db.t",
        schema={hostile: "INT"},
        comment=hostile,
        options={"my.secret-key": "hunter2 and more", "my.name": hostile},
    )
    made.append([{hostile: 1}])
    made.tags.create("<b>", 1)
    made.branches.create("<i>", snapshot=1)
    made.alter.add_column("<u>", "STRING")
    scan = made.scan()
    shown = (catalog, made, made.snapshots(), made.schemas(), made.tags, made.branches, scan, scan.plan, made.doctor())
    for value in (*shown, made.changes(0, 1), made.system("files"), made.inspect()):
        page = value._repr_html_()
        assert not any(tag in page for tag in ("<script", "<i>", "<u>", "hunter2", "and more")), type(value)
        assert "hunter2" not in repr(value)
        assert len(repr(value).splitlines()) < 60
    assert "<td>&lt;b&gt;</td>" in made.tags._repr_html_()
    assert "+ <u> STRING" in repr(made.schemas())
    assert "my.secret-key</th><td>***" in made._repr_html_()


def test_completion(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    made = catalog.create_table("db.t", schema="id INT")
    assert catalog._ipython_key_completions_() == ["db.t"]
    assert catalog["db.t"].path == made.path
    assert {"scan", "append", "doctor", "tags", "path"} <= set(dir(made))
    assert not [name for name in (*dir(made), *dir(catalog)) if name.startswith("_")]


def test_a_table_is_an_arrow_stream(table: morrow.Table) -> None:
    expected = [(1, "a", "d1"), (2, "new", "d1")]
    assert sorted(pl.DataFrame(table).rows()) == expected
    assert sorted(tuple(row.values()) for row in pa.table(table).to_pylist()) == expected
    with duckdb.connect() as connection:
        connection.register("orders", table)
        assert sorted(connection.sql("FROM orders").fetchall()) == expected


@pytest.mark.parametrize(
    ("name", "instead"), [("vacuum", r"use expire_snapshots\(\)"), ("apend", "did you mean 'append'")]
)
def test_names_of_other_libraries_lead_to_the_right_method(factory: TableFactory, name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"'Table' object has no attribute '{name}'; {instead}"):
        getattr(morrow.open(factory.path), name)


def test_options_of_single_reads_and_writes(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT", options={"file.format": "parquet"})
    orc = table.with_options({"file.format": "orc", "commit.user-prefix": "job"})
    first = orc.append({"id": [1]})
    second = table.append({"id": [2]})
    assert [path.suffix for path in sorted(Path(table.path).rglob("data-*"), key=lambda p: p.stat().st_mtime)] == [
        ".orc",
        ".parquet",
    ]
    assert first is not None
    assert first.commit_user.startswith("job_")
    assert second is not None
    old = table.with_options({"scan.snapshot-id": 1})
    assert old.to_polars()["id"].to_list() == [1]
    assert old.count() == 1
    assert old.on_branch("main").count() == 1
    assert table.count() == 2
    assert table.options == old.options == {"file.format": "parquet"}
    with pytest.raises(
        InvalidArgument, match=r"'scan\.snapshot-id' selects an earlier state, and only the newest rows"
    ):
        old.delete("id = 2")
    old.alter.add_column("v", "INT")
    assert table.options == {"file.format": "parquet"}


def test_options_of_expiry_and_streams(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT", options={"write-only": True})
    for number in range(4):
        table.append({"id": [number]})
    kept = table.with_options({"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2})
    assert int(table.expire_snapshots(dry_run=True)) == 0
    assert int(kept.expire_snapshots()) == 2
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 4]
    stream = table.with_options({"consumer-id": "reader"}).stream(wait=0)
    assert len(list(stream)) > 0
    stream.commit()
    assert table.consumers.next_snapshot("reader") == 5


def test_options_of_reads_on_tables_that_are_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT", options={"write-only": True})
    table.append({"id": [1]})
    schema = Path(table.path) / "schema" / "schema-0"
    content = json.loads(schema.read_text())
    content["options"]["commit.callbacks"] = "org.example.Callback"
    schema.write_text(json.dumps(content))
    morrow.clear_caches()
    assert table.with_options({"scan.snapshot-id": 1}).count() == 1
    with pytest.raises(Unsupported, match=r"commit\.callbacks"):
        table.with_options({"file.format": "orc"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"merge-engine": "first-row"}, Unsupported, "the option 'merge-engine' of single reads and writes"),
        ({"bucket": 7}, Unsupported, "the option 'bucket' of single reads and writes"),
        ({"no.such": 1}, Unsupported, "the option 'no.such'"),
        ({"target-file-size": "much"}, InvalidArgument, "target-file-size"),
        ({"scan.snapshot-id": "x"}, InvalidArgument, "scan.snapshot-id"),
        ({"scan.snapshot-id": 1, "scan.tag-name": "a"}, InvalidArgument, "scan.tag-name"),
        (["a"], InvalidArgument, "options"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        new_table(tmp_path, "id INT").with_options(options)
