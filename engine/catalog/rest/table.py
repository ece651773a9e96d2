"""The server's side of a table: schema changes, commits, tags, branches, rollback, and their JSON.

Requests whose answer was lost are sent again, after a check for the result of the first one, so nothing is done twice.
The JSON members are defined by Paimon's OpenAPI.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from morrow.engine.catalog.names import BRANCH_PREFIX, MARK
from morrow.engine.catalog.partition_statistics import partition_statistics
from morrow.engine.catalog.rest.client import Client, Refusal
from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    ColumnNotFound,
    CorruptFile,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    NotFound,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    TagNotFound,
    UnclearOutcome,
    Unsupported,
)
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema, format_schema, list_nested_field_ids, parse_schema
from morrow.engine.format.snapshot import Snapshot, parse_snapshot, parse_tag, to_snapshot_members
from morrow.engine.format.types import from_json_field, to_json, to_json_field
from morrow.engine.io.store import FileStore
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.plan.manifests import is_same_commit
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned, TableOwner
from morrow.engine.schema import schema_changes as change
from morrow.engine.schema.schema_changes import Place, Position, SchemaChange
from morrow.engine.units import MILLIS_PER_SECOND

NOT_FOUND: dict[str, type[NotFound]] = {
    "DATABASE": DatabaseNotFound,
    "TABLE": TableNotFound,
    "COLUMN": ColumnNotFound,
    "SNAPSHOT": SnapshotNotFound,
    "TAG": TagNotFound,
    "BRANCH": BranchNotFound,
}
UUID = "uuid"


def to_error(client: Client, refusal: Refusal) -> MorrowError:
    """Return the Morrow error for a refusal."""
    message, code = f"{client.where}: {refusal.message}", refusal.code
    if code == 404:
        return NOT_FOUND.get(refusal.kind, StorageError)(message)
    if code == 409:
        return AlreadyExists(message)
    if code == 400:
        return InvalidArgument(message)
    if code in (401, 403):
        return StorageError(f"{message}; check token.provider, the token or keys, and their permissions")
    if code in (405, 406, 501):
        return Unsupported(f"the request ({refusal.message})", where=client.where)
    doubt = "; whether it was done is not known" if refusal.order and refusal.may_be_done else ""
    return StorageError(f"{message} ({code}){doubt}")


@dataclass(frozen=True)
class RestTable(TableOwner):
    """One table on a server."""

    client: Client = field(repr=False)
    database: str
    table: str
    id: str | None
    store: FileStore = field(repr=False)
    root: str = field(repr=False)

    owns = Owned.SCHEMAS | Owned.SNAPSHOTS | Owned.TAGS | Owned.BRANCHES

    def latest_snapshot(self, branch: str) -> Snapshot | None:
        return self._snapshot(branch, "snapshot", wrapped=True)

    def commit_snapshot(self, branch: str, base: Snapshot | None, snapshot: Snapshot) -> bool:
        members = to_snapshot_members(snapshot)
        # Equal for equal snapshots, so that a commit that is sent twice is recognized.
        members = {UUID: str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(members, sort_keys=True))), **members}
        body: dict[str, Any] = {
            "tableId": self.id,
            "baseSnapshotUuid": None if base is None else base.extra.get(UUID),
            "snapshot": {name: value for name, value in members.items() if value is not None},
            "statistics": partition_statistics(self._metadata(branch), snapshot),
        }
        unclear, twice = "", False
        try:
            answer = self.client.post(*self._path(branch), "commit", body=body)
            if answer.get("success") is True:
                return True
            twice = answer.unclear
        except Refusal as refusal:
            if not refusal.may_be_done and refusal.code != 409:
                raise to_error(self.client, refusal) from None
            unclear = f"{refusal.message} ({refusal.code})" if refusal.code != 409 else ""
            twice = refusal.may_be_done
        try:
            done = self._was_committed(branch, snapshot, twice=twice)
        except MorrowError as error:  # any error: the snapshot may exist, and needs its files
            raise UnclearOutcome(f"{error}; whether the snapshot was committed is not known") from error
        if unclear and not done:
            raise UnclearOutcome(f"{self.client.where}: {unclear}; whether the snapshot was committed is not known")
        return done

    def add_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        body = {"partitionSpecs": [dict(spec) for spec in partitions], "ignoreIfExists": True}
        self._order("", "partitions", body=body)

    def report_done(self, partitions: Sequence[Mapping[str, str]]) -> None:
        self._order("", "partitions", "mark", body={"specs": [dict(spec) for spec in partitions]})

    def roll_back(self, branch: str, goal: Snapshot) -> None:
        here = self._metadata(branch)
        tag = None
        if here.snapshot_or_none(goal.id) != goal:
            tag = next((each.name for each in here.tags() if each.snapshot.id == goal.id), None)
        to: dict[str, Any] = {"type": "snapshot", "snapshotId": goal.id}
        if tag is not None:
            to = {"type": "tag", "tagName": tag}
        self._order(branch, "rollback", body={"instant": to})

    def commit_schema(self, branch: str, schema: TableSchema, changes: Sequence[object]) -> bool:
        made = [change_of(each) for each in cast("Sequence[SchemaChange]", changes)]
        try:
            self.client.post(*self._path(branch), body={"changes": made})
        except Refusal as refusal:
            if refusal.may_be_done and self._has_schema(branch, schema):
                return True
            if self._metadata(branch).schema_ids()[-1] >= schema.id:
                return False  # it was based on a schema that is no longer the newest
            raise to_error(self.client, refusal) from None
        return True

    def create_tag(self, branch: str, name: str, data: bytes) -> bool:
        tag = parse_tag(data, name, f"{self.client.where}, {self.database}.{self.table}")
        kept = tag.time_retained and f"{round(tag.time_retained.total_seconds() * MILLIS_PER_SECOND)} ms"
        body = {"tagName": name, "snapshotId": tag.snapshot.id, "timeRetained": kept}
        try:
            self.client.post(*self._path(branch), "tags", body=body)
        except Refusal as refusal:
            if refusal.code != 409:
                raise to_error(self.client, refusal) from None
            return refusal.unclear and self._metadata(branch).tag(name).snapshot.id == tag.snapshot.id
        return True

    def delete_tag(self, branch: str, name: str) -> bool:
        try:
            self.client.delete(*self._path(branch), "tags", name)
        except Refusal as refusal:
            if refusal.code != 404:
                raise to_error(self.client, refusal) from None
            return refusal.unclear
        return True

    def create_branch(self, branch: str, name: str, *, tag: str | None, snapshot: Snapshot | None) -> bool:
        if snapshot is not None and tag is None:
            raise Unsupported("a branch of a snapshot in a REST catalog", hint="make a tag of it, and a branch of that")
        try:
            self.client.post(*self._path(branch), "branches", body={"branch": name, "fromTag": tag})
        except Refusal as refusal:
            if refusal.code != 409:
                raise to_error(self.client, refusal) from None
            return refusal.unclear
        return True

    def delete_branch(self, name: str) -> None:
        try:
            self.client.delete(*self._path(""), "branches", name)
        except Refusal as refusal:
            if not (refusal.code == 404 and refusal.unclear):
                raise to_error(self.client, refusal) from None

    def rename_branch(self, name: str, new_name: str) -> None:
        self._order("", "branches", name, "rename", body={"toBranch": new_name})

    def fast_forward(self, branch: str, name: str) -> None:
        self._order(branch, "branches", name, "forward", body={})

    # Helpers

    def _path(self, branch: str) -> tuple[str, ...]:
        return "databases", self.database, "tables", to_object_name(self.table, branch) if branch else self.table

    def _metadata(self, branch: str) -> TableMetadata:
        """Return the metadata of a branch from its files, without asking the server."""
        return TableMetadata(self.store, self.root, branch)

    def _order(self, branch: str, *path: str, body: dict[str, Any]) -> None:
        try:
            self.client.post(*self._path(branch), *path, body=body)
        except Refusal as refusal:
            raise to_error(self.client, refusal) from None

    def _snapshot(self, branch: str, *path: str, wrapped: bool = False) -> Snapshot | None:
        """Return a snapshot, or None if there is none; `wrapped` if the answer has it inside of table totals."""
        try:
            answer = self.client.get(*self._path(branch), *path)
        except Refusal as refusal:
            if refusal.code == 404 and refusal.kind == "SNAPSHOT":
                return None
            raise to_error(self.client, refusal) from None
        found = answer.get("snapshot")
        if wrapped and isinstance(found, dict):
            found = found.get("snapshot")
        if found is None:
            return None
        return parse_snapshot(json.dumps(found).encode(), f"{self.client.where}, {self.database}.{self.table}")

    def _was_committed(self, branch: str, snapshot: Snapshot, *, twice: bool) -> bool:
        """Return whether an earlier request whose answer was lost committed this snapshot.

        Raises:
            StorageError: there may have been such a request (`twice`), but the snapshot of this id has since expired.
        """
        latest = self.latest_snapshot(branch)
        if latest is None or latest.id < snapshot.id:
            return False
        found = latest if latest.id == snapshot.id else self._snapshot(branch, "snapshots", str(snapshot.id))
        if found is None and twice:
            raise StorageError(f"{self.client.where}: snapshot {snapshot.id} has expired")
        return found is not None and is_same_commit(found, snapshot)

    def _has_schema(self, branch: str, schema: TableSchema) -> bool:
        here = self._metadata(branch)
        if schema.id not in here.schema_ids():
            return False
        there = here.schema(schema.id)
        same = [to_json_field(each) for each in there.fields] == [to_json_field(each) for each in schema.fields]
        return same and (there.options, there.comment) == (schema.options, schema.comment)


@dataclass(frozen=True)
class ExternalRestTable(RestTable):
    """A table in a folder that is not the server's.

    The server knows the newest schema. Clients write all files of the folder: snapshots, tags, branches and schemas.
    The client that opens a folder without a schema writes the server's, since Java's clients leave this file out.
    """

    owns = Owned.SCHEMAS
    is_external = True

    def commit_schema(self, branch: str, schema: TableSchema, changes: Sequence[object]) -> bool:
        is_servers = branch == MAIN_BRANCH and bool(changes)
        if is_servers and not super().commit_schema(branch, schema, changes):
            return False
        here = self._metadata(branch)
        path = here.paths.schema(schema.id)
        return here.store.create(path, format_schema(schema)) or self._has_schema(branch, schema)

    def refuse(self, owned: Owned, what: str) -> None:
        """Refuse changes of branches that would replace the schema without the server's knowledge, and allow others."""
        if Owned.BRANCHES in owned:
            super().refuse(owned, what)


