"""Tables with column names that other code may misinterpret, read through every face."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.names import col
from morrow.tables.table import Table
from tests.support.hostile_names import ENGINES as OF_ENGINES
from tests.support.hostile_names import KEYWORDS, LETTERS, NAMES, OURS, PATTERNS, PUNCTUATED, TWINS, quoted
from tests.support.table_factory import TableFactory
from tests.support.written import renamed_by_others

GROUPS = {
    "patterns": PATTERNS,
    "ours": OURS,
    "engines": OF_ENGINES,
    "keywords": KEYWORDS,
    "punctuated": PUNCTUATED,
    "letters": LETTERS,
}
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "append": ((), {}),
    "deduplicate": (("id",), {"bucket": "2", "changelog-producer": "lookup"}),
    "partial-update": (("id",), {"bucket": "1", "partial-update.remove-record-on-delete": "true"}),
    "aggregation": (("id",), {"bucket": "1", "fields.default-aggregate-function": "last_non_null_value"}),
    "first-row": (("id",), {"bucket": "-1"}),
    "deletion-vectors": (("id",), {"bucket": "1", "deletion-vectors.enabled": "true"}),
}


def made(folder: Path, kind: str, names: tuple[str, ...], format: str = "parquet") -> Table:
    """Make a table of ``id`` and INT columns with these names; row i of ten has i times the column's number."""
    keys, options = KINDS[kind]
    if kind in ("partial-update", "aggregation", "first-row"):
        options = {**options, "merge-engine": kind}
    fields = [pa.field("id", pa.int32(), False), *(pa.field(name, pa.int32()) for name in names)]
    table = morrow.Catalog(str(folder)).create_table(
        "db.t", schema=pa.schema(fields), primary_keys=keys, options={"file.format": format, **options}
    )
    write = table.upsert if keys else table.append
    write(data(names, range(6)))
    write(data(names, range(4 if keys and kind != "first-row" else 6, 10)))
    return table


def data(names: tuple[str, ...], ids: range) -> pa.Table:
    values = {name: [i * number for i in ids] for number, name in enumerate(names, 2)}
    return pa.table({"id": list(ids), **values}).cast(
        pa.schema([pa.field("id", pa.int32()), *(pa.field(name, pa.int32()) for name in names)])
    )


