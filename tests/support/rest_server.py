"""A REST catalog in the test's process, built from Paimon's OpenAPI text: names in memory, tables in a folder.

Like Java's server, it decides which snapshot follows which (by the previous uuid) and which schema is the newest.
Lists have pages of two entries. Each request takes one of `faults`: a status (with ``Retry-After``), or a connection
that is cut before or after the request was carried out.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from morrow.engine.errors import AlreadyExists, MorrowError, NotFound
from morrow.engine.format.schema import parse_schema
from morrow.engine.format.snapshot import Snapshot, parse_snapshot, to_snapshot_members
from morrow.engine.format.types import from_json, to_json_field
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema import schema_changes as change
from morrow.engine.schema.columns import assign_ids
from morrow.engine.schema.evolution import commit_changes, commit_schema, create_first_schema
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace as replace_members
from morrow.tables.table import Table

PAGE = 2
CUT_BEFORE, CUT_AFTER, GARBAGE = "cut before", "cut after", "garbage"
Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class Done:
    """A fault: the request is carried out, and the answer has an error status."""

    status: int


class Refused(Exception):
    def __init__(self, code: int, kind: str = "", name: str = "", message: str = "refused") -> None:
        super().__init__(message)
        self.answer: Answer = (code, {"code": code, "resourceType": kind, "resourceName": name, "message": message})


@dataclass
class Stored:
    """A table of the server, whose folder stays the same when the table is renamed."""

    folder: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    options: dict[str, str] = field(default_factory=dict)
    files: str | None = None
    """The folder with the rows of a format table or object table."""
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The registered partitions: the values and the statistics, by the values as JSON."""
    is_external: bool = False
    answer: dict[str, Any] | None = None
    """The last answer about the table, for folders whose schema files are gone."""

    def metadata(self, branch: str = "main") -> TableMetadata:
        return TableMetadata(LocalStore(), self.folder, branch)


@dataclass
class RestServer:
    """The state of a server; `url` is its address, and `lets_in` checks the headers of a request."""

    folder: Path
    url: str = ""
    prefix: str = "a b/ü"
    config: dict[str, dict[str, str]] = field(default_factory=dict)
    token: Callable[[], dict[str, Any]] | None = None
    lets_in: Callable[[str, str, dict[str, str], str, Mapping[str, str]], bool] = lambda *_: True
    databases: dict[str, dict[str, Stored]] = field(default_factory=dict)
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    """Properties of databases."""
    views: dict[str, list[str]] = field(default_factory=dict)
    view_schemas: dict[tuple[str, str], Any] = field(default_factory=dict)
    functions: dict[str, dict[str, Any]] | None = None
    faults: list[Any] = field(default_factory=list)
    trouble: tuple[list[Any], Callable[[str, str], bool]] = field(default_factory=lambda: ([], lambda *_: False))
    """Faults that hit only some requests."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    guard: threading.RLock = field(default_factory=threading.RLock)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        if path == "/v1/config":
            defaults = {"prefix": self.prefix, **self.config.get("defaults", {})}
            return 200, {"defaults": defaults, "overrides": self.config.get("overrides", {})}
        parts = [unquote_plus(part) for part in path.split("/")[2:]]
        if parts[0] != self.prefix:
            raise Refused(404, "", path, "another prefix")
        for verb, pattern, serve in ROUTES:
            found = _matched(pattern, parts[1:])
            if verb == method and found is not None:
                self._refuse_files_of_clients(parts[1:])
                return 200, serve(self, query, body, *found) or {}
        raise Refused(404, "", path, f"nothing at {path}")

    def _refuse_files_of_clients(self, parts: list[str]) -> None:
        """Refuse requests about an external table, as Java's server does, other than for its schema and its name."""
        if parts[0] == "databases" and parts[2:3] == ["tables"] and parts[4:5] not in ([], ["partitions"], ["token"]):
            stored, _branch = self.stored(parts[1], parts[3])
            if stored.is_external and stored.files is None:
                raise Refused(501, "TABLE", parts[3], f"external paimon table does not support {parts[4]}")

    def page(self, member: str, names: list[Any], query: dict[str, str]) -> dict[str, Any]:
        begin = int(query.get("pageToken", "0"))
        rest = {} if begin + PAGE >= len(names) else {"nextPageToken": str(begin + PAGE)}
        return {member: names[begin : begin + PAGE], **rest}

    def database(self, name: str) -> dict[str, Stored]:
        if name not in self.databases:
            raise Refused(404, "DATABASE", name, f"database {name} does not exist")
        return self.databases[name]

    def stored(self, database: str, name: str) -> tuple[Stored, str]:
        """Find the table with a name, and the branch in the name."""
        table, _, branch = name.partition("$branch_")
        found = self.database(database).get(table)
        if found is None:
            raise Refused(404, "TABLE", table, f"table {database}.{table} does not exist")
        return found, branch or "main"


