"""ALTER TABLE: changes of columns, comments and options, as one version of the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import Unsupported
from morrow.engine.schema.changes import (
    AddColumn,
    DropColumn,
    MoveColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullable,
    SetOption,
    SetTableComment,
    SetType,
)
from morrow.engine.schema.changes import (
    Place as Where,
)
from morrow.spark.catalogs.defaults import default_text
from morrow.spark.catalogs.place import Place, Question, full_name
from morrow.spark.catalogs.read import load
from morrow.spark.source.secret_options import check_no_secrets
from morrow.spark.types.to_paimon import check_collations, paimon_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.engine.format.types import DataType
    from morrow.tables.table import Table

COMMENT = "comment"
"""The property that is a table's comment."""
FIXED = {"location": "SET LOCATION", "collation": "DEFAULT COLLATION", "provider": "another provider"}
"""Properties that a table's folder, its types and its catalog decide, and what sets them."""


def _alter(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    table = place.table(full_name(question["namespace"], question["name"]))
    given = [
        {**told, "text": _default(place, table, told)} if "default" in told else told for told in question["changes"]
    ]
    dropped = {told["path"][0] for told in given if told["verb"] == "drop column" and len(told["path"]) == 1}
    if dropped >= set(table.schema.names):
        if all(told["verb"] == "drop column" for told in given):
            raise Unsupported("dropping all columns of a table", where=table.path, hint="drop the table")
        raise Unsupported(
            "ALTER TABLE ... REPLACE COLUMNS, whose columns would not have their values,",
            hint="rename, alter, drop and add columns",
        )
    changes = [_CHANGES[told["verb"]](told) for told in given if not _is_done(told, table)]
    if changes:
        table.alter(*changes)
    return load(place, question)


def _is_done(told: Mapping[str, Any], table: Table) -> bool:
    """Returns whether DROP COLUMN IF EXISTS finds none."""
    return bool(told.get("if exists")) and told["path"][0] not in table.schema.names


def _default(place: Place, table: Table, told: Mapping[str, Any]) -> str | None:
    """Returns the text of a new default value; None removes the one there is."""
    if len(told["path"]) != 1:
        raise Unsupported(f"a default value of {'.'.join(told['path'])}, which is a member of a column,")
    name = told["path"][0]
    kind = table._newest.column(name).type
    return default_text(place.spark, told["default"], kind, name) if told["default"] else None


def _type(told: Mapping[str, Any]) -> DataType:
    from pyspark.sql.types import StructType

    kind = StructType.fromJson(json.loads(told["type"])).fields[0].dataType
    check_collations(kind, ".".join(told["path"]))
    return paimon_type(kind, ".".join(told["path"]), nullable=told.get("nullable", True))


def _position(told: Mapping[str, Any]) -> Position | None:
    if "after" in told:
        return Position(Where.AFTER, told["after"])
    return Position(Where.FIRST) if told.get("first") else None


def _path(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(told["path"])


def _moved(told: Mapping[str, Any]) -> SchemaChange:
    position = _position(told)
    if position is None:
        raise Unsupported(f"moving the column {'.'.join(told['path'])} nowhere")
    return MoveColumn(_path(told), position)


def _option(told: Mapping[str, Any]) -> SchemaChange:
    check_no_secrets([told["key"]])
    if told["key"] in FIXED:
        raise Unsupported(f"ALTER TABLE with {FIXED[told['key']]}")
    return SetTableComment(told["value"]) if told["key"] == COMMENT else SetOption(told["key"], told["value"])


def _no_option(told: Mapping[str, Any]) -> SchemaChange:
    return SetTableComment(None) if told["key"] == COMMENT else RemoveOption(told["key"])


def _check_properties(_place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Refuses secrets before the statement is a plan, which Spark shows with them in its events."""
    check_no_secrets(question["properties"])


_CHANGES: Mapping[str, Callable[[Mapping[str, Any]], SchemaChange]] = {
    "set option": _option,
    "unset option": _no_option,
    "add column": lambda told: AddColumn(_path(told), _type(told), told["comment"], _position(told)),
    "drop column": lambda told: DropColumn(_path(told)),
    "rename column": lambda told: RenameColumn(_path(told), told["to"]),
    "set type": lambda told: SetType(_path(told), _type(told)),
    "set nullable": lambda told: SetNullable(_path(told), told["nullable"]),
    "set comment": lambda told: SetComment(_path(told), told["comment"] or None),
    "set default": lambda told: SetDefault(_path(told), told["text"]),
    "move column": _moved,
}
"""By the verb of a change in `Questions.java`."""

ANSWERS = {"alter table": _alter, "check properties": _check_properties}
