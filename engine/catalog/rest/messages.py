"""The JSON of REST requests: schemas, changes of schemas, names. Members are those of Paimon's OpenAPI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from morrow.engine.catalog.names import BRANCH_PREFIX, MARK
from morrow.engine.errors import StorageError, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.type_json import field_to_json, to_json
from morrow.engine.options.declared.table import TYPE
from morrow.engine.options.given import Options
from morrow.engine.schema import changes as change
from morrow.engine.schema.changes import Place, Position, SchemaChange

C = TypeVar("C", bound=SchemaChange)


def identifier(database: str, table: str) -> dict[str, str]:
    """Returns the name of a table as requests hold it."""
    return {"database": database, "object": table}


def object_of(table: str, branch: str) -> str:
    """Returns the name of a branch of a table: ``t``, ``t$branch_dev``."""
    return table if branch == MAIN_BRANCH else f"{table}{MARK}{BRANCH_PREFIX}{branch}"


def schema_of(schema: TableSchema) -> dict[str, Any]:
    """Returns a schema without its number."""
    return {
        "fields": [field_to_json(field) for field in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
    }


def change_of(made: SchemaChange) -> dict[str, Any]:
    """Returns a change of a schema. Raises `Unsupported` for one that the servers do not know."""
    write = WRITERS.get(type(made))
    if write is None:
        raise Unsupported(f"the change {type(made).__name__} in a REST catalog")
    return write(made)


def _added(made: change.AddColumn) -> dict[str, Any]:
    move = None if made.position is None else _move(made.path, made.position)
    return {
        "action": "addColumn",
        "fieldNames": list(made.path),
        "dataType": to_json(made.type),
        "comment": made.comment,
        "move": move,
    }


def _move(path: tuple[str, ...], position: Position) -> dict[str, Any]:
    return {"fieldName": path[-1], "referenceFieldName": position.neighbour, "type": MOVES[position.place]}


def _of_column(action: str, **members: str) -> Callable[[Any], dict[str, Any]]:
    """Returns the writer of a change of one column: the names of its members, by the attributes that hold them."""

    def write(made: change.ColumnChange) -> dict[str, Any]:
        return {"action": action, "fieldNames": list(made.path)} | {
            member: getattr(made, name) for name, member in members.items()
        }

    return write


def _typed(made: change.SetType) -> dict[str, Any]:
    kept = {"newDataType": to_json(made.type), "keepNullability": made.keep_nullability}
    return {"action": "updateColumnType", "fieldNames": list(made.path), **kept}


MOVES = {Place.FIRST: "FIRST", Place.LAST: "LAST", Place.AFTER: "AFTER", Place.BEFORE: "BEFORE"}
WRITERS: dict[type[SchemaChange], Callable[[Any], dict[str, Any]]] = {
    change.AddColumn: _added,
    change.DropColumn: _of_column("dropColumn"),
    change.RenameColumn: _of_column("renameColumn", new_name="newName"),
    change.MoveColumn: lambda made: {"action": "updateColumnPosition", "move": _move(made.path, made.position)},
    change.SetType: _typed,
    change.SetNullable: _of_column("updateColumnNullability", nullable="newNullability"),
    change.SetComment: _of_column("updateColumnComment", comment="newComment"),
    change.SetDefault: _of_column("updateColumnDefaultValue", default="newDefaultValue"),
    change.SetOption: lambda made: {"action": "setOption", "key": made.key, "value": made.value},
    change.RemoveOption: lambda made: {"action": "removeOption", "key": made.key},
    change.SetTableComment: lambda made: {"action": "updateComment", "comment": made.comment},
}


def told_schema(answer: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the schema in what a server says of a table. Raises `StorageError` where that is none."""
    found = answer.get("schema") or {}
    if not isinstance(found, dict) or not isinstance(found.get("partitionKeys") or [], list):
        raise StorageError(f"{where}: the server does not say what the schema is")
    return found


def kind_of(schema: Mapping[str, Any]) -> str:
    """Returns the option ``type`` of a schema, in lower case; empty for a table of Paimon's own."""
    return (Options(texts(schema.get("options"))).text(TYPE) or "").strip().lower()


def texts(node: Any) -> dict[str, str]:
    """Returns the members of a JSON object that are not null, as text; none of another value."""
    return {str(key): str(value) for key, value in node.items() if value is not None} if isinstance(node, dict) else {}