def _matched(pattern: str, parts: list[str]) -> list[str] | None:
    wanted = pattern.split("/")
    if len(wanted) != len(parts) or any(w not in ("*", p) for w, p in zip(wanted, parts, strict=True)):
        return None
    return [part for want, part in zip(wanted, parts, strict=True) if want == "*"]


# Databases


def list_databases(server: RestServer, query: Any, _: Any) -> Any:
    return server.page("databases", list(server.databases), query)


def create_database(server: RestServer, _: Any, body: Any) -> Any:
    if body["name"] in server.databases:
        raise Refused(409, "DATABASE", body["name"], "database exists")
    server.databases[body["name"]] = {}
    server.properties[body["name"]] = dict(body["options"])


def get_database(server: RestServer, _query: Any, _body: Any, name: str) -> Any:
    server.database(name)
    options = server.properties[name]
    audit = {"owner": "the server", "createdAt": 1, "createdBy": None, "updatedAt": 2, "updatedBy": "x"}
    return {"id": name, "name": name, "location": f"{server.folder}/{name}", "options": options, **audit}


def alter_database(server: RestServer, _query: Any, body: Any, name: str) -> Any:
    server.database(name)
    properties = server.properties[name]
    missing = [key for key in body["removals"] if properties.pop(key, None) is None]
    properties |= body["updates"]
    return {"removed": body["removals"], "updated": list(body["updates"]), "missing": missing}


def drop_database(server: RestServer, _query: Any, _body: Any, name: str) -> Any:
    server.database(name)
    del server.databases[name], server.properties[name]


# Tables


def list_tables(server: RestServer, query: Any, _: Any, name: str) -> Any:
    return server.page("tables", list(server.database(name)), query)


def list_views(server: RestServer, query: Any, _: Any, name: str) -> Any:
    server.database(name)
    return server.page("views", server.views.get(name, []), query)


def list_functions(server: RestServer, query: Any, _body: Any, name: str) -> Any:
    if server.functions is None:
        raise Refused(501, "", "", "no functions here")
    server.database(name)
    return server.page("functions", list(server.functions.get(name, {})), query)


def get_function(server: RestServer, _query: Any, _body: Any, name: str, function: str) -> Any:
    server.database(name)
    if function not in (server.functions or {}).get(name, {}):
        raise Refused(404, "FUNCTION", function, "no such function")
    assert server.functions is not None
    return {"uuid": "u", "name": function, **server.functions[name][function]}


def create_function(server: RestServer, _query: Any, body: Any, name: str) -> Any:
    if server.functions is None:
        raise Refused(501, "", "", "no functions here")
    server.database(name)
    known = server.functions.setdefault(name, {})
    if body["name"] in known:
        raise Refused(409, "FUNCTION", body["name"], "function exists")
    known[body["name"]] = {key: value for key, value in body.items() if key != "name"}


