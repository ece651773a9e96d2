"""Changes applied to a schema: Paimon's rules of what may change, and how."""

from __future__ import annotations

from typing import Any

import pytest

from morrow.engine.errors import AlreadyExists, ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.schema import changes as c
from morrow.engine.schema.applying import changed_schema
from morrow.engine.schema.creating import new_schema
from morrow.engine.schema.sql import parse_type
from morrow.engine.values import replace

FIRST, LAST = c.Position(c.Place.FIRST), c.Position(c.Place.LAST)
INT = t.IntType()


def table(columns: str = "id INT, dt STRING, a INT, r ROW<x INT, l ARRAY<INT>>", **arguments: Any) -> TableSchema:
    defaults: dict[str, Any] = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"], "options": {"bucket": 2}}
    return new_schema(columns, where="/t", **(defaults | arguments))


def after(schema: TableSchema, *changes: c.SchemaChange, rows: bool = True) -> TableSchema:
    return changed_schema(schema, changes, has_snapshots=rows, where="/t")


def names(schema: TableSchema) -> str:
    return " ".join(schema.by_name)


# Columns


def test_a_new_column_gets_the_next_id_and_those_inside_the_next_ones() -> None:
    schema = after(table(), c.AddColumn(("n",), parse_type("ROW<p INT, q INT>", "n"), "new"))

    field = schema.by_name["n"]
    assert (field.id, [m.id for m in field.type.fields], schema.highest_field_id) == (6, [7, 8], 8)  # type: ignore[attr-defined]  # a row
    assert (field.description, names(schema)) == ("new", "id dt a r n")
    assert (schema.id, schema.version) == (1, 3)


def test_an_id_is_never_given_again() -> None:
    dropped = after(table(), c.AddColumn(("n",), INT), c.DropColumn(("n",)))
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
    assert names(after(table(), c.AddColumn(("n",), INT, position=position))) == expected


def test_new_columns_before_the_partition_keys_if_an_option_says_so() -> None:
    schema = table(options={"add-column-before-partition": "true", "bucket": 1})
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
    moved = after(table(), c.MoveColumn(("a",), position))
    assert names(moved) == expected
    assert moved.by_name == table().by_name


def test_renamed_columns_stay_the_same_and_keys_and_options_follow() -> None:
    schema = table(options={"bucket": 2, "bucket-key": "id", "sequence.field": "a", "fields.a.stats-mode": "none"})
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
        table(),
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
    schema = table("id INT, dt STRING, a INT NOT NULL")
    assert str(after(schema, c.SetType(("a",), t.BigIntType())).by_name["a"].type) == "BIGINT NOT NULL"
    assert str(after(schema, c.SetType(("a",), t.BigIntType(), False)).by_name["a"].type) == "BIGINT"


def test_comments_and_defaults() -> None:
    schema = after(table(), c.SetComment(("a",), "x"), c.SetDefault(("a",), "5"), c.SetTableComment("t"))
    assert (schema.by_name["a"].description, schema.by_name["a"].default_value, schema.comment) == ("x", "5", "t")
    back = after(schema, c.SetComment(("a",), None), c.SetDefault(("a",), None), c.SetTableComment(None))
    assert (back.fields, back.comment) == (table().fields, None)