def rows(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return data(names, range(10)).to_pylist()


def by_id(table: pa.Table | pl.DataFrame) -> list[dict[str, Any]]:
    found = table.to_dicts() if isinstance(table, pl.DataFrame) else table.to_pylist()
    return sorted(found, key=lambda row: row["id"])


def every_group() -> Iterator[Any]:
    """Pair Morrow's names and Polars patterns with all kinds, other groups with two; Avro accepts letters only."""
    for kind in KINDS:
        for group in GROUPS if kind in ("append", "deduplicate") else ("patterns", "ours"):
            format = "avro" if group == "engines" else "orc" if kind == "deduplicate" else "parquet"
            yield pytest.param(kind, group, format, id=f"{kind}-{group}")


@pytest.mark.parametrize(("kind", "group", "format"), every_group())
def test_all_names_of_a_group_in_one_table(tmp_path: Path, kind: str, group: str, format: str) -> None:
    names = GROUPS[group]
    table, expected = made(tmp_path, kind, names, format), rows(names)
    assert by_id(table.scan().to_arrow()) == expected
    assert by_id(table.scan().to_polars()) == expected
    assert by_id(table.scan().lazy().collect()) == expected
    assert by_id(pa.Table.from_batches(table.scan().to_batches())) == expected
    assert by_id(table.dataset().to_table()) == expected
    assert table.scan(list(reversed(names))).to_arrow().column_names == list(reversed(names))
    name = names[0]
    by_filter = [
        table.scan(["id"], filter=f"{quoted(name)} = 8"),
        table.scan(["id"], filter=f"{quoted(name)} + 1 = 9"),
        table.scan(["id"], filter=col(name) == 8),
        table.scan(["id"], filter=pc.field(name) == 8),
    ]
    assert [scan.to_arrow()["id"].to_pylist() for scan in by_filter] == [[4]] * 4
    assert table.scan(filter=f"{quoted(name)} >= 8").count() == 6
    assert table.scan().to_duckdb().filter(f"{quoted(name)} = 8").project("id").fetchall() == [(4,)]
    assert table.changes(1, 2, mode="raw").to_polars().columns == ["rowkind", "id", *names]
    for system in ("files", "audit_log", "partitions", "buckets"):
        assert table.system(system).to_arrow().num_rows


@pytest.mark.parametrize(
    ("kind", "group"),
    [*(("append", group) for group in GROUPS), ("partial-update", "patterns"), ("partial-update", "ours")],
)
def test_changes_of_rows(tmp_path: Path, kind: str, group: str) -> None:
    names = GROUPS[group]
    table, expected = made(tmp_path, kind, names), rows(names)
    first, last = names[0], names[-1]
    table.update({first: f"{quoted(last)} + 1", last: col(first) + 2}, f"{quoted(first)} = 8")
    expected[4] |= {first: expected[4][last] + 1, last: 10}
    table.delete(f"{quoted(last)} = 0")
    source = pa.table({"id": [9, 10], first: [1, 2]}).cast(pa.schema([("id", pa.int32()), (first, pa.int32())]))
    merge = table.merge(source, on="id").when_matched_update({last: f"source.{quoted(first)}"})
    merge.when_not_matched_insert({"id": "source.id", first: f"source.{quoted(first)}"}).execute()
    expected[9][last] = 1
    expected.append({**dict.fromkeys(names), "id": 10, first: 2})
    assert by_id(table.scan().to_arrow()) == expected[1:]
    table.compact(full=True)
    assert by_id(table.scan().to_arrow()) == expected[1:]
    table.overwrite(data(names, range(3)))
    assert by_id(table.scan().to_arrow()) == rows(names)[:3]


@pytest.mark.parametrize("name", ["*", "^.*$", "deleted", "__bucket", 'a"b', "a`b.c", "😀", "select", "a=b"])
def test_a_key_and_a_partition_of_such_names(tmp_path: Path, name: str) -> None:
    other = name + "2"
    schema = f"`{name.replace('`', '``')}` INT NOT NULL, `{other.replace('`', '``')}` STRING NOT NULL, v INT"
    table = morrow.Catalog(str(tmp_path)).create_table(
        "db.t",
        schema=schema,
        primary_keys=[name, other],
        partition_keys=[other],
        options={"bucket": "-1", "sequence.field": "v", "changelog-producer": "lookup"},
    )
    table.upsert([{name: 1, other: "p", "v": 1}, {name: 2, other: "p", "v": 2}, {name: 1, other: "q", "v": 3}])
    table.upsert([{name: 1, other: "p", "v": 5}, {name: 2, other: "p", "v": 0}])
    expected = [(1, "p", 5), (1, "q", 3), (2, "p", 2)]
    assert sorted(table.scan().to_polars().rows()) == expected
    assert table.scan(filter=f"{quoted(other)} = 'q'").to_polars().rows() == [(1, "q", 3)]
    assert table.scan(filter=f"{quoted(name)} = 2").to_polars().rows() == [(2, "p", 2)]
    table.delete([{name: 1, other: "q"}])
    table.drop_partition({other: "q"})
    assert sorted(table.scan().to_polars().rows()) == [(1, "p", 5), (2, "p", 2)]
    assert table.changes(1, 2).to_polars().columns == ["rowkind", name, other, "v"]


@pytest.mark.parametrize("name", ["*", "^.*$", "old", "x", "first", "__morrow_curve", "s0"])
def test_sorted_by_a_column_of_such_a_name(tmp_path: Path, name: str) -> None:
    table = made(tmp_path, "append", (name, "other"))
    table.compact(order_by=[name], strategy="order")
    table.compact(order_by=[name, "other"], strategy="zorder")
    assert by_id(table.scan().to_arrow()) == rows((name, "other"))


@pytest.mark.parametrize("name", ["*", "^.*$", "deleted"])
def test_members_of_rows_with_such_names(tmp_path: Path, name: str) -> None:
    members = pa.struct([(name, pa.float64()), ("x", pa.int32())])
    schema = pa.schema([pa.field("id", pa.int32(), False), ("r", members), ("rs", pa.list_(members))])
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.r.aggregate-function": "last_value",
        "fields.rs.aggregate-function": "nested_update",
        "fields.rs.nested-key": name,
    }
    table = morrow.Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["id"], options=options)
    one, two = {name: 1.0, "x": 1}, {name: 1.0, "x": 2}
    table.upsert(pa.table({"id": [1], "r": [one], "rs": [[one]]}, schema=schema))
    table.upsert(pa.table({"id": [1], "r": [two], "rs": [[two]]}, schema=schema))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "r": two, "rs": [two]}]
    assert table.scan(filter=f"r.{quoted(name)} = 1 AND r.x = 2").count() == 1