def alter_function(server: RestServer, _query: Any, body: Any, name: str, function: str) -> Any:
    found = get_function(server, None, None, name, function)
    definitions, options = dict(found.get("definitions") or {}), dict(found.get("options") or {})
    comment = found.get("comment")
    for node in body["changes"]:
        match node["action"]:
            case "addDefinition" | "updateDefinition":
                if (node["name"] in definitions) is (node["action"] == "addDefinition"):
                    code = 409 if node["name"] in definitions else 404
                    raise Refused(code, "DEFINITION", node["name"], f"definition {node['name']}")
                definitions[node["name"]] = node["definition"]
            case "dropDefinition":
                if definitions.pop(node["name"], None) is None:
                    raise Refused(404, "DEFINITION", node["name"], f"no definition {node['name']}")
            case "setOption":
                options[node["key"]] = node["value"]
            case "removeOption":
                options.pop(node["key"], None)
            case _:
                comment = node["comment"]
    assert server.functions is not None
    changed = {"definitions": definitions, "options": options, "comment": comment}
    server.functions[name][function] = {**server.functions[name][function], **changed}


def drop_function(server: RestServer, _query: Any, _body: Any, name: str, function: str) -> Any:
    get_function(server, None, None, name, function)
    assert server.functions is not None
    del server.functions[name][function]


def create_view(server: RestServer, _: Any, body: Any, name: str) -> Any:
    view = body["identifier"]["object"]
    server.database(name)
    if view in server.views.setdefault(name, []):
        raise Refused(409, "VIEW", view, "view exists")
    server.views[name].append(view)
    server.view_schemas[name, view] = body["schema"]


