"""pypaimon's interface over Morrow: programs as they are written for pypaimon, with another import."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from morrow.compat.pypaimon.catalog.catalog_exception import TableNotExistException
from morrow.compat.pypaimon.schema.data_types import ArrayType, AtomicType, DataField
from morrow.compat.pypaimon.schema.schema_change import Move

import morrow
import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import CatalogFactory, Identifier, Schema, SchemaChange
from morrow.engine.errors import Unsupported
from tests.compat.pypaimon.tables import COLUMNS, make, read

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
    with pytest.raises(ValueError, match="is not a table name"):
        Identifier.from_string(text)


# Refusals


def keyed(table: pypaimon.FileStoreTable) -> pypaimon.FileStoreTable:
    """Make a table with a primary key beside a table."""
    catalog = CatalogFactory.create({"warehouse": str(Path(table.table_path).parents[1])})
    return make(catalog, "db.keyed", primary_keys=["id"])


def evolving(table: pypaimon.FileStoreTable) -> pypaimon.FileStoreTable:
    """Make a table with data evolution beside a table."""
    catalog = CatalogFactory.create({"warehouse": str(Path(table.table_path).parents[1])})
    return make(catalog, "db.evolving", options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"})


def overwrite_columns(table: pypaimon.FileStoreTable) -> None:
    table.new_batch_write_builder().overwrite().new_write().with_write_type(["id"])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "updates by row id": (lambda t: t.new_batch_write_builder().new_update().new_update_by_row_id(), "update_rows"),
    "overwritten columns": (lambda t: overwrite_columns(evolving(t)), "overwrite"),
    "callbacks": (lambda t: t.new_batch_write_builder().new_commit().add_commit_callback(print), "after commit"),
    "search": (lambda t: t.new_vector_search_builder(), "table.morrow.search"),
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
