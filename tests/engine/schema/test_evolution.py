"""Schema versions are claimed atomically by the first writer."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    CommitConflict,
    InvalidArgument,
    StorageError,
    UnclearOutcome,
    Unsupported,
)
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import IntType
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema import schema_changes as c
from morrow.engine.schema.creation import build_first_schema
from morrow.engine.schema.evolution import apply_changes, commit_changes, create_first_schema, rename_in_options
from morrow.engine.schema.sql_columns import parse_type
from morrow.engine.structs import replace
from tests.support.faulty_store import Fault, FaultKind, FaultyStore


def first_schema(columns: str = "id INT") -> TableSchema:
    return build_first_schema(columns, where="/t")


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
        def create(self, path: str, data: bytes) -> bool:  # noqa: ARG002  # every attempt is too late
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
            # After failed reads and lost answers, a change is applied completely or not at all.
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
        create_first_schema(fresh, build_first_schema("id INT", options={"scan.fallback-branch": "b"}, where="/u"))
    assert fresh.schema_ids() == []


# Changes of a schema follow Paimon's rules.

FIRST, LAST = c.Position(c.Place.FIRST), c.Position(c.Place.LAST)
INT = t.IntType()


def table_applying(
    columns: str = "id INT, dt STRING, a INT, r ROW<x INT, l ARRAY<INT>>", **arguments: Any
) -> TableSchema:
    defaults: dict[str, Any] = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"], "options": {"bucket": 2}}
    return build_first_schema(columns, where="/t", **(defaults | arguments))


def after(schema: TableSchema, *changes: c.SchemaChange, rows: bool = True) -> TableSchema:
    return apply_changes(schema, changes, has_snapshots=rows, where="/t")


def names(schema: TableSchema) -> str:
    return " ".join(schema.by_name)


# Columns


def test_a_new_column_gets_the_next_id_and_those_inside_the_next_ones() -> None:
    schema = after(table_applying(), c.AddColumn(("n",), parse_type("ROW<p INT, q INT>", "n"), "new"))

    field = schema.by_name["n"]
    assert (field.id, [m.id for m in field.type.fields], schema.highest_field_id) == (6, [7, 8], 8)  # type: ignore[attr-defined]  # a row
    assert (field.description, names(schema)) == ("new", "id dt a r n")
    assert (schema.id, schema.version) == (1, 3)


def test_an_id_is_never_given_again() -> None:
    dropped = after(table_applying(), c.AddColumn(("n",), INT), c.DropColumn(("n",)))
    assert (dropped.highest_field_id, names(dropped)) == (6, "id dt a r")
    assert after(dropped, c.AddColumn(("n",), INT)).by_name["n"].id == 7


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (None, "id dt a r n"),
        (LAST, "id dt a r n"),
        (FIRST, "n id dt a r"),
        (c.Position(c.Place.AFTER, "id"), "id n dt a r"),
        (c.Position(c.Place.BEFORE, "id"), "n id dt a r"),
    ],
)
def test_where_a_new_column_goes(position: c.Position | None, expected: str) -> None:
    assert names(after(table_applying(), c.AddColumn(("n",), INT, position=position))) == expected


def test_new_columns_before_the_partition_keys_if_an_option_says_so() -> None:
    schema = table_applying(options={"add-column-before-partition": "true", "bucket": 1})
    assert names(after(schema, c.AddColumn(("n",), INT))) == "id n dt a r"
    assert names(after(schema, c.AddColumn(("n",), INT, position=LAST))) == "id dt a r n"


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (FIRST, "a id dt r"),
        (LAST, "id dt r a"),
        (c.Position(c.Place.AFTER, "id"), "id a dt r"),
        (c.Position(c.Place.AFTER, "r"), "id dt r a"),
        (c.Position(c.Place.BEFORE, "dt"), "id a dt r"),
    ],
)
def test_where_a_column_moves(position: c.Position, expected: str) -> None:
    moved = after(table_applying(), c.MoveColumn(("a",), position))
    assert names(moved) == expected
    assert moved.by_name == table_applying().by_name


def test_renamed_columns_stay_the_same_and_keys_and_options_follow() -> None:
    schema = table_applying(
        options={"bucket": 2, "bucket-key": "id", "sequence.field": "a", "fields.a.stats-mode": "none"}
    )
    renamed = after(schema, c.RenameColumn(("id",), "key"), c.RenameColumn(("a",), "seq"))

    assert (renamed.primary_keys, renamed.by_name["key"].id, renamed.by_name["seq"].id) == (("key", "dt"), 0, 2)
    assert renamed.options == {
        "bucket": "2",
        "bucket-key": "key",
        "sequence.field": "seq",
        "fields.seq.stats-mode": "none",
    }


def test_members_change_in_place() -> None:
    schema = after(
        table_applying(),
        c.AddColumn(("r", "y"), INT, position=FIRST),
        c.RenameColumn(("r", "x"), "z"),
        c.SetType(("r", "l", "element"), t.BigIntType()),
        c.SetComment(("r", "z"), "last"),
    )
    (y, z, items) = schema.by_name["r"].type.fields  # type: ignore[attr-defined]  # a row
    assert [(y.id, y.name), (z.id, z.name, z.description), str(items.type)] == [
        (6, "y"),
        (4, "z", "last"),
        "ARRAY<BIGINT>",
    ]
    assert str(after(schema, c.DropColumn(("r", "l"))).by_name["r"].type) == "ROW<`y` INT, `z` INT>"


def test_a_type_keeps_its_nullability_unless_told_otherwise() -> None:
    schema = table_applying("id INT, dt STRING, a INT NOT NULL")
    assert str(after(schema, c.SetType(("a",), t.BigIntType())).by_name["a"].type) == "BIGINT NOT NULL"
    assert str(after(schema, c.SetType(("a",), t.BigIntType(), False)).by_name["a"].type) == "BIGINT"


def test_comments_and_defaults() -> None:
    schema = after(table_applying(), c.SetComment(("a",), "x"), c.SetDefault(("a",), "5"), c.SetTableComment("t"))
    assert (schema.by_name["a"].description, schema.by_name["a"].default_value, schema.comment) == ("x", "5", "t")
    back = after(schema, c.SetComment(("a",), None), c.SetDefault(("a",), None), c.SetTableComment(None))
    assert (back.fields, back.comment) == (table_applying().fields, None)


def test_not_null_needs_an_option_that_was_set_before() -> None:
    key = "alter-column-null-to-not-null.disabled"
    with pytest.raises(InvalidArgument, match=f"'a' may hold nulls .* set the option '{key}' = false first"):
        after(table_applying(), c.SetOption(key, "false"), c.SetNullable(("a",), False))
    allowed = after(table_applying(), c.SetOption(key, "false"))
    assert not after(allowed, c.SetNullable(("a",), False)).by_name["a"].type.nullable


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        (c.AddColumn(("n",), t.IntType(False)), InvalidArgument, "'n' cannot be NOT NULL"),
        (c.AddColumn(("a",), INT), AlreadyExists, "there is a column 'a' already"),
        (c.AddColumn(("a", "n"), INT), InvalidArgument, "'a' is INT, which has no members"),
        (c.AddColumn(("n",), INT, position=c.Position(c.Place.AFTER, "zz")), ColumnNotFound, "'zz'"),
        (c.AddColumn(("n",), t.VectorType(element=t.DateType(), length=3)), InvalidArgument, "elements of DATE"),
        (c.DropColumn(("id",)), InvalidArgument, r"drop partition key or primary key: \[id\]"),
        (c.DropColumn(("dt",)), InvalidArgument, r"drop partition key or primary key: \[dt\]"),
        (c.DropColumn(("zz",)), ColumnNotFound, "no column 'zz'; there are id, dt, a, r"),
        (c.RenameColumn(("dt",), "n"), InvalidArgument, r"rename partition column: \[dt\]"),
        (c.RenameColumn(("a",), "id"), AlreadyExists, "there is a column 'id' already"),
        (c.RenameColumn(("a",), "_KEY_a"), InvalidArgument, "Paimon's own"),
        (c.MoveColumn(("a",), c.Position(c.Place.AFTER, "a")), InvalidArgument, "move itself for column"),
        (c.MoveColumn(("r", "x"), FIRST), Unsupported, "moving the member 'r.x'"),
        (c.SetType(("id",), t.BigIntType()), InvalidArgument, r"update primary key: \[id\]"),
        (c.SetType(("dt",), INT), InvalidArgument, r"update partition column: \[dt\]"),
        (c.SetType(("a",), t.DateType()), InvalidArgument, "'a' is INT and cannot become DATE; add a new column"),
        (c.SetType(("r",), INT), InvalidArgument, "change its members one by one"),
        (c.SetType(("a",), t.BigIntType(False), False), InvalidArgument, "'a' may hold nulls"),
        (c.SetNullable(("id",), True), InvalidArgument, r"change nullability of primary key: \[id\]"),
        (c.SetDefault(("a",), "x"), InvalidArgument, "the default value 'x' is not a valid INT"),
        (c.SetDefault(("r", "x"), "1"), Unsupported, "a default value of the member 'r.x'"),
    ],
)
def test_what_is_refused(change: c.SchemaChange, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        after(table_applying(), change)


def test_the_last_column_stays() -> None:
    schema = table_applying("a INT", primary_keys=[], partition_keys=[], options={})
    with pytest.raises(InvalidArgument, match="'a' is the last one and cannot be dropped"):
        after(schema, c.DropColumn(("a",)))


def test_columns_that_options_need_stay() -> None:
    schema = table_applying(options={"bucket": 1, "sequence.field": "a"})
    with pytest.raises(ColumnNotFound, match="the sequence field 'a' is not a column"):
        after(schema, c.DropColumn(("a",)))


AGGREGATED = {"bucket": 1, "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
INDEXED = {"bucket": 1, "file-index.bsi.columns": "a"}


@pytest.mark.parametrize(
    ("options", "change", "problem"),
    [
        (AGGREGATED, c.SetType(("a",), t.VarCharType()), "sum folds numeric types, and column 'a' is STRING"),
        (AGGREGATED, c.DropColumn(("a",)), "names 'a', which is not a column"),
        (INDEXED, c.SetType(("a",), t.DoubleType()), "a bsi index on the column 'a' of type DOUBLE is not supported"),
        (INDEXED, c.DropColumn(("a",)), "bsi.columns names the column 'a'; .* change or unset"),
        (INDEXED, c.SetOption("file-index.bsi.columns", "nope"), "names the column 'nope'"),
        (
            {"bucket": 1, "rowkind.field": "a"},
            c.SetType(("a",), t.DoubleType()),
            "is DOUBLE, neither a STRING nor a number",
        ),
    ],
)
def test_no_change_leaves_a_table_that_cannot_be_read_or_written(
    options: dict[str, object], change: c.SchemaChange, problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        after(table_applying(options=options), change)


def test_what_needs_a_column_goes_with_it() -> None:
    changes = c.RemoveOption("file-index.bsi.columns"), c.DropColumn(("a",))
    assert names(after(table_applying(options=INDEXED), *changes)) == "id dt r"


def test_a_table_whose_indexes_cannot_be_built_may_be_changed_all_the_same() -> None:
    schema = replace(table_applying(), options={"bucket": "2", "file-index.bsi.columns": "nope"})
    assert names(after(schema, c.DropColumn(("a",)))) == "id dt r"


def test_a_default_must_fit_the_new_type() -> None:
    schema = table_applying("id INT, dt STRING, a STRING DEFAULT 'x'")
    with pytest.raises(InvalidArgument, match="the default value 'x' is not a valid INT"):
        after(schema, c.SetType(("a",), INT))


def test_only_widening_where_an_option_says_so() -> None:
    schema = table_applying(options={"bucket": 1, "disable-explicit-type-casting": "true"})
    assert after(schema, c.SetType(("a",), t.BigIntType())).by_name["a"].type == t.BigIntType()
    with pytest.raises(InvalidArgument, match="'disable-explicit-type-casting' allows widening only"):
        after(schema, c.SetType(("a",), t.VarCharType()))


def test_rows_are_in_buckets_by_the_values_of_the_bucket_key() -> None:
    schema = table_applying(primary_keys=[], options={"bucket": 2, "bucket-key": "a"})
    assert after(schema, c.SetType(("a",), t.BigIntType()), rows=False).by_name["a"].type == t.BigIntType()
    with pytest.raises(InvalidArgument, match=r"update bucket key: \[a\]"):
        after(schema, c.SetType(("a",), t.BigIntType()))


# Options


def test_options_set_and_removed() -> None:
    schema = after(table_applying(), c.SetOption("write-only", "true"), c.SetOption("bucket", "4"))
    assert schema.options == {"bucket": "4", "write-only": "true"}
    assert after(schema, c.RemoveOption("write-only"), c.RemoveOption("nothing")).options == {"bucket": "4"}


@pytest.mark.parametrize(
    ("options", "change", "problem"),
    [
        (
            {},
            c.SetOption("merge-engine", "aggregation"),
            "'merge-engine' cannot be changed in a table that has snapshots",
        ),
        ({"bucket": 1, "bucket-key": "id"}, c.RemoveOption("bucket-key"), "'bucket-key' cannot be changed"),
        ({"bucket": 1}, c.SetOption("bucket", "-1"), "'bucket' cannot change from 1 to -1"),
        ({}, c.SetOption("bucket", "1"), "'bucket' cannot change from -1 to 1"),
        ({"bucket": 1}, c.RemoveOption("bucket"), "'bucket' cannot be removed"),
        ({}, c.SetOption("deletion-vectors.enabled", "true"), "compact the table fully, then set"),
        ({"deletion-vectors.enabled": True}, c.RemoveOption("deletion-vectors.enabled"), "compact the table fully"),
        ({"ignore-delete": True}, c.SetOption("ignore-delete", "false"), "cannot change from true to false"),
        ({"ignore-delete": True}, c.RemoveOption("ignore-delete"), "cannot change from true to false"),
        ({}, c.SetOption("manifest.format", "orc"), "'manifest.format' cannot be changed"),
        ({"partition.default-name": "x"}, c.RemoveOption("partition.default-name"), "cannot be changed"),
        ({}, c.SetOption("partition.legacy-name", "false"), "cannot be changed"),
    ],
)
def test_options_that_stay_once_there_are_snapshots(
    options: dict[str, Any], change: c.SchemaChange, problem: str
) -> None:
    schema = table_applying(options=options)
    after(schema, change, rows=False)
    with pytest.raises(InvalidArgument, match=problem):
        after(schema, change)


def test_options_that_stay_may_be_written_out() -> None:
    same = c.SetOption("manifest.format", "avro"), c.SetOption("partition.legacy-name", "TRUE")
    schema = after(table_applying(), *same)
    assert schema.options == {"bucket": "2", "manifest.format": "avro", "partition.legacy-name": "TRUE"}
    assert "manifest.format" not in after(schema, c.RemoveOption("manifest.format")).options


def test_deletion_vectors_may_change_when_an_option_set_before_says_so() -> None:
    schema = table_applying(options={"deletion-vectors.modifiable": "true"})
    changed = after(schema, c.SetOption("deletion-vectors.enabled", "true"))
    assert changed.options["deletion-vectors.enabled"] == "true"


def test_an_empty_table_gets_keys_by_options() -> None:
    schema = table_applying(primary_keys=[], partition_keys=[], options={})
    keyed = after(schema, c.SetOption("primary-key", "id"), c.SetOption("partition", "dt"), rows=False)
    assert (keyed.primary_keys, keyed.partition_keys, keyed.options) == (("id",), ("dt",), {})
    assert not keyed.by_name["id"].type.nullable


def test_options_of_another_writer_are_not_refused_again() -> None:
    schema = replace(table_applying(), options={"bucket": "2", "tag.automatic-creation": "batch", "my own": "x"})
    assert after(schema, c.AddColumn(("n",), INT)).options == schema.options
    with pytest.raises(Unsupported, match=r"'tag.callbacks'"):
        after(schema, c.SetOption("tag.callbacks", "some.Class"))


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (c.SetOption("bucket", "2"),),
        (c.SetComment(("a",), None), c.SetNullable(("a",), True)),
        (c.RenameColumn(("a",), "b"), c.RenameColumn(("b",), "a")),
        (c.SetType(("a",), INT),),
    ],
)
def test_changes_that_change_nothing_make_no_version(changes: tuple[c.SchemaChange, ...]) -> None:
    schema = table_applying()
    assert after(schema, *changes) is schema


# Tables of other writers that break our rules


@pytest.mark.parametrize(
    "odd",
    [
        {"fields": (t.DataField(0, "id", INT), t.DataField(1, "v", t.VectorType(True, t.FloatType(), 2)))},
        {"options": {"bucket": "-1", "data-evolution.enabled": "true"}},
    ],
)
def test_a_change_keeps_what_broke_a_rule_before(odd: dict[str, Any]) -> None:
    before = table_applying("id INT, v INT", primary_keys=[], partition_keys=[], options={"bucket": -1})
    changed = after(replace(before, **odd), c.AddColumn(("n",), INT))
    assert names(changed) == "id v n"


# Options that name columns are updated with them.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"bucket-key": "a,b"}, {"bucket-key": "x,b"}),
        ({"sequence.field": "b, a"}, {"sequence.field": "b, x"}),
        ({"rowkind.field": "a"}, {"rowkind.field": "x"}),
        ({"fields.a.aggregate-function": "sum"}, {"fields.x.aggregate-function": "sum"}),
        ({"fields.a.anything.else": "a"}, {"fields.x.anything.else": "a"}),
        ({"fields.a,b.sequence-group": "c,a"}, {"fields.x,b.sequence-group": "c,x"}),
        ({"fields.b,a.sequence-group": "a.b"}, {"fields.b,x.sequence-group": "a.b"}),
        ({"fields.a.b.distinct": "true"}, {"fields.a.b.distinct": "true"}),
        ({"fields.default-aggregate-function": "a"}, {"fields.default-aggregate-function": "a"}),
        ({"fields.n.nested-key": "a"}, {"fields.n.nested-key": "a"}),
        ({"file-index.bloom-filter.columns": "a,b"}, {"file-index.bloom-filter.columns": "x,b"}),
        ({"file-index.bloom-filter.a.fpp": "0.1"}, {"file-index.bloom-filter.x.fpp": "0.1"}),
        ({"file-index.bloom-filter.columns": "a[k], b[a]"}, {"file-index.bloom-filter.columns": "x[k], b[a]"}),
        ({"file-index.bloom-filter.a[k].fpp": "0.1"}, {"file-index.bloom-filter.x[k].fpp": "0.1"}),
        ({"file.format": "a", "comment": "a"}, {"file.format": "a", "comment": "a"}),
        ({"bucket-key": "aa,ba"}, {"bucket-key": "aa,ba"}),
    ],
)
def test_options_after_a_became_x(before: dict[str, str], after: dict[str, str]) -> None:
    assert rename_in_options(before, "a", "x") == after


# Deletion vectors may be enabled or disabled only if no row of the table changes by it.


def upsert(table: morrow.Table, *rows: tuple[int, str | None], kind: str = "+I") -> None:
    frame = pl.DataFrame(list(rows), schema={"k": pl.Int32, "v": pl.String}, orient="row")
    table.upsert(frame, kinds=[kind] * len(rows))


def rows_of(table: morrow.Table) -> list[tuple[int, str]]:
    return sorted(table.scan().to_polars().rows())


def test_there_and_back_by_full_compactions(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    options = {"bucket": "1", "deletion-vectors.modifiable": "true"}
    t = catalog.create_table("db.t", schema="k INT NOT NULL, v STRING", primary_keys=["k"], options=options)
    upsert(t, (1, "a"), (2, "b"), (3, "c"))
    upsert(t, (1, "A"))
    with pytest.raises(InvalidArgument, match=r"several sorted runs.*compact\(full=True\)"):
        t.alter.set_options({"deletion-vectors.enabled": "true"})

    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "true"})
    assert rows_of(t) == [(1, "A"), (2, "b"), (3, "c")]
    upsert(t, (2, None), kind="-D")
    upsert(t, (3, "C"))
    assert rows_of(t) == [(1, "A"), (3, "C")]
    with pytest.raises(InvalidArgument, match="mark 2 rows as dead, which would come back"):
        t.alter.set_options({"deletion-vectors.enabled": "false"})

    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    upsert(t, (1, "again"))
    assert rows_of(t) == [(1, "again"), (3, "C")]


def test_commits_wait_for_lookups(tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer.lookup-wait": "false"}
    with pytest.raises(InvalidArgument, match="a commit has to wait"):
        morrow.Catalog(tmp_path).create_table("db.t", schema="k INT NOT NULL", primary_keys=["k"], options=options)


def converted(folder: Path, *, keyed: bool = True) -> morrow.Table:
    """Make a table with deletion vectors from snapshot 3 on; the tag ``old`` keeps snapshot 2."""
    catalog = morrow.Catalog(folder)
    keys = ["k"] if keyed else []
    options = {"bucket": "1", "bucket-key": "k", "deletion-vectors.modifiable": "true"}
    t = catalog.create_table("db.t", schema="k INT NOT NULL, v STRING", primary_keys=keys, options=options)
    for rows in ([(1, "a"), (2, "b")], [(3, "c")]):
        t.append(pl.DataFrame(rows, schema={"k": pl.Int32, "v": pl.String}, orient="row"))
    t.tags.create("old")
    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "true"})
    return t


READS: dict[str, Callable[[morrow.Table], Any]] = {
    "rows": lambda t: t.scan(snapshot=2).to_polars(),
    "batches": lambda t: list(t.scan(as_of=2).to_batches()),
    "a count": lambda t: t.scan(snapshot=2).count(),
    "a filter": lambda t: t.scan(["v"], "k = 1", version="2").to_arrow(),
    "a tag": lambda t: t.scan(tag="old").to_duckdb(),
    "a dataset": lambda t: t.scan(as_of="old").dataset().to_table(),
    "a difference": lambda t: t.changes("old", 3, mode="diff").to_arrow(),
    "kinds": lambda t: t.system("audit_log", tag="old").to_arrow(),
    "SQL": lambda t: morrow.Catalog(Path(t.path).parents[1]).sql("SELECT count(*) FROM db.t VERSION AS OF 'old'"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_was_not_compacted_before_is_not_read_afterwards(
    tmp_path: Path, read: Callable[[morrow.Table], Any]
) -> None:
    """Reads with deletion vectors skip files that wait for a compaction, and would return no rows."""
    t = converted(tmp_path)
    with pytest.raises(Unsupported, match=r"/t: a read of snapshot 2, of before deletion vectors were enabled, .*tag"):
        read(t)


def test_what_was_compacted_before_is_read_as_ever_and_so_are_changes_and_branches(tmp_path: Path) -> None:
    t = converted(tmp_path)
    upsert(t, (2, "B"))
    assert t.scan(snapshot=3).count() == 3
    assert sorted(t.changes(3, mode="diff").to_polars().rows()) == [("+U", 2, "B"), ("-U", 2, "b")]
    assert t.changes(0, 2).to_polars().rows() == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")]
    t.branches.create("then", tag="old")  # with the options of that snapshot
    assert rows_of(t.on_branch("then")) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("keyed", [True, False])
def test_dead_rows_do_not_come_back_when_vectors_are_disabled(tmp_path: Path, keyed: bool) -> None:
    t = converted(tmp_path, keyed=keyed)
    t.delete("k = 2")
    dead = t.snapshots()[-1].id
    t.compact(full=True)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    assert rows_of(t) == [(1, "a"), (3, "c")]
    with pytest.raises(Unsupported, match=f"a read of snapshot {dead}, of before deletion vectors were disabled"):
        t.scan(snapshot=dead).to_polars()
    assert t.scan(snapshot=1).count() == 2  # before the first vectors


def test_the_newest_state_of_another_writer_is_held_to_the_same(tmp_path: Path) -> None:
    """Java lets the option be changed even if files wait for a compaction."""
    t = converted(tmp_path)
    t.alter.set_options({"deletion-vectors.enabled": "false"})
    upsert(t, (4, "d"))
    newest = sorted((Path(t.path) / "schema").iterdir())[-1]
    schema = json.loads(newest.read_text())
    schema["id"] += 1
    schema["options"]["deletion-vectors.enabled"] = "true"
    newest.with_name(f"schema-{schema['id']}").write_text(json.dumps(schema))
    with pytest.raises(Unsupported, match=r"if it is the newest one, .* compact the table fully"):
        morrow.open(t.path).scan().to_polars()
