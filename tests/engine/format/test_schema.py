"""Schema files of all versions, their keys, and errors for bad files."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.errors import ColumnNotFound, CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema, format_schema, list_nested_field_ids, make_key_field, parse_schema
from morrow.engine.format.types import from_json, to_json

PATH = "t/schema/schema-4"
NODE: dict[str, Any] = {
    "version": 3,
    "id": 4,
    "fields": [
        {"id": 0, "name": "dt", "type": "STRING NOT NULL", "description": "the day"},
        {"id": 1, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 5, "name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
    ],
    "highestFieldId": 6,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "id"],
    "options": {"bucket": "2", "owner": "me"},
    "comment": "orders",
    "timeMillis": 1_715_000_000_000,
}


def parsed(**changes: Any) -> TableSchema:
    """Parse the schema of `NODE` with these members changed; None removes a member."""
    node = {key: value for key, value in (NODE | changes).items() if value is not None}
    return parse_schema(json.dumps(node).encode(), PATH)


def test_a_schema_file() -> None:
    schema = parsed()

    assert (schema.id, schema.version, schema.highest_field_id, schema.comment) == (4, 3, 6, "orders")
    assert schema.fields == (
        t.DataField(0, "dt", t.VarCharType(nullable=False), "the day"),
        t.DataField(1, "id", t.BigIntType(nullable=False)),
        t.DataField(5, "tags", t.ArrayType(element=t.VarCharType())),
    )
    assert (schema.partition_keys, schema.primary_keys) == (("dt",), ("dt", "id"))
    assert schema.options == {"bucket": "2", "owner": "me"}
    assert schema.arrow().field("id") == pa.field("id", pa.int64(), nullable=False)


def test_rows_of_a_bucket_are_ordered_by_the_primary_key_without_partition_keys() -> None:
    assert parsed().trimmed_primary_keys == ("id",)
    assert parsed(primaryKeys=["dt"]).trimmed_primary_keys == ("dt",)
    assert parsed(primaryKeys=[]).trimmed_primary_keys == ()


def test_data_files_hold_copies_of_the_key_columns() -> None:
    assert parsed().key_fields == (t.DataField(1 + 1_073_741_823, "_KEY_id", t.BigIntType(nullable=False)),)
    nullable = t.DataField(9, "k", t.IntType())
    assert make_key_field(nullable) == t.DataField(9 + 1_073_741_823, "_KEY_k", t.IntType(nullable=False))


def test_a_key_may_move_between_partitions_when_it_lacks_a_partition_key() -> None:
    assert parsed(primaryKeys=["id"]).cross_partition
    assert not parsed().cross_partition
    assert not parsed(primaryKeys=[]).cross_partition


@pytest.mark.parametrize(
    ("version", "options"),
    [
        (None, {"bucket": "1", "file.format": "orc"}),
        (1, {"bucket": "1", "file.format": "orc"}),
        (2, {"file.format": "orc"}),
        (3, {}),
    ],
)
def test_older_versions_had_other_defaults(version: int | None, options: dict[str, str]) -> None:
    assert parsed(version=version, options={}).options == options


def test_options_that_are_set_are_kept_in_old_versions() -> None:
    explicit = {"bucket": "7", "file.format": "avro"}
    assert parsed(version=1, options=explicit).options == explicit


def test_members_that_may_be_missing() -> None:
    schema = parsed(comment=None, timeMillis=None)
    assert (schema.comment, schema.time_millis) == (None, None)


@pytest.mark.parametrize("member", ["id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options"])
def test_members_that_every_version_of_paimon_writes_are_required(member: str) -> None:
    with pytest.raises(CorruptFile, match=f"'{member}' is missing"):
        parsed(**{member: None})


@pytest.mark.parametrize("member", ["version", "comment", "timeMillis"])
def test_a_misspelt_member_is_no_missing_one(member: str) -> None:
    with pytest.raises(CorruptFile, match=f"looks like a damaged '{member}'"):
        parsed(**{member: None, member[:-1] + "~": 1})


def test_an_unknown_member_where_a_known_one_is_missing() -> None:
    """Newer versions add members and old ones lack some; a file with both kinds of difference has a damaged name."""
    assert parsed(from_the_future=5).id == 4
    assert parsed(timeMillis=None).id == 4
    with pytest.raises(Unsupported, match="timeMillis"):
        parsed(from_the_future=5, timeMillis=None)


def test_an_option_that_is_there_twice_was_another_one() -> None:
    data = json.dumps(NODE).encode()
    with pytest.raises(CorruptFile, match="two members 'bucket'"):
        parse_schema(data.replace(b'"owner"', b'"bucket"'), PATH)


def test_ids_of_fields_end_at_the_highest() -> None:
    with pytest.raises(CorruptFile, match="a field has the id 5, but the highest is said to be 4"):
        parsed(highestFieldId=4)
    with pytest.raises(CorruptFile, match="the field with the highest id, 8, is missing"):
        parsed(id=0, highestFieldId=8)
    assert parsed(id=3, highestFieldId=8).highest_field_id == 8  # fields were dropped later


def test_a_column_by_name() -> None:
    assert parsed().column("id").id == 1
    with pytest.raises(ColumnNotFound, match=r"no column 'ID'; did you mean 'id'\? the columns are dt, id, tags"):
        parsed().column("ID")


FIELD = {"id": 0, "name": "a", "type": "INT"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": None}, "'id' is missing"),
        ({"fields": None}, "'fields' is missing"),
        ({"fields": [{"id": 0, "type": "INT"}]}, "'name' is missing"),
        ({"fields": 3}, "wrong type"),
        ({"fields": [FIELD | {"id": "x"}]}, "wrong type"),
        ({"fields": [FIELD, FIELD | {"id": 1}]}, "two fields have the same name"),
        ({"fields": [FIELD, FIELD | {"name": "b"}]}, "two fields have the same id"),
        ({"primaryKeys": ["nope"]}, "'nope' is not among the fields"),
        ({"options": ["bucket"]}, "wrong type"),
    ],
)
def test_a_damaged_schema_file_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(CorruptFile, match=f"^{PATH}: .*{problem}"):
        parsed(**changes)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_bytes_that_are_no_json_object(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=f"^{PATH}: "):
        parse_schema(data, PATH)


@pytest.mark.parametrize("version", [4, "3", 1.5])
def test_a_version_that_is_not_known(version: Any) -> None:
    with pytest.raises(Unsupported, match=f"{PATH}: schema version {version} is not supported; upgrade"):
        parsed(version=version)


def test_an_unknown_type_names_the_file() -> None:
    with pytest.raises(Unsupported, match=f"{PATH}: the type 'UUID'"):
        parsed(fields=[{"id": 0, "name": "a", "type": "UUID"}], partitionKeys=[], primaryKeys=[])


def test_members_of_rows_have_ids_at_every_depth() -> None:
    point = t.RowType(fields=(t.DataField(8, "x", t.IntType()), t.DataField(9, "y", t.IntType())))
    outer = t.RowType(fields=(t.DataField(7, "p", t.ArrayType(element=point)),))

    assert list_nested_field_ids(t.MapType(key=t.IntType(), value=outer)) == (7, 8, 9)
    assert list_nested_field_ids(t.IntType()) == ()


AS_JAVA_PRINTS = """{
  "version" : 3,
  "id" : 1,
  "fields" : [ {
    "id" : 0,
    "name" : "id",
    "type" : "INT NOT NULL"
  }, {
    "id" : 1,
    "name" : "größe",
    "type" : {
      "type" : "MAP NOT NULL",
      "key" : "STRING",
      "value" : {
        "type" : "ROW",
        "fields" : [ {
          "id" : 2,
          "name" : "q",
          "type" : "TIMESTAMP(3)"
        } ]
      }
    },
    "description" : "a \\"size\\"",
    "defaultValue" : "5"
  } ],
  "highestFieldId" : 3,
  "partitionKeys" : [ ],
  "primaryKeys" : [ "id", "größe" ],
  "options" : {
    "bucket" : "1"
  },
  "comment" : "c",
  "timeMillis" : 1795218201436
}"""


def test_schemas_are_printed_as_java_prints_them() -> None:
    schema = parse_schema(AS_JAVA_PRINTS.encode(), PATH)
    assert format_schema(schema).decode() == AS_JAVA_PRINTS


def test_what_is_not_there_is_not_printed() -> None:
    text = format_schema(TableSchema(0, (), -1)).decode()
    assert '"options" : { },\n  "timeMillis" : 0\n}' in text
    assert "comment" not in text


@pytest.mark.parametrize(
    "data_type",
    [
        t.DecimalType(False, 10, 2),
        t.ArrayType(False, t.IntType(False)),
        t.VectorType(element=t.FloatType(), length=3),
        t.MultisetType(element=t.VarCharType()),
        t.MapType(key=t.IntType(False), value=t.ArrayType(element=t.DateType())),
        t.RowType(False, (t.DataField(4, "a", t.IntType(), "x", "1"), t.DataField(2, "b", t.VariantType()))),
    ],
)
def test_types_read_back_from_json(data_type: t.DataType) -> None:
    assert from_json(to_json(data_type)) == data_type
