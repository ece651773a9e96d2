"""Descriptions of tables: columns, keys, properties and the state that a query reads; SHOW CREATE TABLE.

SHOW CREATE TABLE returns a statement that every version of Spark accepts, and Java Paimon too.
"""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.format import types as t
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PRIMARY_KEY, TYPE
from morrow.engine.redaction import hide_secrets
from morrow.scans.table_scan import Scan
from morrow.spark.catalogs.questions import Place, Question
from morrow.spark.expressions import quote_name
from morrow.spark.reading.distributed import list_carried, list_hidden_fields, list_places, list_row_id
from morrow.spark.types import COMMENT, format_spark_default, make_members_nullable, to_spark_schema, to_spark_type
from morrow.tables.format_table import FormatTable
from morrow.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

    from morrow.engine.plan.scan_plan import ScanRequest

PROVIDER = "paimon"
SET = "set"
"""The key of the settings that have chosen a state, in states whose rows are computed by the read."""
DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""The metadata keys in which Spark looks for a default value: for new rows, and for files without the column."""


def describe_table(
    table: Table, scan: Scan, name: str, *, writable: bool, set: Sequence[str] = ()
) -> dict[str, object]:
    """Describe the table state that `scan` reads. Spark uses `name`, the full name, in later requests.

    `set`: the session settings that have chosen the state. If there are any, its rows cannot be changed.
    """
    request = scan.request
    snapshot = request.snapshot
    state = None if snapshot is None else (snapshot.id, snapshot.time_millis)
    return {
        "table": name,
        "schema": to_catalog_schema(scan.fields).json(),
        "state": pack_state(table.path, request, set=set),
        "version": str((table.path, table.branch, request.schema.id, request.schema.time_millis, state)),
        "keys": list(list_row_id(request.schema, request.options)),
        "partitions": list(request.schema.partition_keys),
        "hidden": describe_hidden(request),
        "places": list(list_places(request.options)),
        "carried": list(list_carried(request.options)),
        "properties": collect_properties(table),
        "writable": writable,
        "set": list(set),
    }


def describe_hidden(request: ScanRequest) -> list[dict[str, object]]:
    """Describe the hidden columns of a table."""
    columns = to_spark_schema(list_hidden_fields(request.schema, request.options))
    return [{"name": each.name, "type": each.dataType.json(), "nullable": each.nullable} for each in columns.fields]


def describe_rows(
    name: str, fields: Sequence[t.DataField], state: Mapping[str, object], *, streams: bool
) -> dict[str, object]:
    """Describe a system table, whose rows are computed by the read."""
    return {
        "table": name,
        "schema": to_catalog_schema(fields).json(),
        "state": dict(state),
        "version": str((name, dict(state))),
        "partitions": [],
        "properties": {"provider": PROVIDER},
        "writable": False,
        "streams": streams,
    }


def describe_folder(name: str, table: FormatTable, state: Mapping[str, object]) -> dict[str, object]:
    """Describe a format table, whose rows are the contents of its files at the time of the read."""
    comment = {} if table.comment is None else {"comment": table.comment}
    place = {"provider": table.format, "location": table.path, "is_managed_location": "true"}
    return {
        **describe_rows(name, table.fields, state, streams=False),
        "keys": [],
        "partitions": list(table.partition_keys),
        "places": [],
        "carried": [],
        "properties": {**table.options, **comment, **place},
        "writable": True,
    }


def pack_state(path: str, request: ScanRequest, *, set: Sequence[str] = ()) -> str:
    """Pack the state that a query reads as text. With the table's name, the text identifies the rows of this state."""
    return base64.b64encode(pickle.dumps((path, request, tuple(set)))).decode("ascii")


def set_by(state: Mapping[str, Any] | str | None) -> Sequence[str]:
    """Return the settings that have chosen a state, given as packed text or as a mapping."""
    if isinstance(state, Mapping):
        return cast("Sequence[str]", state.get(SET, ()))
    return () if state is None else unpack_state(state)[-1]


def unpack_state(text: str) -> tuple[str, ScanRequest, Sequence[str]]:
    """Unpack a state that `pack_state` has packed in this process."""
    path, request, set = pickle.loads(base64.b64decode(text))
    return path, request, set


def to_catalog_schema(fields: Sequence[t.DataField]) -> StructType:
    """Return the Spark schema of columns, with comments, lengths and default values. Raises `Unsupported`."""
    from pyspark.sql.types import StructField, StructType

    given = make_members_nullable(fields)
    return StructType([StructField(f.name, _to_shown_type(f), f.type.nullable, _build_metadata(f)) for f in given])


def collect_properties(table: Table) -> dict[str, str]:
    """Return the options and properties of a table under Spark's names."""
    own = dict(table.options)
    if table.primary_keys:
        own[PRIMARY_KEY.key] = ",".join(table.primary_keys)
    comment = {} if table.comment is None else {"comment": table.comment}
    # Without `is_managed_location`, SHOW CREATE TABLE would print the location and so define an external table.
    is_external = table._metadata.owner.is_external
    kind = {"is_managed_location": "false", EXTERNAL: "true"} if is_external else {"is_managed_location": "true"}
    return {**own, **comment, "provider": PROVIDER, "location": table.path, **kind}