@dataclass(frozen=True)
class RestPartitions:
    """The partitions of a format table that a server keeps (`PartitionRegistry`)."""

    client: Client = field(repr=False)
    database: str
    table: str

    @property
    def _path(self) -> tuple[str, ...]:
        return "databases", self.database, "tables", self.table, "partitions"

    def specs(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        query: dict[str, str] = {}
        seen: set[str] = set()
        while True:
            try:
                answer = self.client.get(*self._path, **query)
            except Refusal as refusal:
                raise to_error(self.client, refusal) from None
            entries, token = answer.get("partitions") or [], answer.get("nextPageToken")
            if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
                raise StorageError(f"{self.client.where}: the server gives no list of the partitions of {self.table}")
            found += [to_texts(each.get("spec")) for each in entries]
            if not token or not entries:
                return found
            if str(token) in seen:
                raise StorageError(f"{self.client.where}: the server gives a page of partitions again: {token!r}")
            seen.add(str(token))
            query = {"pageToken": str(token)}

    def create(
        self,
        specs: Sequence[Mapping[str, str]],
        statistics: Sequence[Mapping[str, object]] = (),
        *,
        ignore_if_exists: bool = True,
    ) -> None:
        measured = {"partitionStatistics": list(statistics), "replaceStatistics": True} if statistics else {}
        self._order(*self._path, body={"partitionSpecs": list(specs), "ignoreIfExists": ignore_if_exists, **measured})

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        self._order(*self._path, "drop", body={"partitionSpecs": list(specs), "ignoreIfNotExists": True})

    def _order(self, *path: str, body: dict[str, Any]) -> None:
        if not body["partitionSpecs"]:
            return
        try:
            self.client.post(*path, body=body)
        except Refusal as refusal:
            raise to_error(self.client, refusal) from None


def to_identifier(database: str, table: str) -> dict[str, str]:
    """Return the name of a table as in requests."""
    return {"database": database, "object": table}


def to_object_name(table: str, branch: str) -> str:
    """Return the name of a branch of a table: ``t``, ``t$branch_dev``."""
    return table if branch == MAIN_BRANCH else f"{table}{MARK}{BRANCH_PREFIX}{branch}"


def to_schema_json(schema: TableSchema) -> dict[str, Any]:
    """Return the JSON of a schema, without its id."""
    return {
        "fields": [to_json_field(field) for field in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
    }


def change_of(made: SchemaChange) -> dict[str, Any]:
    """Return the JSON of a schema change. Raises `Unsupported` for a change that servers do not know."""
    write = WRITERS.get(type(made))
    if write is None:
        raise Unsupported(f"the change {type(made).__name__} in a REST catalog")
    return write(made)


def _describe_added(made: change.AddColumn) -> dict[str, Any]:
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


def _make_column_writer(action: str, **members: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that writes a change of one column; `members` maps attributes to JSON members."""

    def write(made: change.ColumnChange) -> dict[str, Any]:
        return {"action": action, "fieldNames": list(made.path)} | {
            member: getattr(made, name) for name, member in members.items()
        }

    return write


def _describe_type_change(made: change.SetType) -> dict[str, Any]:
    kept = {"newDataType": to_json(made.type), "keepNullability": made.keep_nullability}
    return {"action": "updateColumnType", "fieldNames": list(made.path), **kept}


MOVES = {Place.FIRST: "FIRST", Place.LAST: "LAST", Place.AFTER: "AFTER", Place.BEFORE: "BEFORE"}
WRITERS: dict[type[SchemaChange], Callable[[Any], dict[str, Any]]] = {
    change.AddColumn: _describe_added,
    change.DropColumn: _make_column_writer("dropColumn"),
    change.RenameColumn: _make_column_writer("renameColumn", new_name="newName"),
    change.MoveColumn: lambda made: {"action": "updateColumnPosition", "move": _move(made.path, made.position)},
    change.SetType: _describe_type_change,
    change.SetNullable: _make_column_writer("updateColumnNullability", nullable="newNullability"),
    change.SetComment: _make_column_writer("updateColumnComment", comment="newComment"),
    change.SetDefault: _make_column_writer("updateColumnDefaultValue", default="newDefaultValue"),
    change.SetOption: lambda made: {"action": "setOption", "key": made.key, "value": made.value},
    change.RemoveOption: lambda made: {"action": "removeOption", "key": made.key},
    change.SetTableComment: lambda made: {"action": "updateComment", "comment": made.comment},
}


def read_schema(answer: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the schema in a server's answer about a table. Raises `StorageError` if there is none."""
    found = answer.get("schema") or {}
    if not isinstance(found, dict) or not isinstance(found.get("partitionKeys") or [], list):
        raise StorageError(f"{where}: the server does not say what the schema is")
    return found


def to_first_schema(answer: Mapping[str, Any], where: str) -> TableSchema:
    """Return the schema in a server's answer about a table as the first file of its folder. Raises `StorageError`."""
    told = read_schema(answer, where)
    try:
        fields = tuple(from_json_field(each, where=where) for each in told.get("fields") or ())
        highest = max((i for each in fields for i in (each.id, *list_nested_field_ids(each.type))), default=-1)
        options = {key: value for key, value in to_texts(told.get("options")).items() if key != PATH.key}
        members = {"version": 3, "id": answer.get("schemaId") or 0, "highestFieldId": highest, "timeMillis": 0}
        return parse_schema(json.dumps({**told, **members, "options": options}).encode(), where)
    except CorruptFile as error:
        raise StorageError(f"{where}: the server's schema does not parse: {error}") from error


def find_table_type(schema: Mapping[str, Any]) -> str:
    """Return the option ``type`` of a schema, in lower case; empty for a Paimon table."""
    return (Options(to_texts(schema.get("options"))).text(TYPE) or "").strip().lower()


def to_texts(node: Any) -> dict[str, str]:
    """Return the members of a JSON object that are not null, as text; empty for any other value."""
    return {str(key): str(value) for key, value in node.items() if value is not None} if isinstance(node, dict) else {}
