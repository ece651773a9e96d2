"""`TableUpdate` changes rows of tables with data evolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import PredicateBuilder
from morrow.compat.pypaimon.updates import WhenMatched, WhenNotMatched, lit, source_col
from morrow.engine.errors import ColumnNotFound, CommitConflict, InvalidArgument
from tests.compat.pypaimon.tables import COLUMNS, DATA, make, read, write

EVOLUTION = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}
NAMED = pa.Table.from_pylist([{"_ROW_ID": 2, "name": "x"}, {"_ROW_ID": 0, "name": None}])
UPSERTED = pa.Table.from_pylist([{"id": 3, "name": "u"}, {"id": 4, "name": "v"}], COLUMNS)
REMOVED = WhenMatched("delete")
Update = Callable[[Any, PredicateBuilder], Any]


def update_shard(update: Any, _: PredicateBuilder) -> Any:
    shard = update.with_update_type(["name"]).with_read_projection(["id"]).new_shard_updator(0, 1)
    earlier = shard.arrow_reader()
    earlier.read_next_batch()
    for batch in shard.arrow_reader():
        shard.update_by_arrow_batch(pa.record_batch({"name": batch["id"].cast(pa.string())}))
    earlier.read_all()
    return shard.prepare_commit()


UPDATES: dict[str, tuple[Update, dict[int, str | None]]] = {
    "row ids": (lambda u, _: u.update_by_arrow_with_row_id(NAMED), {1: None, 2: None, 3: "x"}),
    "a column of row ids": (
        lambda u, _: u.with_update_type(["name"]).update_by_arrow_with_row_id(NAMED.append_column("id", [[8, 9]])),
        {1: None, 2: None, 3: "x"},
    ),
    "keys": (lambda u, _: u.upsert_by_arrow_with_key(UPSERTED, ["id"]), {1: "apple", 2: None, 3: "u", 4: "v"}),
    "rows by key": (
        lambda u, _: u.with_update_type(["name"]).upsert_by_key([{"id": 2, "name": "y"}], ["id"]),
        {1: "apple", 2: "y", 3: "a%b"},
    ),
    "a literal": (
        lambda u, b: u.update_by_predicate(b.greater_than("id", 1), {"name": "l"}),
        {1: "apple", 2: "l", 3: "l"},
    ),
    "an array": (
        lambda u, b: u.update_by_predicate(b.less_than("id", 3), {"name": pa.array(["p", "q"])}),
        {1: "p", 2: "q", 3: "a%b"},
    ),
    "a function": (
        lambda u, _: u.update_by_predicate(None, {"name": lambda rows: rows["dt"]}, read_columns=["dt"]),
        {1: "a", 2: "a", 3: "b"},
    ),
    "a shard": (update_shard, {1: "1", 2: "2", 3: "3"}),
    "deletes": (lambda u, b: u.delete_by_predicate(b.equal("id", 2)), {1: "apple", 3: "a%b"}),
    "deletes of row ids": (lambda u, _: u.delete_by_row_id([0, 1, 1]), {3: "a%b"}),
    "a merge": (
        lambda u, _: u.merge_into(
            UPSERTED,
            on=["id"],
            when_matched=[WhenMatched("update", update={"name": source_col("name"), "dt": "t.name"})],
            when_not_matched=[WhenNotMatched(insert="*")],
        ),
        {1: "apple", 2: None, 3: "u", 4: "v"},
    ),
    "a merge of other names": (
        lambda u, _: u.merge_into(
            pa.table({"key": [1, 2, 3, 9], "new": ["s.x", "b", "c", "d"]}),
            on={"id": "key"},
            when_matched=[
                WhenMatched.delete("s.key = 2 AND t.name IS NULL AND s.new <> 't.name'"),
                WhenMatched.update({"name": "s.new"}, "t.id < 3"),
                WhenMatched("update", update={"name": lit("s.new"), "at": {"x": 7}}),
            ],
            when_not_matched=[WhenNotMatched(insert={"name": "literal"})],
        ),
        {1: "s.x", 3: "s.new", 9: "literal"},
    ),
    "nothing": (lambda u, _: u.delete_by_row_id([]), {1: "apple", 2: None, 3: "a%b"}),
}


@pytest.mark.parametrize("what", UPDATES)
def test_updates(catalog: pypaimon.Catalog, what: str) -> None:
    table = make(catalog, options=EVOLUTION)
    update, expected = UPDATES[what]
    builder = table.new_batch_write_builder()
    messages = update(builder.new_update(), table.new_read_builder().new_predicate_builder())
    builder.new_commit().commit(messages)
    assert {row["id"]: row["name"] for row in read(table)} == expected


def test_whole_partitions_are_deleted_without_vectors(catalog: pypaimon.Catalog) -> None:
    options = {**EVOLUTION, "deletion-vectors.enabled": "false"}
    table = make(catalog, partition_keys=["dt"], options=options)
    builder = table.new_batch_write_builder()
    update, predicates = builder.new_update(), PredicateBuilder(table.fields)
    with pytest.raises(InvalidArgument, match=r"requires 'deletion-vectors\.enabled'"):
        update.delete_by_predicate(predicates.equal("id", 3))
    builder.new_commit().commit(update.delete_by_predicate(predicates.equal("dt", "a")))
    assert [row["id"] for row in read(table)] == [3]


def test_updates_of_an_earlier_state_change_its_rows(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, options=EVOLUTION)
    write(table, pa.Table.from_pylist([{"id": 4, "name": "new", "dt": "b"}], COLUMNS))
    builder = table.copy({"scan.snapshot-id": 1}).new_batch_write_builder()
    update, predicates = builder.new_update(), PredicateBuilder(table.fields)
    assert update.update_by_predicate(predicates.equal("id", 4), {"name": "x"}) == []
    builder.new_commit().commit(update.update_by_predicate(predicates.greater_than("id", 2), {"name": "x"}))
    assert {row["id"]: row["name"] for row in read(table)} == {1: "apple", 2: None, 3: "x", 4: "new"}


def test_few_rows_of_a_shard_are_one_batch(catalog: pypaimon.Catalog) -> None:
    """Programs take the first batch for all rows, since pypaimon gives one."""
    table = make(catalog, options=EVOLUTION)
    for _ in range(3):
        builder = table.new_batch_write_builder()
        write = builder.new_write()
        write.write_arrow(DATA)
        builder.new_commit().commit(write.prepare_commit())
    update = table.new_batch_write_builder().new_update().with_update_type(["name"])
    reader = update.with_read_projection(["id", "_ROW_ID"]).new_shard_updator(0, 1).arrow_reader()
    sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == table.morrow.count()
    assert len(sizes) <= len(table.morrow.system("files").to_polars())


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        (lambda u, _: u.update_by_arrow_with_row_id(DATA), "lack the _ROW_ID column"),
        (lambda u, _: u.update_by_arrow_with_row_id(NAMED.take([0, 0])), "duplicate _ROW_ID"),
        (lambda u, _: u.update_by_arrow_with_row_id(pa.table({"_ROW_ID": [7], "id": [1]})), "Row ID 7 does not belong"),
        (lambda u, _: u.delete_by_row_id([7]), "Row ID 7 does not belong"),
        (lambda u, _: u.delete_by_row_id([None]), "must not be null"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA, []), "must not be empty"),
        (lambda u, _: u.upsert_by_key([], ["id"]), "must not be empty"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA[:0], ["id"]), "must not be empty"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA, ["x"]), "is not in table schema"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA.select(["name"]), ["id"]), "is not in input data"),
        (lambda u, _: u.merge_into(DATA, on=["id"]), "say what to do"),
        (lambda u, _: u.merge_into(DATA, on=[], when_matched=[REMOVED]), "must be non-empty"),
        (lambda u, _: u.merge_into(DATA, on=["id"], when_matched=[REMOVED, REMOVED]), "only the last clause"),
        (
            lambda u, _: u.merge_into(DATA, on=["id"], when_not_matched=[WhenNotMatched("*", "t.id = 1")]),
            "must not name columns of the table",
        ),
        (
            lambda u, _: u.merge_into(DATA, on=["id"], when_matched=[WhenMatched("update", update={"x": 1})]),
            "the unknown target column 'x'",
        ),
        (lambda u, _: u.new_shard_updator(2, 2), "at least 0 and below their count"),
        (lambda u, _: u.update_by_predicate(None, {}), "must not be empty"),
        (lambda u, _: u.update_by_predicate(None, {"name": pa.array(["a"])}), "must match matched row count"),
        (
            lambda u, _: u.update_by_predicate(None, {"name": lambda _: pa.array(["a"])}, ["id"]),
            "must match matched row count",
        ),
        (lambda u, _: u.update_by_predicate(None, {"name": lambda _: "a"}, ["id"]), "must return a pyarrow"),
        (lambda u, _: u.update_by_predicate(None, {"name": lambda _: "a"}), "require read_columns"),
        (lambda u, _: u.update_by_predicate(None, {"name": "a"}, ["id"]), "require read_columns"),
        (
            lambda u, _: u.update_by_predicate(None, {"name": lambda _: "a", "dt": pa.array(["a"])}, ["id"]),
            "cannot be combined",
        ),
    ],
)
def test_updates_that_are_wrong(catalog: pypaimon.Catalog, update: Update, problem: str) -> None:
    table = make(catalog, options=EVOLUTION)
    with pytest.raises((InvalidArgument, ColumnNotFound), match=problem):
        update(table.new_batch_write_builder().new_update(), table.new_read_builder().new_predicate_builder())
    with pytest.raises(InvalidArgument, match=r"requires 'data-evolution\.enabled'"):
        make(catalog, "db.plain").new_batch_write_builder().new_update().delete_by_row_id([1])


@pytest.mark.parametrize("evolving", [True, False])
def test_row_ids_are_read(catalog: pypaimon.Catalog, evolving: bool) -> None:
    table = make(catalog, options=EVOLUTION if evolving else {"row-tracking.enabled": "true"})
    columns = ["_ROW_ID", "name", "_SEQUENCE_NUMBER"]
    found = read(table, lambda builder: builder.with_projection(columns))
    assert [tuple(row[name] for name in columns) for row in found] == [(0, "apple", 1), (1, None, 1), (2, "a%b", 1)]


def test_upserts_find_rows_of_their_partition(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"], options=EVOLUTION)
    builder = table.new_batch_write_builder()
    rows = pa.Table.from_pylist([{"id": 1, "name": "u", "dt": "a"}, {"id": 1, "name": "v", "dt": "b"}], COLUMNS)
    builder.new_commit().commit(builder.new_update().upsert_by_arrow_with_key(rows, ["id"]))
    found = sorted((row["id"], row["dt"], row["name"]) for row in read(table) if row["id"] == 1)
    assert found == [(1, "a", "u"), (1, "b", "v")]


def test_updates_conflict_if_they_set_the_same_columns(catalog: pypaimon.Catalog) -> None:
    """Each is prepared on the first snapshot."""
    table = make(catalog, options=EVOLUTION)
    columns = {"name": pa.array(["a", "b"]), "dt": pa.array(["c", "d"])}
    prepared = []
    for name in ("name", "dt", "name"):
        builder = table.new_batch_write_builder()
        rows = pa.table({"_ROW_ID": [0, 1], name: columns[name]})
        prepared.append((builder, builder.new_update().update_by_arrow_with_row_id(rows)))
    for builder, messages in prepared[:2]:
        builder.new_commit().commit(messages)
    with pytest.raises(RuntimeError, match=r"MERGE INTO.* conflicts: .*wrote the same columns of the row ids 0 to 2"):
        prepared[2][0].new_commit().commit(prepared[2][1])


def write_columns(builder: Any, rows: dict[str, list[Any]]) -> Any:
    writer = builder.new_write().with_write_type(list(rows))
    writer.write_arrow(pa.table({name: pa.array(values, COLUMNS.field(name).type) for name, values in rows.items()}))
    return writer.prepare_commit()


def test_files_of_some_columns(catalog: pypaimon.Catalog) -> None:
    """With `first_row_id` they give older rows these columns; without, they are new rows."""
    table = make(catalog, options=EVOLUTION)
    for rows, first in (({"name": ["x", "y", None]}, 0), ({"id": [9]}, None)):
        builder = table.new_batch_write_builder()
        messages = write_columns(builder, rows)
        messages[0].new_files[0].first_row_id = first
        builder.new_commit().commit(messages)
    assert {row["id"]: (row["name"], row["dt"]) for row in read(table)} == {
        1: ("x", "a"),
        2: ("y", "a"),
        3: (None, "b"),
        9: (None, None),
    }


def test_new_rows_in_files_of_some_columns(catalog: pypaimon.Catalog) -> None:
    """Files with the same `first_row_id` are the same rows. Later rows get other ids."""
    table = make(catalog, rows=DATA[:0], options=EVOLUTION)
    builder = table.new_batch_write_builder()
    messages = [
        *write_columns(builder, {"id": [1, 2]}),
        *write_columns(builder, {"dt": ["p", "q"], "name": ["a", "b"]}),
    ]
    for message in messages:
        message.new_files[0].first_row_id = 0
    builder.new_commit().commit(messages)
    builder = table.new_batch_write_builder()
    builder.new_commit().commit(write_columns(builder, {"id": [3]}))
    assert [(row["id"], row["name"], row["dt"]) for row in read(table)] == [
        (1, "a", "p"),
        (2, "b", "q"),
        (3, None, None),
    ]
    assert table.morrow.scan(["_ROW_ID", "id"]).to_polars().sort("id")["_ROW_ID"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rows", "first", "problem"),
    [
        ({"name": ["x"]}, 0, "row ids 0 to [02] of .* overlap those of other files"),
        ({"name": ["x", "y", "z"]}, 1, "row ids 1 to 3 of .* overlap those of other files"),
        ({"name": ["x"]}, -1, "at least 0"),
        ({"name": ["x"]}, "0", "at least 0"),
        ({"name": ["x"]}, None, "lack the NOT NULL column 'id'"),
        ({"name": ["x"]}, 3, "lack the NOT NULL column 'id'"),
        ({"nope": ["x"]}, 0, "Column nope is not in table schema"),
    ],
)
def test_files_of_some_columns_that_fit_no_rows(
    catalog: pypaimon.Catalog, rows: dict[str, list[Any]], first: Any, problem: str
) -> None:
    """Nothing is committed."""
    schema = COLUMNS.set(0, COLUMNS.field("id").with_nullable(False))
    table = make(catalog, rows=DATA.cast(schema), options=EVOLUTION)
    builder = table.new_batch_write_builder()
    with pytest.raises((InvalidArgument, CommitConflict), match=problem):
        messages = write_columns(builder, rows)
        messages[0].new_files[0].first_row_id = first
        builder.new_commit().commit(messages)
    assert [row["name"] for row in read(table)] == ["apple", None, "a%b"]


def test_new_rows_in_files_that_meet(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, rows=DATA[:0], options=EVOLUTION)
    builder = table.new_batch_write_builder()
    messages = [*write_columns(builder, {"id": [1, 2]}), *write_columns(builder, {"name": ["a", "b"]})]
    messages[0].new_files[0].first_row_id, messages[1].new_files[0].first_row_id = 0, 1
    with pytest.raises(InvalidArgument, match="row ids 1 to 2 meet those of other files"):
        builder.new_commit().commit(messages)
    builder.new_commit().abort(messages)
    assert read(table) == []


def test_some_columns_of_a_plain_table(catalog: pypaimon.Catalog) -> None:
    """The others are null."""
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_batch_write_builder()
    writer = builder.new_write().with_write_type(["id"])
    with pytest.raises(ColumnNotFound, match="lack the column 'dt'"):
        writer.write_arrow(DATA.select(["id"]))
    writer.write_arrow(DATA[2:])
    builder.new_commit().commit(writer.prepare_commit())
    assert [(row["name"], row["dt"]) for row in read(table) if row["id"] == 3] == [("a%b", "b"), (None, "b")]


def test_indexes_are_built_and_dropped(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, options=EVOLUTION, partition_keys=["dt"])
    of_a = PredicateBuilder(table.fields).equal("dt", "a")

    assert table.create_global_index("id", partitions=[{"dt": "b"}]) == 1
    assert table.create_global_index(["id"], partition_filter=of_a, options={"sorted-index.records-per-range": 1}) == 2
    assert table.drop_global_index("id", partition_filter=of_a, dry_run=True) == 2
    assert table.drop_global_index("id") == 3
    assert table.create_global_index("id", "bitmap") == 2