@pytest.mark.parametrize(
    "name", ["_KEY_x", "_KEY__KEY_position", "_SEQUENCE_NUMBER", "_VALUE_KIND", "rowkind", "", " "]
)
def test_names_that_java_refuses_are_refused(tmp_path: Path, name: str) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), False), pa.field(name, pa.int32())])
    with pytest.raises(morrow.MorrowError, match="name"):
        morrow.Catalog(str(tmp_path)).create_table("db.t", schema=schema)


@pytest.mark.parametrize("name", ["_KEY_id", "_KEY_x", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID"])
def test_a_stored_table_with_a_column_that_java_refuses_is_refused_until_it_is_renamed(
    tmp_path: Path, name: str
) -> None:
    factory = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT"), (name, "INT")], ["id"])
    factory.commit()
    table = morrow.open(str(tmp_path / "t"))
    row = pa.table({"id": [1], "v": [2], name: [3]})
    ways = [table.scan, lambda: table.upsert(row), lambda: table.changes(0, 1), lambda: table.scan(["v"], snapshot=1)]
    for way in ways:
        with pytest.raises(Unsupported, match=f"column name '{name}'"):
            way()
    table.alter.rename_column(name, "other")
    table.upsert(row.rename_columns(["id", "v", "other"]))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": 2, "other": 3}]
    with pytest.raises(Unsupported, match=f"column name '{name}'"):
        table.scan(snapshot=1)


def test_paimon_scan_of_all_names_that_differ_in_more_than_case(tmp_path: Path) -> None:
    names = tuple({name.lower(): name for name in NAMES if name not in TWINS}.values())
    made(tmp_path, "append", names)
    connection = morrow.duckdb.install(duckdb.connect())
    path = f"{tmp_path}/db.db/t"
    selected = ", ".join(map(quoted, names))
    kept = " AND ".join(f"{quoted(name)} = {3 * number}" for number, name in enumerate(names, 2))
    found = connection.execute(f"SELECT {selected} FROM paimon_scan($path) WHERE {kept}", {"path": path})
    assert found.fetchall() == [tuple(3 * number for number in range(2, len(names) + 2))]
    assert [each[0] for each in found.description] == list(names)


def test_columns_that_differ_in_case_only_are_told_apart_or_refused_in_sql(tmp_path: Path) -> None:
    fields = {"id": "INT NOT NULL", "a": "INT", "b": "INT"}
    table = renamed_by_others(morrow.Catalog(tmp_path).create_table("db.t", schema=fields), {"b": "A"})
    table.append(data(("a", "A"), range(10)))
    expected = rows(("a", "A"))
    assert table.scan(["id"], filter='"A" + 1 = 7').to_arrow()["id"].to_pylist() == [2]
    table.update({"A": col("A") + 1, "a": col("a") + 2}, '"A" = 6')
    expected[2] |= {"A": 7, "a": 6}
    source = pa.table({"A": [7], "a": [0]}).cast(pa.schema([("A", pa.int32()), ("a", pa.int32())]))
    table.merge(source, on=["A"]).when_matched_update({"a": pl.col("source.a")}).execute()
    expected[2]["a"] = 0
    assert by_id(table.scan().to_arrow()) == expected
    with pytest.raises(Unsupported, match="differ only in case"):
        table.update({"A": '"A" + 1'}, "id = 2")
    with pytest.raises(Unsupported, match="differ only in case"):
        table.merge(source, on='target."A" = source."A"').when_matched_delete().execute()
