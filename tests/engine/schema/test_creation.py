"""The first schema of a table."""

from __future__ import annotations

import time
from typing import Any

import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema, format_schema, parse_schema
from morrow.engine.schema.creation import build_first_schema
from morrow.engine.structs import replace

COLUMNS = "dt STRING, id BIGINT, name STRING COMMENT 'of whom' DEFAULT 'nobody'"


def made(schema: Any = COLUMNS, **arguments: Any) -> TableSchema:
    return build_first_schema(schema, where="/t", **arguments)


def test_everything_there_is_to_say() -> None:
    schema = made(
        primary_keys=["dt", "id"],
        partition_keys="dt",
        options={"bucket": 4, "deletion-vectors.enabled": True, "compaction.delete-ratio-threshold": 0.5, "my": "own"},
        comment="people",
        defaults={"name": "somebody"},
    )

    assert schema.fields == (
        t.DataField(0, "dt", t.VarCharType(nullable=False)),
        t.DataField(1, "id", t.BigIntType(nullable=False)),
        t.DataField(2, "name", t.VarCharType(), "of whom", "somebody"),
    )
    assert (schema.id, schema.version, schema.highest_field_id) == (0, 3, 2)
    assert (schema.primary_keys, schema.partition_keys, schema.comment) == (("dt", "id"), ("dt",), "people")
    assert schema.options == {
        "bucket": "4",
        "deletion-vectors.enabled": "true",
        "compaction.delete-ratio-threshold": "0.5",
        "my": "own",
    }
    assert schema.time_millis == pytest.approx(time.time() * 1000, abs=60_000)
    assert parse_schema(format_schema(schema), "schema-0") == schema


def test_keys_may_stand_in_sql_or_in_options() -> None:
    in_arguments = made(primary_keys=["id", "dt"], partition_keys=["dt"])
    in_sql = made(f"{COLUMNS}, PRIMARY KEY (id, dt)", options={"partition": "dt"})
    in_options = made(options={"primary-key": "id, dt", "partition": "dt"})

    assert replace(in_sql, time_millis=0) == replace(in_options, time_millis=0) == replace(in_arguments, time_millis=0)
    assert in_options.options == {}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"primary_keys": "id", "options": {"primary-key": "id"}}, r"the primary key is given twice, as \(id\) and as"),
        ({"schema": "a INT PRIMARY KEY", "primary_keys": "a"}, "the primary key is given twice"),
        ({"schema": "a INT, A INT, a STRING"}, "the column 'a' is named more than once"),
        ({"schema": "id INT, dt INT, Straße INT, STRASSE INT"}, "'Straße' and 'STRASSE' differ in case alone"),
        ({"schema": "id INT, dt INT, m MAP<INT, ROW<a INT, A INT>>"}, "'m.value.a' and 'm.value.A' differ in case"),
        ({"primary_keys": ["id", "id"]}, "the primary key 'id' is named more than once"),
        ({"options": {"bucket": [4]}}, r"'bucket' has the value \[4\]; give text, a number, True or False"),
        ({"options": {5: "x"}}, "5 is not an option's name"),
        ({"defaults": {"id": "x"}}, "the column 'id': the default value 'x' is not a valid BIGINT"),
        ({"schema": "a INT DEFAULT 'x'"}, "the column 'a': the default value 'x' is not a valid INT"),
        ({"options": {"buckets": "4"}}, "did you mean 'bucket'"),
    ],
)
def test_what_contradicts_itself(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        made(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"primary_keys": "nope"}, {"partition_keys": ["dt", "nope"]}, {"defaults": {"nope": 1}}]
)
def test_what_is_no_column(arguments: dict[str, Any]) -> None:
    with pytest.raises(ColumnNotFound, match="'nope' is not a column; the columns are dt, id, name"):
        made(**arguments)


def test_what_morrow_does_not_write_is_not_made() -> None:
    with pytest.raises(Unsupported, match=r"'pk-clustering-override' = 'true' is not supported"):
        made(options={"pk-clustering-override": True})
    with pytest.raises(Unsupported, match="the file format 'csv'"):
        made(options={"file.format": "csv"})