def _to_shown_type(field: t.DataField) -> SparkType:
    """Return the type that statements show. Spark itself pads CHAR values, in reads, writes and comparisons."""
    from pyspark.sql.types import CharType, VarcharType

    kind = field.type
    if isinstance(kind, t.CharType):
        return CharType(kind.length)
    if isinstance(kind, t.VarCharType) and kind.length < t.VarCharType().length:
        return VarcharType(kind.length)
    return to_spark_type(kind, field.name)


def _build_metadata(field: t.DataField) -> dict[str, str]:
    found = {} if field.description is None else {COMMENT: field.description}
    if field.default_value is not None:
        found |= dict.fromkeys(DEFAULTS, _format_default(field))
    return found


PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BARE = (t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType)
"""Types whose values are valid SQL literals without quotes."""
EXTERNAL = "external"
NOT_SHOWN = ("provider", "location", "is_managed_location", "comment", EXTERNAL)


def format_create_table(name: Sequence[str], table: Table | FormatTable) -> str:
    """Return the CREATE TABLE statement, with options in the order of their keys."""
    columns = ",\n  ".join(_format_column(field) for field in table.scan().fields)
    provider = table.format if isinstance(table, FormatTable) else PROVIDER
    parts = [f"CREATE TABLE {'.'.join(map(_quote_name, name))} (\n  {columns})", f"USING {provider}"]
    if table.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(_quote_name, table.partition_keys))})")
    if table.comment is not None:
        parts.append(f"COMMENT {quote_text(table.comment)}")
    known = table.options if isinstance(table, FormatTable) else collect_properties(table)
    if known.get(EXTERNAL) and not isinstance(table, FormatTable):
        parts.append(f"LOCATION {quote_text(table.path)}")
    own: Mapping[str, str] = hide_secrets(known)
    left_out = (*NOT_SHOWN, TYPE.key, FILE_FORMAT.key) if isinstance(table, FormatTable) else NOT_SHOWN
    options = [f"{quote_text(key)} = {quote_text(own[key])}" for key in sorted(own) if key not in left_out]
    if options:
        parts.append("TBLPROPERTIES (\n  " + ",\n  ".join(options) + ")")
    return "\n".join([*parts, ""])


def _format_column(field: t.DataField) -> str:
    said = [_quote_name(field.name), to_sql_type(field.type)]
    if not field.type.nullable:
        said.append("NOT NULL")
    if field.default_value is not None:
        said.append(f"DEFAULT {_format_default(field)}")
    if field.description is not None:
        said.append(f"COMMENT {quote_text(field.description)}")
    return " ".join(said)


def to_sql_type(kind: t.DataType) -> str:
    """Format a type in Spark's SQL. Raises `Unsupported` for a type that Spark does not have."""
    if isinstance(kind, t.RowType):
        return f"STRUCT<{', '.join(f'{_quote_name(field.name)}: {_format_member(field)}' for field in kind.fields)}>"
    if isinstance(kind, t.ArrayType):
        return f"ARRAY<{to_sql_type(kind.element)}>"
    if isinstance(kind, t.MapType):
        return f"MAP<{to_sql_type(kind.key)}, {to_sql_type(kind.value)}>"
    if isinstance(kind, (t.CharType, t.VarCharType)) and kind.length < t.VarCharType().length:
        return f"{'CHAR' if isinstance(kind, t.CharType) else 'VARCHAR'}({kind.length})"
    return to_spark_type(kind, "").simpleString().upper()


def _format_member(field: t.DataField) -> str:
    comment = "" if field.description is None else f" COMMENT {quote_text(field.description)}"
    return to_sql_type(field.type) + ("" if field.type.nullable else " NOT NULL") + comment


def _format_default(field: t.DataField) -> str:
    found = format_spark_default(field, to_spark_type(field.type, field.name))
    if not found.startswith("CAST('"):
        return found
    literal = found.removeprefix("CAST(").rpartition(" AS ")[0]
    if isinstance(field.type, BARE):
        return literal.strip("'")
    return literal if isinstance(field.type, (t.CharType, t.VarCharType)) else found


def _quote_name(name: str) -> str:
    return name if PLAIN.fullmatch(name) else quote_name(name)


def quote_text(text: str) -> str:
    """Format a text as a literal in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _show_create(place: Place, question: Question, _rows: DataFrame | None) -> str:
    name, state = question["table"], question["state"]
    # Format tables and object tables are the only ones whose state is a mapping and which are written.
    table = place.catalog.format_table(name) if isinstance(state, Mapping) else place.table(name)
    return format_create_table((place.name, *name.split(".", 1)), table)


CREATE_ANSWERS = {"show create": _show_create}
