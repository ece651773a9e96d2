"""A table as the JVM knows it: columns, keys, properties, and the state that a query reads."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.format import types as t
from morrow.engine.options.declared.table import PRIMARY_KEY
from morrow.scans.table_scan import Scan
from morrow.spark.reading.hidden import PLACES, hidden_fields, row_id
from morrow.spark.types.to_paimon import COMMENT
from morrow.spark.types.to_spark import default_sql, spark_schema, spark_type, with_nullable_members
from morrow.tables.format_table import FormatTable
from morrow.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

    from morrow.engine.plan.request import ScanRequest

PROVIDER = "paimon"
SET = "set"
"""The settings that have chosen a state, of those states that are made when they are read."""
DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Where Spark looks for the default value of a column: for rows to come, and for files without the column."""


def of_table(table: Table, scan: Scan, name: str, *, writable: bool, set: Sequence[str] = ()) -> dict[str, object]:
    """Describes the state of a table that `scan` reads; `name` is the full name by which it is asked for again.

    `set`: the settings of the session that have chosen the state, of which no rows can be changed then.
    """
    request = scan.request
    snapshot = request.snapshot
    state = None if snapshot is None else (snapshot.id, snapshot.time_millis)
    return {
        "table": name,
        "schema": columns(scan.fields).json(),
        "state": packed(table.path, request, set=set),
        "version": str((table.path, table.branch, request.schema.id, request.schema.time_millis, state)),
        "keys": list(row_id(request.schema, request.options)),
        "partitions": list(request.schema.partition_keys),
        "hidden": hidden(request),
        "places": list(PLACES),
        "properties": properties(table),
        "writable": writable,
        "set": list(set),
    }


def hidden(request: ScanRequest) -> list[dict[str, object]]:
    """Describes the hidden columns of a table."""
    columns = spark_schema(hidden_fields(request.schema, request.options))
    return [{"name": each.name, "type": each.dataType.json(), "nullable": each.nullable} for each in columns.fields]


def of_rows(
    name: str, fields: Sequence[t.DataField], state: Mapping[str, object], *, streams: bool
) -> dict[str, object]:
    """Describes a system table, whose rows are made when they are read."""
    return {
        "table": name,
        "schema": columns(fields).json(),
        "state": dict(state),
        "version": str((name, dict(state))),
        "partitions": [],
        "properties": {"provider": PROVIDER},
        "writable": False,
        "streams": streams,
    }


def of_folder(name: str, table: FormatTable, state: Mapping[str, object]) -> dict[str, object]:
    """Describes a format table: what its files hold when they are read."""
    comment = {} if table.comment is None else {"comment": table.comment}
    place = {"provider": table.format, "location": table.path, "is_managed_location": "true"}
    return {
        **of_rows(name, table.fields, state, streams=False),
        "keys": [],
        "partitions": list(table.partition_keys),
        "places": [],
        "properties": {**table.options, **comment, **place},
        "writable": True,
    }


def packed(path: str, request: ScanRequest, *, set: Sequence[str] = ()) -> str:
    """Packs what a query reads as text: with the table's name it gives the rows of that very state."""
    return base64.b64encode(pickle.dumps((path, request, tuple(set)))).decode("ascii")


def set_by(state: Mapping[str, Any] | str | None) -> Sequence[str]:
    """Returns the settings that have chosen a state, which is packed text or made when it is read."""
    if isinstance(state, Mapping):
        return cast("Sequence[str]", state.get(SET, ()))
    return () if state is None else unpacked(state)[-1]


def unpacked(text: str) -> tuple[str, ScanRequest, Sequence[str]]:
    """Returns what `packed` has packed, in this process."""
    path, request, set = pickle.loads(base64.b64decode(text))
    return path, request, set


def columns(fields: Sequence[t.DataField]) -> StructType:
    """Returns the columns' Spark schema, with comments, lengths and default values. Raises `Unsupported`."""
    from pyspark.sql.types import StructField, StructType

    given = with_nullable_members(fields)
    return StructType(
        [StructField(f.name, _type(f), f.type.nullable, _metadata(f, spark_type(f.type, f.name))) for f in given]
    )


def properties(table: Table) -> dict[str, str]:
    """Returns the options of a table and its properties by Spark's names."""
    own = dict(table.options)
    if table.primary_keys:
        own[PRIMARY_KEY.key] = ",".join(table.primary_keys)
    comment = {} if table.comment is None else {"comment": table.comment}
    # Without the last, SHOW CREATE TABLE would name the folder, and make an external table elsewhere.
    return {**own, **comment, "provider": PROVIDER, "location": table.path, "is_managed_location": "true"}


def _type(field: t.DataField) -> SparkType:
    """Returns the type that statements show. CHAR is VARCHAR: Spark would pad what it reads and writes."""
    from pyspark.sql.types import VarcharType

    kind = field.type
    if isinstance(kind, (t.CharType, t.VarCharType)) and kind.length < t.VarCharType().length:
        return VarcharType(kind.length)
    return spark_type(kind, field.name)


def _metadata(field: t.DataField, kind: SparkType) -> dict[str, str]:
    found = {} if field.description is None else {COMMENT: field.description}
    if field.default_value is not None:
        found |= dict.fromkeys(DEFAULTS, default_sql(field, kind))
    return found