def get_view(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    server.database(database)
    if (database, name) not in server.view_schemas:
        raise Refused(404, "VIEW", name, "no such view")
    return {"id": name, "name": name, "schema": server.view_schemas[database, name]}


def drop_view(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    get_view(server, None, None, database, name)
    server.views[database].remove(name)
    del server.view_schemas[database, name]


def create_table(server: RestServer, _: Any, body: Any, name: str) -> Any:
    table = body["identifier"]["object"]
    if table in server.database(name):
        raise Refused(409, "TABLE", table, "table exists")
    given = dict(body["schema"])
    path = given["options"].pop("path", None)
    path = None if path is None else str(path).removeprefix("file:")
    stored = Stored(path or f"{server.folder}/{uuid.uuid4().hex}", is_external=path is not None)
    if given["options"].get("type") == "format-table":
        stored.files, stored.options = stored.folder, given.pop("options")
        stored.folder = f"{server.folder}/{uuid.uuid4().hex}"
    elif stored.metadata().schema_ids():
        server.databases[name][table] = stored
        return
    highest = max((each["id"] for each in given["fields"]), default=-1)
    node = {"version": 3, "id": 0, "highestFieldId": highest, "timeMillis": 1, "options": {}, **given}
    create_first_schema(stored.metadata(), parse_schema(json.dumps(node).encode(), "the request"))
    server.databases[name][table] = stored


def get_table(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    if stored.answer is not None and not stored.metadata(branch).schema_ids():
        return stored.answer
    schema = stored.metadata(branch).latest_schema()
    told = {
        "fields": [to_json_field(each) for each in schema.fields],
        "partitionKeys": schema.partition_keys,
        "primaryKeys": schema.primary_keys,
        "options": {**schema.options, **stored.options},
        "comment": schema.comment,
    }
    place = {
        "path": f"file:{stored.files or stored.folder}",
        "isExternal": stored.is_external,
        "schemaId": schema.id,
        "schema": told,
    }
    stored.answer = {"id": stored.id, "database": database, "name": name, **place}
    return stored.answer


def drop_table(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    stored = server.stored(database, name)[0]
    for folder in (stored.folder, stored.files):
        if folder is not None and not (stored.is_external and folder == (stored.files or stored.folder)):
            shutil.rmtree(folder, ignore_errors=True)
    del server.databases[database][name]


def rename_table(server: RestServer, _: Any, body: Any) -> Any:
    old, new = body["source"], body["destination"]
    stored, _branch = server.stored(old["database"], old["object"])
    if new["object"] in server.database(new["database"]):
        raise Refused(409, "TABLE", new["object"], "table exists")
    server.databases[new["database"]][new["object"]] = stored
    del server.databases[old["database"]][old["object"]]


def alter_table(server: RestServer, _: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    if stored.files is not None:
        for node in body["changes"]:
            if node["action"] == "setOption":
                stored.options[node["key"]] = node["value"]
            elif node["action"] == "removeOption":
                stored.options.pop(node["key"], None)
            else:
                commit_changes(stored.metadata(branch), [_change(node)])
        return
    commit_changes(stored.metadata(branch), [_change(node) for node in body["changes"]])


def list_partitions(server: RestServer, query: Any, _body: Any, database: str, name: str) -> Any:
    stored, _branch = server.stored(database, name)
    return server.page("partitions", list(stored.partitions.values()), query)


def create_partitions(server: RestServer, _query: Any, body: Any, database: str, name: str) -> Any:
    stored, _branch = server.stored(database, name)
    keys = {json.dumps(spec, sort_keys=True): spec for spec in body["partitionSpecs"]}
    existed = [key for key in keys if key in stored.partitions]
    if existed and not body.get("ignoreIfExists", True):
        raise Refused(409, "PARTITION", existed[0], f"the partition {existed[0]} exists")
    told = {json.dumps(each["spec"], sort_keys=True): each for each in body.get("partitionStatistics") or ()}
    for key, spec in keys.items():
        stored.partitions.setdefault(key, {"spec": spec})
        stored.partitions[key] |= told.get(key, {})
    return {
        "created": [spec for key, spec in keys.items() if key not in existed],
        "existed": [keys[k] for k in existed],
    }


def drop_partitions(server: RestServer, _query: Any, body: Any, database: str, name: str) -> Any:
    stored, _branch = server.stored(database, name)
    gone = [spec for spec in body["partitionSpecs"] if stored.partitions.pop(json.dumps(spec, sort_keys=True), None)]
    return {"dropped": gone, "missing": []}


def replace_table(server: RestServer, _query: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    metadata, given = stored.metadata(branch), dict(body["schema"])
    before = metadata.latest_schema()
    offset = before.highest_field_id + 1
    node = {"version": 3, "timeMillis": 1, **given, "id": before.id + 1, "highestFieldId": offset}
    made = parse_schema(json.dumps(node).encode(), "the request")
    if made.partition_keys != before.partition_keys:
        raise Refused(400, "TABLE", name, "other partition keys")
    replacing = Table(metadata)
    if metadata.latest_snapshot() is not None:
        replacing.truncate()
    fields, highest = assign_ids(
        [Column(each.name, each.type, each.description, each.default_value) for each in made.fields], offset
    )
    commit_schema(metadata, replace_members(made, fields=fields, highest_field_id=highest))


def get_token(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    server.stored(database, name)
    assert server.token is not None
    return server.token()


def _change(node: dict[str, Any]) -> change.SchemaChange:
    path, read = tuple(node.get("fieldNames") or ()), CHANGES[node["action"]]
    return read(path, node)


def _position(node: dict[str, Any] | None) -> change.Position | None:
    return None if node is None else change.Position(change.Place(node["type"].lower()), node["referenceFieldName"])


CHANGES: dict[str, Callable[[tuple[str, ...], dict[str, Any]], change.SchemaChange]] = {
    "setOption": lambda _, node: change.SetOption(node["key"], node["value"]),
    "removeOption": lambda _, node: change.RemoveOption(node["key"]),
    "updateComment": lambda _, node: change.SetTableComment(node["comment"]),
    "addColumn": lambda path, node: change.AddColumn(
        path, from_json(node["dataType"]), node["comment"], _position(node["move"])
    ),
    "renameColumn": lambda path, node: change.RenameColumn(path, node["newName"]),
    "dropColumn": lambda path, _: change.DropColumn(path),
    "updateColumnType": lambda path, node: change.SetType(
        path, from_json(node["newDataType"]), node["keepNullability"]
    ),
    "updateColumnNullability": lambda path, node: change.SetNullable(path, node["newNullability"]),
    "updateColumnComment": lambda path, node: change.SetComment(path, node["newComment"]),
    "updateColumnDefaultValue": lambda path, node: change.SetDefault(path, node["newDefaultValue"]),
    "updateColumnPosition": lambda _, node: change.MoveColumn(
        (node["move"]["fieldName"],), _position(node["move"]) or change.Position(change.Place.LAST)
    ),
}


# Snapshots


def commit(server: RestServer, _: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    if body["tableId"] != stored.id:
        raise Refused(404, "TABLE", name, "another table has this name now")
    metadata = stored.metadata(branch)
    latest = metadata.latest_snapshot()
    known = None if latest is None else latest.extra.get("uuid")
    new = parse_snapshot(json.dumps(body["snapshot"]).encode(), "the request")
    # Java's clients before 2.0 do not name the snapshot on which they build.
    if known != body.get("baseSnapshotUuid", known) or new.id != (latest.id if latest else 0) + 1:
        return {"success": False}
    written = metadata.store.create(metadata.paths.snapshot(new.id), json.dumps(body["snapshot"]).encode())
    return {"success": written}


def latest_snapshot(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    found = stored.metadata(branch).latest_snapshot()
    if found is None:
        raise Refused(404, "SNAPSHOT", name, "no snapshot")
    return {"snapshot": {"snapshot": _members(found), "recordCount": 0, "fileCount": 0}}


def one_snapshot(server: RestServer, _query: Any, _body: Any, database: str, name: str, version: str) -> Any:
    stored, branch = server.stored(database, name)
    found = stored.metadata(branch).snapshot_or_none(int(version))
    if found is None:
        raise Refused(404, "SNAPSHOT", version, "no such snapshot")
    return {"snapshot": _members(found)}


def rollback(server: RestServer, _: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    to = body["instant"]
    given = {"snapshot": to["snapshotId"]} if to["type"] == "snapshot" else {"tag": to["tagName"]}
    Table(stored.metadata(branch)).rollback(**given)


def keep_partitions(server: RestServer, _query: Any, _body: Any, database: str, name: str) -> Any:
    server.stored(database, name)


def create_tag(server: RestServer, _: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    kept = body["timeRetained"]
    retained = None if kept is None else timedelta(milliseconds=int(kept.removesuffix(" ms")))
    Table(stored.metadata(branch)).tags.create(body["tagName"], body["snapshotId"], time_retained=retained)


def delete_tag(server: RestServer, _query: Any, _body: Any, database: str, name: str, tag: str) -> Any:
    stored, branch = server.stored(database, name)
    Table(stored.metadata(branch)).tags.delete(tag)


def create_branch(server: RestServer, _: Any, body: Any, database: str, name: str) -> Any:
    stored, branch = server.stored(database, name)
    Table(stored.metadata(branch)).branches.create(body["branch"], tag=body["fromTag"])


def delete_branch(server: RestServer, _query: Any, _body: Any, database: str, name: str, branch: str) -> Any:
    Table(server.stored(database, name)[0].metadata()).branches.delete(branch)


def rename_branch(server: RestServer, _: Any, body: Any, database: str, name: str, branch: str) -> Any:
    Table(server.stored(database, name)[0].metadata()).branches.rename(branch, body["toBranch"])


def forward_branch(server: RestServer, _query: Any, _body: Any, database: str, name: str, branch: str) -> Any:
    Table(server.stored(database, name)[0].metadata()).branches.fast_forward(branch)


def _members(snapshot: Snapshot) -> dict[str, Any]:
    return {
        name: value for name, value in {**to_snapshot_members(snapshot), **snapshot.extra}.items() if value is not None
    }


DATABASE, TABLE = "databases/*", "databases/*/tables/*"
ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", "databases", list_databases),
    ("POST", "databases", create_database),
    ("GET", DATABASE, get_database),
    ("POST", DATABASE, alter_database),
    ("DELETE", DATABASE, drop_database),
    ("GET", f"{DATABASE}/tables", list_tables),
    ("POST", f"{DATABASE}/tables", create_table),
    ("GET", f"{DATABASE}/views", list_views),
    ("GET", f"{DATABASE}/functions", list_functions),
    ("GET", f"{DATABASE}/functions/*", get_function),
    ("POST", f"{DATABASE}/functions", create_function),
    ("POST", f"{DATABASE}/functions/*", alter_function),
    ("DELETE", f"{DATABASE}/functions/*", drop_function),
    ("POST", f"{DATABASE}/views", create_view),
    ("GET", f"{DATABASE}/views/*", get_view),
    ("DELETE", f"{DATABASE}/views/*", drop_view),
    ("POST", "tables/rename", rename_table),
    ("GET", TABLE, get_table),
    ("POST", TABLE, alter_table),
    ("DELETE", TABLE, drop_table),
    ("GET", f"{TABLE}/partitions", list_partitions),
    ("POST", f"{TABLE}/partitions", create_partitions),
    ("POST", f"{TABLE}/partitions/drop", drop_partitions),
    ("POST", f"{TABLE}/replace", replace_table),
    ("GET", f"{TABLE}/token", get_token),
    ("POST", f"{TABLE}/commit", commit),
    ("GET", f"{TABLE}/snapshot", latest_snapshot),
    ("GET", f"{TABLE}/snapshots/*", one_snapshot),
    ("POST", f"{TABLE}/rollback", rollback),
    ("POST", f"{TABLE}/partitions/mark", keep_partitions),
    ("POST", f"{TABLE}/tags", create_tag),
    ("DELETE", f"{TABLE}/tags/*", delete_tag),
    ("POST", f"{TABLE}/branches", create_branch),
    ("DELETE", f"{TABLE}/branches/*", delete_branch),
    ("POST", f"{TABLE}/branches/*/rename", rename_branch),
    ("POST", f"{TABLE}/branches/*/forward", forward_branch),
]
KINDS = {"TagNotFound": "TAG", "SnapshotNotFound": "SNAPSHOT", "BranchNotFound": "BRANCH", "ColumnNotFound": "COLUMN"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Without this, the body of an answer waits 40 ms until its head is acknowledged."""
    state: RestServer

    def _serve(self) -> None:
        state, parts = self.state, urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        with state.guard:
            state.asked.append((self.command, parts.path))
            state.bodies.append(json.loads(text) if text else None)
            fault = state.faults.pop(0) if state.faults else None
            if state.trouble[0] and state.trouble[1](self.command, parts.path):
                fault = state.trouble[0].pop(0)
            if fault == CUT_BEFORE:
                self.close_connection = True
                return
            if isinstance(fault, tuple):
                self._send(fault[0], {"message": "busy", "code": fault[0]}, fault[1])
                return
            try:
                if not state.lets_in(self.command, parts.path, query, text, self.headers):
                    raise Refused(401, "", "", "who are you? Authorization: Bearer sent-back-secret")
                status, answer = state.answer(self.command, parts.path, query, json.loads(text) if text else None)
            except Refused as refused:
                status, answer = refused.answer
            except MorrowError as error:
                status, answer = _of(error).answer
        if fault == CUT_AFTER:
            self.close_connection = True
            return
        if fault == GARBAGE:
            self._send(200, None)
            return
        if isinstance(fault, Done):
            self._send(fault.status, {"message": "gateway", "code": fault.status})
            return
        self._send(status, answer)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815  # names of the standard library

    def _send(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        data = b"<html>" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


def _of(error: MorrowError) -> Refused:
    code = 404 if isinstance(error, NotFound) else 409 if isinstance(error, AlreadyExists) else 400
    return Refused(code, KINDS.get(type(error).__name__, ""), "", str(error))


@contextmanager
def rest_server(folder: Path, **state: Any) -> Iterator[RestServer]:
    """Start an empty server that runs until the block ends."""
    served = RestServer(folder, **state)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": served}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