def test_not_null_needs_an_option_that_was_set_before() -> None:
    key = "alter-column-null-to-not-null.disabled"
    with pytest.raises(InvalidArgument, match=f"'a' may hold nulls .* set the option '{key}' = false first"):
        after(table(), c.SetOption(key, "false"), c.SetNullable(("a",), False))
    allowed = after(table(), c.SetOption(key, "false"))
    assert not after(allowed, c.SetNullable(("a",), False)).by_name["a"].type.nullable


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        (c.AddColumn(("n",), t.IntType(False)), InvalidArgument, "'n' cannot be NOT NULL"),
        (c.AddColumn(("a",), INT), AlreadyExists, "there is a column 'a' already"),
        (c.AddColumn(("a", "n"), INT), InvalidArgument, "'a' is INT, which has no members"),
        (c.AddColumn(("n",), INT, position=c.Position(c.Place.AFTER, "zz")), ColumnNotFound, "'zz'"),
        (c.AddColumn(("n",), t.VectorType(element=t.FloatType(), length=3)), Unsupported, "VECTOR"),
        (c.DropColumn(("id",)), InvalidArgument, "'id' is a primary key column"),
        (c.DropColumn(("dt",)), InvalidArgument, "'dt' is a partition key column"),
        (c.DropColumn(("zz",)), ColumnNotFound, "no column 'zz'; there are id, dt, a, r"),
        (c.RenameColumn(("dt",), "n"), InvalidArgument, "'dt' is a partition key column"),
        (c.RenameColumn(("a",), "id"), AlreadyExists, "there is a column 'id' already"),
        (c.RenameColumn(("a",), "_KEY_a"), InvalidArgument, "Paimon's own"),
        (c.MoveColumn(("a",), c.Position(c.Place.AFTER, "a")), InvalidArgument, "next to itself"),
        (c.MoveColumn(("r", "x"), FIRST), Unsupported, "moving the member 'r.x'"),
        (c.SetType(("id",), t.BigIntType()), InvalidArgument, "'id' is a primary key column"),
        (c.SetType(("dt",), INT), InvalidArgument, "'dt' is a partition key column"),
        (c.SetType(("a",), t.DateType()), InvalidArgument, "'a' is INT and cannot become DATE; add a new column"),
        (c.SetType(("r",), INT), InvalidArgument, "change its members one by one"),
        (c.SetType(("a",), t.BigIntType(False), False), InvalidArgument, "'a' may hold nulls"),
        (c.SetNullable(("id",), True), InvalidArgument, "'id' is a primary key column"),
        (c.SetDefault(("a",), "x"), InvalidArgument, "the default value 'x' is no INT"),
        (c.SetDefault(("r", "x"), "1"), Unsupported, "a default value of the member 'r.x'"),
    ],
)
def test_what_is_refused(change: c.SchemaChange, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        after(table(), change)


def test_the_last_column_stays() -> None:
    schema = table("a INT", primary_keys=[], partition_keys=[], options={})
    with pytest.raises(InvalidArgument, match="'a' is the last one and cannot be dropped"):
        after(schema, c.DropColumn(("a",)))


def test_columns_that_options_need_stay() -> None:
    schema = table(options={"bucket": 1, "sequence.field": "a"})
    with pytest.raises(ColumnNotFound, match="the sequence field 'a' is no column"):
        after(schema, c.DropColumn(("a",)))


AGGREGATED = {"bucket": 1, "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
INDEXED = {"bucket": 1, "file-index.bsi.columns": "a"}


@pytest.mark.parametrize(
    ("options", "change", "problem"),
    [
        (AGGREGATED, c.SetType(("a",), t.VarCharType()), "sum folds numeric types, and column 'a' is STRING"),
        (AGGREGATED, c.DropColumn(("a",)), "names 'a', which is no column"),
        (INDEXED, c.SetType(("a",), t.DoubleType()), "a bsi index on the column 'a' of type DOUBLE is not supported"),
        (INDEXED, c.DropColumn(("a",)), "bsi.columns names the column 'a'; .* change or unset"),
        (INDEXED, c.SetOption("file-index.bsi.columns", "nope"), "names the column 'nope'"),
        ({"bucket": 1, "rowkind.field": "a"}, c.SetType(("a",), t.DoubleType()), "is DOUBLE, no STRING and no number"),
    ],
)
def test_no_change_leaves_a_table_that_cannot_be_read_or_written(
    options: dict[str, object], change: c.SchemaChange, problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        after(table(options=options), change)


def test_what_needs_a_column_goes_with_it() -> None:
    changes = c.RemoveOption("file-index.bsi.columns"), c.DropColumn(("a",))
    assert names(after(table(options=INDEXED), *changes)) == "id dt r"


def test_a_table_whose_indexes_cannot_be_built_may_be_changed_all_the_same() -> None:
    schema = replace(table(), options={"bucket": "2", "file-index.bsi.columns": "nope"})
    assert names(after(schema, c.DropColumn(("a",)))) == "id dt r"


def test_a_default_must_fit_the_new_type() -> None:
    schema = table("id INT, dt STRING, a STRING DEFAULT 'x'")
    with pytest.raises(InvalidArgument, match="the default value 'x' is no INT"):
        after(schema, c.SetType(("a",), INT))


def test_only_widening_where_an_option_says_so() -> None:
    schema = table(options={"bucket": 1, "disable-explicit-type-casting": "true"})
    assert after(schema, c.SetType(("a",), t.BigIntType())).by_name["a"].type == t.BigIntType()
    with pytest.raises(InvalidArgument, match="'disable-explicit-type-casting' allows widening only"):
        after(schema, c.SetType(("a",), t.VarCharType()))


def test_rows_are_in_buckets_by_the_values_of_the_bucket_key() -> None:
    schema = table(primary_keys=[], options={"bucket": 2, "bucket-key": "a"})
    assert after(schema, c.SetType(("a",), t.BigIntType()), rows=False).by_name["a"].type == t.BigIntType()
    with pytest.raises(InvalidArgument, match="'a' is a bucket key column"):
        after(schema, c.SetType(("a",), t.BigIntType()))


# Options


def test_options_set_and_removed() -> None:
    schema = after(table(), c.SetOption("write-only", "true"), c.SetOption("bucket", "4"))
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
    ],
)
def test_options_that_stay_once_there_are_snapshots(
    options: dict[str, Any], change: c.SchemaChange, problem: str
) -> None:
    schema = table(options=options)
    after(schema, change, rows=False)
    with pytest.raises(InvalidArgument, match=problem):
        after(schema, change)


def test_deletion_vectors_may_change_when_an_option_set_before_says_so() -> None:
    schema = table(options={"deletion-vectors.modifiable": "true"})
    changed = after(schema, c.SetOption("deletion-vectors.enabled", "true"))
    assert changed.options["deletion-vectors.enabled"] == "true"


def test_an_empty_table_gets_keys_by_options() -> None:
    schema = table(primary_keys=[], partition_keys=[], options={})
    keyed = after(schema, c.SetOption("primary-key", "id"), c.SetOption("partition", "dt"), rows=False)
    assert (keyed.primary_keys, keyed.partition_keys, keyed.options) == (("id",), ("dt",), {})
    assert not keyed.by_name["id"].type.nullable


def test_options_of_another_writer_are_not_refused_again() -> None:
    schema = replace(table(), options={"bucket": "2", "tag.automatic-creation": "batch", "my own": "x"})
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
    schema = table()
    assert after(schema, *changes) is schema


# Tables of other writers, which break rules of ours


@pytest.mark.parametrize(
    "odd",
    [
        {"fields": (t.DataField(0, "id", INT), t.DataField(1, "v", t.VectorType(True, t.FloatType(), 2)))},
        {"options": {"bucket": "-1", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}},
    ],
)
def test_a_change_keeps_what_broke_a_rule_before(odd: dict[str, Any]) -> None:
    before = table("id INT, v INT", primary_keys=[], partition_keys=[], options={"bucket": -1})
    changed = after(replace(before, **odd), c.AddColumn(("n",), INT))
    assert names(changed) == "id v n"
