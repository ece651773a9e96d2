"""pypaimon's interface over Morrow: programs as they are written for pypaimon, with another import."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from morrow.compat.pypaimon.catalog.catalog_exception import TableNotExistException
from morrow.compat.pypaimon.schema.data_types import ArrayType, AtomicType, DataField
from morrow.compat.pypaimon.schema.schema_change import Move

import morrow
import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import CatalogFactory, Identifier, PredicateBuilder, Schema, SchemaChange
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported

COLUMNS = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("dt", pa.string()), ("at", pa.struct([("x", pa.int32())]))]
)
ROWS = [
    {"id": 1, "name": "apple", "dt": "a", "at": {"x": 1}},
    {"id": 2, "name": None, "dt": "a", "at": None},
    {"id": 3, "name": "a%b", "dt": "b", "at": {"x": 3}},
]
DATA = pa.Table.from_pylist(ROWS, COLUMNS)


@pytest.fixture
def catalog(tmp_path: Path) -> pypaimon.Catalog:
    made = CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("db", False)
    return made


def make(
    catalog: pypaimon.Catalog, name: str = "db.t", rows: pa.Table = DATA, **options: Any
) -> pypaimon.FileStoreTable:
    """Make a table with these rows."""
    catalog.create_table(name, Schema.from_pyarrow_schema(rows.schema, **options), False)
    table = catalog.get_table(name)
    if rows.num_rows:
        write(table, rows)
    return table


def write(table: pypaimon.FileStoreTable, rows: pa.Table, replaced: dict[str, Any] | None = None) -> None:
    builder = table.new_batch_write_builder()
    if replaced is not None:
        builder.overwrite(replaced)
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def read(table: Any, change: Callable[[Any], Any] = lambda builder: builder) -> list[dict[str, Any]]:
    return read_by(change(table.new_read_builder()))


def read_by(builder: Any) -> list[dict[str, Any]]:
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    return sorted(rows, key=lambda row: str(row.get("id", row)))


# Imports


@pytest.mark.parametrize("path", pypaimon._PATHS)
def test_modules_have_the_paths_of_pypaimon(path: str) -> None:
    home = import_module(f"morrow.compat.pypaimon.{pypaimon._PATHS[path]}")
    module = import_module(f"morrow.compat.pypaimon.{path}")
    assert {name: vars(home)[name] for name in pypaimon._HOMES[pypaimon._PATHS[path]]}.items() <= vars(module).items()


def test_all_names_are_there_and_others_are_not() -> None:
    assert all(getattr(pypaimon, name) for name in pypaimon.__all__)
    with pytest.raises(ModuleNotFoundError):
        import_module("morrow.compat.pypaimon.manifest.manifest_file_manager")
    with pytest.raises(AttributeError):
        _ = pypaimon.SQLContext  # type: ignore[attr-defined]


# Schemas and catalogs


def test_types_convert_as_pypaimon_converts_them() -> None:
    nested = pa.struct([pa.field("a", pa.list_(pa.int32())), pa.field("b", pa.map_(pa.string(), pa.large_binary()))])
    schema = pa.schema(
        [("v", pa.list_(pa.float32(), 3)), pa.field("r", nested, nullable=False), ("b", pa.large_binary())]
    )
    fields = Schema.from_pyarrow_schema(schema).fields
    assert [str(field.type) for field in fields] == [
        "VECTOR<FLOAT, 3>",
        "ROW<a: ARRAY<INT>, b: MAP<STRING NOT NULL, BLOB>> NOT NULL",
        "BLOB",
    ]
    assert [field.id for field in fields] == [0, 1, 4]
    assert list(map(DataField.from_dict, (field.to_dict() for field in fields))) == fields


def test_primary_keys_are_not_null(catalog: pypaimon.Catalog) -> None:
    fields = [DataField(0, "id", AtomicType("BIGINT")), DataField(1, "tags", ArrayType(True, AtomicType("STRING")))]
    catalog.create_table("db.t", Schema(fields, primary_keys=["id"], comment="tagged"), False)
    table = catalog.get_table("db.t")
    assert [str(field.type) for field in table.fields] == ["BIGINT NOT NULL", "ARRAY<STRING>"]
    assert (table.primary_keys, table.comment(), table.is_primary_key_table) == (["id"], "tagged", True)


def test_catalog(catalog: pypaimon.Catalog) -> None:
    make(catalog)
    with pytest.raises(pypaimon.TableAlreadyExistException):
        catalog.create_table("db.t", Schema.from_pyarrow_schema(COLUMNS), False)
    with pytest.raises(pypaimon.DatabaseNotExistException):
        catalog.create_table("none.t", Schema.from_pyarrow_schema(COLUMNS), False)
    catalog.rename_table("db.t", Identifier.create("db", "u"))
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["u"])
    catalog.drop_table("db.u")
    for gone in ("db.u", "none.u"):
        with pytest.raises(TableNotExistException):
            catalog.get_table(gone)
        catalog.drop_table(gone, True)
    catalog.drop_database("db")
    with pytest.raises(pypaimon.DatabaseNotExistException):
        catalog.get_database("db")


def test_alter_table(catalog: pypaimon.Catalog) -> None:
    make(catalog)
    catalog.alter_table(
        "db.t",
        [
            SchemaChange.add_column("city", AtomicType("STRING"), "where", Move.first("city")),
            SchemaChange.rename_column("name", "label"),
            SchemaChange.update_column_type("id", AtomicType("STRING")),
            SchemaChange.add_column(["at", "y"], AtomicType("INT")),
            SchemaChange.set_option("snapshot.num-retained.max", "20"),
        ],
    )
    table = catalog.get_table("db.t")
    assert [f"{field.name} {field.type}" for field in table.fields] == [
        "city STRING", "id STRING", "label STRING", "dt STRING", "at ROW<x: INT, y: INT>",
    ]  # fmt: skip
    assert read(table)[0] == {"city": None, "id": "1", "label": "apple", "dt": "a", "at": {"x": 1, "y": None}}
    with pytest.raises(RuntimeError, match="none"):
        catalog.alter_table("db.t", [SchemaChange.drop_column("none")])
    catalog.alter_table("db.missing", [], ignore_if_not_exists=True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ("db", "t", None, None)),
        ("db.t$branch_dev", ("db", "t", "dev", None)),
        ("db.t$branch_dev$files", ("db", "t", "dev", "files")),
        ("`a.b`.`t.u`$files", ("a.b", "t.u", None, "files")),
    ],
)
def test_identifiers(text: str, parts: tuple[str | None, ...]) -> None:
    name = Identifier.from_string(text)
    found = (name.get_database_name(), name.get_table_name(), name.get_branch_name(), name.get_system_table_name())
    assert found == parts
    assert Identifier.create(*parts) == name  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "t", "`a.b", "a.", "`a`.`b`.`c`"])
def test_other_text_is_no_identifier(text: str) -> None:
    with pytest.raises(ValueError, match="is no name of a table"):
        Identifier.from_string(text)


# Reads


def test_all_forms_of_rows(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder().with_projection(["name", "id"])
    splits, reader = builder.new_scan().plan().splits(), builder.new_read()
    rows = pa.table({"name": ["apple", None, "a%b"], "id": [1, 2, 3]})
    assert len(splits) == 2
    assert reader.to_arrow(splits) == rows
    assert reader.to_arrow_batch_reader(splits).read_all() == rows
    assert [row.get_field(1) for row in reader.to_iterator(splits)] == [1, 2, 3]
    assert reader.to_pandas(splits)["id"].tolist() == [1, 2, 3]
    assert reader.to_duckdb(splits, "rows").sql("SELECT sum(id) FROM rows").fetchall() == [(6,)]
    connection = duckdb.connect()
    assert reader.to_duckdb(splits, "rows", connection) is connection


def test_splits_are_read_elsewhere(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder()
    splits = pickle.loads(pickle.dumps(builder.new_scan().plan().splits()))
    assert [(split.partition.to_dict(), split.bucket, split.row_count) for split in splits] == [
        ({"dt": "a"}, 0, 2),
        ({"dt": "b"}, 0, 1),
    ]
    assert all(split.raw_convertible and split.merged_row_count() == split.row_count for split in splits)
    assert all(Path(path).is_file() for split in splits for path in split.file_paths)
    write(table, DATA)  # later rows are not in the splits
    assert [builder.new_read().to_arrow([split]).num_rows for split in splits] == [2, 1]
    assert builder.new_read().to_arrow(splits[::-1])["id"].to_pylist() == [3, 1, 2]
    assert builder.new_read().to_arrow([]) == COLUMNS.empty_table()


@pytest.mark.parametrize("keys", [[], ["id"]])
@pytest.mark.parametrize("shards", [3])
def test_shards_are_all_rows_once(catalog: pypaimon.Catalog, keys: list[str], shards: int) -> None:
    options = {"bucket": "4", "bucket-key": "id", "source.split.target-size": "1 b", "write-only": "true"}
    table = make(catalog, primary_keys=keys, options=options)
    for start in (10, 20, 2):
        write(table, DATA.set_column(0, "id", pa.array(range(start, start + 3), pa.int64())))
    builder = table.new_read_builder()
    found = [
        row["id"]
        for shard in range(shards)
        for row in builder.new_read().to_arrow(builder.new_scan().with_shard(shard, shards).plan().splits()).to_pylist()
    ]
    assert sorted(found) == sorted(row["id"] for row in read(table))
    assert len(found) == (10 if keys else 12)


def test_members_of_rows(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    assert read(table, lambda b: b.with_projection(["at.x", "id"])) == [
        {"at_x": 1, "id": 1}, {"at_x": None, "id": 2}, {"at_x": 3, "id": 3},
    ]  # fmt: skip
    assert read(table, lambda b: b.with_projection({"x": "at.x", "id": "id"}).with_limit(1)) == [{"x": 1, "id": 1}]

    def keep_three(builder: Any) -> Any:
        builder.with_projection(["id", "at.x"])
        return builder.with_filter(builder.new_predicate_builder().equal("at_x", 3))

    assert read(table, keep_three) == [{"id": 3, "at_x": 3}]
    with pytest.raises(ColumnNotFound, match="none"):
        table.new_read_builder().with_projection(["none"])


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_limits(catalog: pypaimon.Catalog, limit: int) -> None:
    table = make(catalog, partition_keys=["dt"])
    assert len(read(table, lambda builder: builder.with_limit(limit))) == min(limit, 3)


@pytest.mark.golden
def test_row_ids_are_columns(golden_root: Path) -> None:
    folder = golden_root / "public/row_tracking/warehouse/db.db/t"
    table = pypaimon.FileStoreTable.from_path(str(folder))
    ids = [pypaimon.SpecialFields.ROW_ID.name, pypaimon.SpecialFields.SEQUENCE_NUMBER.name]
    builder = table.new_read_builder().with_projection(ids)
    builder.with_filter(builder.new_predicate_builder().less_than(ids[0], 3))
    assert read_by(builder) == [dict(zip(ids, (n, 1))) for n in range(3)]
    assert not set(ids).intersection(table.new_read_builder().new_read().to_arrow([]).schema.names)


def test_filters_reach_the_plan(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder()
    builder.with_partition_filter(builder.new_predicate_builder().equal("dt", "b"))
    builder.with_filter(builder.new_predicate_builder().is_not_null("name"))
    (split,) = builder.new_scan().plan().splits()
    assert split.partition.values == ["b"]
    assert "dt" in builder.explain()


def test_slices_are_rows_by_position(catalog: pypaimon.Catalog) -> None:
    builder = make(catalog).new_read_builder()
    slices = [builder.new_scan().with_slice(*at).plan().splits() for at in ((0, 1), (1, 9))]
    found = [builder.new_read().to_arrow(splits)["id"].to_pylist() for splits in slices]
    assert found[0] + found[1] == builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist()
    assert len(found[0]) == 1
    with pytest.raises(InvalidArgument, match="simultaneously"):
        builder.new_scan().with_shard(0, 2).with_slice(0, 1)


NAMES = ["apple", None, "a%b", "b", ""]
METHODS: dict[str, tuple[Callable[[PredicateBuilder], Any], Callable[[str], bool]]] = {
    "equal": (lambda b: b.equal("name", "b"), lambda n: n == "b"),
    "not_equal": (lambda b: b.not_equal("name", "b"), lambda n: n != "b"),
    "less_than": (lambda b: b.less_than("name", "apple"), lambda n: n < "apple"),
    "less_or_equal": (lambda b: b.less_or_equal("name", "apple"), lambda n: n <= "apple"),
    "greater_than": (lambda b: b.greater_than("name", "apple"), lambda n: n > "apple"),
    "greater_or_equal": (lambda b: b.greater_or_equal("name", "apple"), lambda n: n >= "apple"),
    "is_not_null": (lambda b: b.is_not_null("name"), lambda _: True),
    "startswith": (lambda b: b.startswith("name", "a"), lambda n: n.startswith("a")),
    "endswith": (lambda b: b.endswith("name", "b"), lambda n: n.endswith("b")),
    "contains": (lambda b: b.contains("name", "%"), lambda n: "%" in n),
    "like": (lambda b: b.like("name", "a%"), lambda n: n.startswith("a")),
    "like _": (lambda b: b.like("name", "_"), lambda n: len(n) == 1),
    "like escaped": (lambda b: b.like("name", "a\\%b"), lambda n: n == "a%b"),
    "is_in": (lambda b: b.is_in("name", ["b", "", None]), lambda n: n in ("b", "")),
    "is_in nothing": (lambda b: b.is_in("name", []), lambda _: False),
    "is_not_in": (lambda b: b.is_not_in("name", ["b"]), lambda n: n != "b"),
    "is_not_in null": (lambda b: b.is_not_in("name", ["b", None]), lambda _: False),
    "between": (lambda b: b.between("name", "a", "b"), lambda n: "a" <= n <= "b"),
    "not_between": (lambda b: b.not_between("name", "a", "b"), lambda n: not "a" <= n <= "b"),
}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> pypaimon.FileStoreTable:
    made = CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("named"))})
    made.create_database("db", False)
    return make(made, rows=pa.table({"id": list(range(len(NAMES))), "name": NAMES}))


def matching(table: pypaimon.FileStoreTable, predicate: Any) -> list[str | None]:
    return [row["name"] for row in read(table, lambda builder: builder.with_filter(predicate))]


@pytest.mark.parametrize("method", METHODS)
def test_predicates_keep_what_pypaimon_keeps(named: pypaimon.FileStoreTable, method: str) -> None:
    build, keeps = METHODS[method]
    predicate = build(named.new_read_builder().new_predicate_builder())
    assert matching(named, predicate) == [name for name in NAMES if name is not None and keeps(name)]


def test_nulls_are_found(named: pypaimon.FileStoreTable) -> None:
    builder = named.new_read_builder().new_predicate_builder()
    assert matching(named, builder.is_null("name")) == [None]
    assert matching(named, builder.equal("name", None)) == []
    assert matching(named, None) == NAMES


trees = st.recursive(
    st.sampled_from(sorted(METHODS)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1)),
)


@settings(max_examples=settings().max_examples // 2)
@given(tree=trees)
def test_combined_predicates(named: pypaimon.FileStoreTable, tree: Any) -> None:
    builder = named.new_read_builder().new_predicate_builder()

    def build(tree: Any) -> Any:
        if isinstance(tree, str):
            return METHODS[tree][0](builder)
        return (builder.and_predicates if tree[0] == "and" else builder.or_predicates)(list(map(build, tree[1])))

    def keeps(tree: Any, name: str) -> bool:
        if isinstance(tree, str):
            return METHODS[tree][1](name)
        return (all if tree[0] == "and" else any)(keeps(each, name) for each in tree[1])

    assert matching(named, build(tree)) == [name for name in NAMES if name is not None and keeps(tree, name)]


def test_wrong_predicates(named: pypaimon.FileStoreTable) -> None:
    builder = named.new_read_builder().new_predicate_builder()
    assert builder.and_predicates([]) is None
    with pytest.raises(ValueError, match="The field none is not in field list"):
        builder.equal("none", 1)
    with pytest.raises(InvalidArgument, match="double it"):
        matching(named, builder.like("name", "a\\b"))
    with pytest.raises(InvalidArgument, match="choose one of"):
        matching(named, pypaimon.Predicate("near", 0, "name", ["x"]))


# Writes


def test_rows_in_all_forms(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, rows=COLUMNS.empty_table())
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow_batch(DATA.to_batches()[0])
    writer.write_pandas(DATA.to_pandas())
    writer.write_row({"id": 7, "name": "seven", "dt": "c", "at": None})
    messages = writer.prepare_commit()
    builder.new_commit().commit(messages, {"from": "here"})
    assert [row["id"] for row in read(table)] == [1, 1, 2, 2, 3, 3, 7]
    assert table.snapshot_manager().get_latest_snapshot().properties["from"] == "here"


def test_columns_must_be_those_of_the_table(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    for rows in (DATA.drop_columns(["name"]), DATA.append_column("more", pa.array([1, 2, 3]))):
        with pytest.raises(ValueError, match=r"name|more"):
            table.new_batch_write_builder().new_write().write_arrow(rows)


def test_batches_are_committed_once(catalog: pypaimon.Catalog) -> None:
    builder = make(catalog).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    commit.commit(writer.prepare_commit())
    with pytest.raises(RuntimeError, match="new_write"):
        writer.prepare_commit()
    with pytest.raises(RuntimeError, match="new_commit"):
        commit.commit([])


def test_aborted_files_are_gone(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    files = {path for path in Path(table.table_path).rglob("*") if path.is_file()}
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(DATA)
    messages = writer.prepare_commit()
    assert {path for path in Path(table.table_path).rglob("*") if path.is_file()} > files
    builder.new_commit().abort(messages)
    assert {path for path in Path(table.table_path).rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("replaced", "options", "left"),
    [
        ({}, {}, [3, 9]),
        ({"dt": "a"}, {}, [3, 9]),
        ({}, {"dynamic-partition-overwrite": "false"}, [9]),
        ({"dt": "a"}, {"dynamic-partition-overwrite": "false"}, [3, 9]),
    ],
)
@pytest.mark.parametrize("keys", [[], ["id", "dt"]])
def test_overwrites(
    catalog: pypaimon.Catalog, keys: list[str], replaced: dict[str, str], options: dict[str, str], left: list[int]
) -> None:
    table = make(catalog, partition_keys=["dt"], primary_keys=keys, options=options)
    write(table, DATA.slice(0, 1).set_column(0, "id", pa.array([9])), replaced)
    assert [row["id"] for row in read(table)] == left
    assert table.snapshot_manager().get_latest_snapshot().commit_kind == "OVERWRITE"


def test_rows_outside_of_an_overwrite_are_refused(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    with pytest.raises(InvalidArgument, match="b"):
        write(table, DATA, {"dt": "a"})
    assert len(read(table)) == 3


def test_truncation(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    table.new_batch_write_builder().new_commit().truncate_partitions([{"dt": "a"}])
    assert [row["id"] for row in read(table)] == [3]
    catalog.drop_partitions("db.t", [{"dt": "b"}])
    table.new_batch_write_builder().new_commit().truncate_table()
    assert read(table) == []


def test_numbered_commits_are_made_once(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    builder = table.new_stream_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    for number in (0, 1):
        writer.write_arrow(DATA)
        messages = writer.prepare_commit(number)
        commit.commit(messages, number)
        commit.commit(messages, number)
    assert len(read(table)) == 9


# History


def test_time_travel(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    table.create_tag("v1")
    write(table, DATA)
    time = table.snapshot_manager().get_snapshot_by_id(1).time_millis
    for option in ({"scan.snapshot-id": "1"}, {"scan.tag-name": "v1"}, {"scan.timestamp-millis": str(time)}):
        assert len(read(table.copy(option))) == 3
        assert len(read(table.copy(option).copy({next(iter(option)): None}))) == 6
    assert len(read(table.copy({"read.parallelism": "4"}))) == 6
    between = {"incremental-between": "1,2"}
    assert len(read(table.copy({**between, "scan.mode": "incremental"}))) == 3
    assert len(read(table.copy(between), lambda b: b.with_limit(2).with_projection(["id"]))) == 2
    with pytest.raises(ValueError, match="rescale"):
        table.copy({"bucket": "7"})


def test_tags(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    write(table, DATA)
    table.create_tag("a", 1, time_retained="1 d")
    catalog.create_tag("db.t", "b")
    with pytest.raises(pypaimon.TagAlreadyExistException) as raised:
        catalog.create_tag("db.t", "b")
    assert raised.value.tag == "b"  # type: ignore[attr-defined]
    table.rename_tag("b", "c")
    assert catalog.list_tags_paged("db.t", tag_name_prefix="c").elements == ["c"]
    page = catalog.list_tags_paged("db.t", max_results=1)
    assert (page.elements, page.next_page_token) == (["a"], "a")
    assert catalog.list_tags_paged("db.t", 1, page.next_page_token) == pypaimon.catalogs.PagedList(["c"])
    assert table.tag_manager().get_or_throw("a").trim_to_snapshot().id == table.tag_manager().get("a").id == 1
    assert catalog.get_tag("db.t", "a").tag_time_retained == "PT24H"
    table.rollback_to("a")
    assert table.snapshot_manager().get_latest_snapshot().id == 1
    with pytest.raises(ValueError, match="none"):
        table.rollback_to("none")
    assert (table.delete_tag("a"), table.delete_tag("a"), table.tag_manager().get("a")) == (True, False, None)


def test_branches(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    table.create_tag("v1")
    catalog.create_branch("db.t", "dev", "v1")
    dev = catalog.get_table("db.t$branch_dev")
    write(dev, DATA)
    assert (len(read(table)), len(read(dev)), len(read(table.copy({"branch": "dev"})))) == (3, 6, 6)
    assert (dev.current_branch(), table.branch_manager().branches()) == ("dev", ["dev"])
    catalog.fast_forward("db.t", "dev")
    assert len(read(table)) == 6
    catalog.drop_branch("db.t", "dev")
    with pytest.raises(pypaimon.BranchNotExistException):
        catalog.get_table("db.t$branch_dev")


def test_snapshots_and_schemas(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    write(table, DATA)
    snapshots = table.snapshot_manager()
    assert [each.id for each in snapshots.list_snapshots()] == [1, 2]
    assert (snapshots.try_get_earliest_snapshot().id, snapshots.get_snapshot_by_id(9)) == (1, None)
    assert snapshots.earlier_or_equal_time_mills(0) is None
    assert table.schema_manager.commit_changes([SchemaChange.drop_column("at")]).id == 1
    assert [len(each.fields) for each in table.schema_manager.list_all()] == [4, 3]
    assert table.options.bucket() == -1
    assert pypaimon.CoreOptions.SCAN_TAG_NAME.key() == "scan.tag-name"
    with pytest.raises(AttributeError):
        _ = pypaimon.CoreOptions.NONE


def test_system_tables(catalog: pypaimon.Catalog) -> None:
    make(catalog, partition_keys=["dt"])
    snapshots = catalog.get_table("db.t$snapshots")
    assert read(snapshots, lambda b: b.with_projection(["snapshot_id"])) == [{"snapshot_id": 1}]
    assert [each.spec for each in catalog.list_partitions_paged("db.t").elements] == [{"dt": "a"}, {"dt": "b"}]
    assert [e.record_count for e in catalog.list_partitions_paged("db.t", partition_name_pattern="dt=a*").elements] == [
        2
    ]
    with pytest.raises(TableNotExistException):
        catalog.get_table("db.t$none")
    with pytest.raises(Unsupported):
        snapshots.new_batch_write_builder()


def test_streams(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, primary_keys=["id"], options={"changelog-producer": "input"})
    builder = table.new_stream_read_builder().with_include_row_kind().with_projection(["id"]).with_consumer_id("me")
    plans, reader = builder.new_streaming_scan().stream_sync(), builder.new_read()
    assert reader.to_arrow(next(plans).splits()).to_pylist() == [{"_row_kind": "+I", "id": n} for n in (1, 2, 3)]
    write(table, DATA.slice(0, 1))
    assert reader.to_arrow(next(plans).splits()).to_pylist() == [{"_row_kind": "+I", "id": 1}]
    assert table.consumer_manager().consumer("me").next_snapshot == 2
    plans.close()
    table.consumer_manager().reset_consumer("me", pypaimon.Consumer(1))
    assert table.consumer_manager().consumers() == {"me": 1}


# Updates of tables with data evolution

EVOLUTION = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}
NAMED = pa.Table.from_pylist([{"_ROW_ID": 2, "name": "x"}, {"_ROW_ID": 0, "name": None}])
UPSERTED = pa.Table.from_pylist([{"id": 3, "name": "u"}, {"id": 4, "name": "v"}], COLUMNS)
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


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        (lambda u, _: u.update_by_arrow_with_row_id(DATA), "lack the column _ROW_ID"),
        (lambda u, _: u.delete_by_row_id([7]), "Row ID 7 does not belong"),
        (lambda u, _: u.delete_by_row_id([None]), "must not be null"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA, []), "must not be empty"),
        (lambda u, _: u.upsert_by_key([], ["id"]), "must not be empty"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA[:0], ["id"]), "must not be empty"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA, ["x"]), "is not in table schema"),
        (lambda u, _: u.upsert_by_arrow_with_key(DATA.select(["name"]), ["id"]), "is not in input data"),
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


# Refusals


def keyed(table: pypaimon.FileStoreTable) -> pypaimon.FileStoreTable:
    """Make a table with a primary key beside a table."""
    catalog = CatalogFactory.create({"warehouse": str(Path(table.table_path).parents[1])})
    return make(catalog, "db.keyed", primary_keys=["id"])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "merges": (lambda t: t.new_batch_write_builder().new_update().merge_into(DATA, on=["id"]), "merge"),
    "columns": (lambda t: t.new_batch_write_builder().new_write().with_write_type(["id"]), "append"),
    "callbacks": (lambda t: t.new_batch_write_builder().new_commit().add_commit_callback(print), "after commit"),
    "search": (lambda t: t.new_vector_search_builder(), "filter"),
    "keys of maps": (lambda t: t.new_read_builder().with_projection(["m['k']"]), "whole column"),
    "keyed changes": (lambda t: read(keyed(t).copy({"incremental-between": "1,2"})), "changes"),
    "bucket filters": (lambda t: t.new_stream_read_builder().with_buckets([1]), "partitions"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_calls_name_another_way(catalog: pypaimon.Catalog, what: str) -> None:
    call, hint = REFUSED[what]
    with pytest.raises(Unsupported, match=hint):
        call(make(catalog))


@pytest.mark.parametrize(("method", "module"), [("to_ray", "ray"), ("to_torch", "torch")])
def test_missing_libraries(
    catalog: pypaimon.Catalog, method: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = make(catalog).new_read_builder()
    splits = builder.new_scan().plan().splits()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Unsupported, match=f"{method} without {module}"):
        getattr(builder.new_read(), method)(splits)


def test_a_torch_dataset_is_rows_by_position(catalog: pypaimon.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = make(catalog).new_read_builder().with_projection(["id"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    rows = builder.new_read().to_torch(builder.new_scan().plan().splits())
    assert (len(rows), rows[1], rows.__getitems__([2, 0])) == (3, {"id": 2}, [{"id": 3}, {"id": 1}])
    with pytest.raises(Unsupported):
        builder.new_read().to_torch([], streaming=True)


def test_tables_have_morrows_own_methods(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    assert isinstance(catalog.morrow, morrow.Catalog)
    table.morrow.update({"name": "'x'"}, "id = 1")
    assert read(table)[0]["name"] == "x"
    with pytest.raises(AttributeError, match=re.escape("table.morrow")):
        _ = table.nothing
