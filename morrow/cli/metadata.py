"""``morrow describe`` and ``morrow snapshots``: what is known of a table without reading its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import morrow
from morrow.cli.arguments import Format
from morrow.cli.opening import open_table
from morrow.cli.output import TABLES, sink, write_rows
from morrow.cli.paging import emit
from morrow.cli.progress import working
from morrow.cli.scans import metadata_of
from morrow.cli.tables import folded, render
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.telling import one_line, shown, without_secrets
from morrow.engine.wording import moment_text, plural

"""Options of this kind hold credentials, which do not belong on a screen or in a log."""

COLUMN = pa.struct(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("type", pa.string()),
        ("key", pa.string()),
        ("default", pa.string()),
        ("comment", pa.string()),
    ]
)
SNAPSHOT = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("time", pa.timestamp("ms", "UTC")),
        ("delta_records", pa.int64()),
        ("total_records", pa.int64()),
        ("changelog_records", pa.int64()),
        ("schema_id", pa.int64()),
        ("watermark", pa.int64()),
        ("commit_identifier", pa.int64()),
        ("commit_user", pa.string()),
    ]
)
TABLE = pa.schema(
    [
        ("path", pa.string()),
        ("branch", pa.string()),
        ("comment", pa.string()),
        ("schema_id", pa.int64()),
        ("columns", pa.list_(COLUMN)),
        ("primary_keys", pa.list_(pa.string())),
        ("partition_keys", pa.list_(pa.string())),
        ("options", pa.struct([])),
        ("snapshot", pa.struct(list(SNAPSHOT))),
        ("tags", pa.int64()),
        ("branches", pa.int64()),
    ]
)


def describe(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write what a table is: in every form but ``table`` one row, with lists and structs inside."""
    with working("opening"):
        record = _record(open_table(path, branch))
    if form is Format.TABLE:
        with sink(output) as out:
            emit("".join(f"{line}\n" for line in _lines(record, terminal=output is None)), out)
        return
    # Options are an object with a member for each, so that `.options."file.format"` finds it.
    options = pa.struct([(key, pa.string()) for key in record["options"]])
    schema = TABLE.set(TABLE.get_field_index("options"), pa.field("options", options))
    write_rows(schema, pa.Table.from_pylist([record], schema).to_batches(), form, output)


def schema(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write the columns."""
    with working("opening"):
        columns = _record(open_table(path, branch))["columns"]
    columns_schema = pa.schema(list(COLUMN))
    write_rows(columns_schema, pa.Table.from_pylist(columns, columns_schema).to_batches(), form, output)


def snapshots(path: str, branch: str | None, limit: int | None, form: Format, output: Path | None) -> None:
    """Write the snapshots, newest first."""
    with working("reading snapshots"):
        newest_first = open_table(path, branch).snapshots()[::-1][:limit]
    table = pa.Table.from_pylist([_snapshot(snapshot) for snapshot in newest_first], SNAPSHOT)
    write_rows(SNAPSHOT, table.to_batches(), form, output)


def history(path: str, branch: str | None, limit: int | None, form: Format, output: Path | None) -> None:
    """Write the frame of `Table.history`; to a terminal without columns in which nothing is known."""
    frame = open_table(path, branch).history(limit)
    if form in TABLES:
        frame = frame.select(column for column in frame if column.null_count() < max(frame.height, 1))
    rows = frame.to_arrow()
    write_rows(rows.schema, rows.to_batches(), form, output)


def _record(table: morrow.Table) -> dict[str, Any]:
    metadata = metadata_of(table)
    schema, latest = metadata.latest_schema(), metadata.latest_snapshot()
    return {
        "path": table.path,
        "branch": table.branch,
        "comment": schema.comment,
        "schema_id": schema.id,
        "columns": [
            {
                "id": field.id,
                "name": field.name,
                "type": str(field.type),
                "key": _role(schema, field.name),
                "default": field.default_value,
                "comment": field.description,
            }
            for field in schema.fields
        ],
        "primary_keys": list(schema.primary_keys),
        "partition_keys": list(schema.partition_keys),
        "options": without_secrets(schema.options),
        "snapshot": None if latest is None else _snapshot(latest),
        "tags": len(metadata.tag_names()),
        "branches": len(metadata.branch_names()),
    }


def _role(schema: TableSchema, name: str) -> str | None:
    keys = (("primary", schema.primary_keys), ("partition", schema.partition_keys))
    return ", ".join(role for role, names in keys if name in names) or None


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "time": snapshot.time,
        "kind": snapshot.commit_kind,
        "schema_id": snapshot.schema_id,
        "total_records": snapshot.total_record_count,
        "delta_records": snapshot.delta_record_count,
        "changelog_records": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
    }


def _facts(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "table", shown(record["path"])
    yield "branch", one_line(record["branch"])
    if record["comment"]:
        yield "comment", one_line(record["comment"])
    yield "keys", ", ".join(map(one_line, record["primary_keys"])) or "none: an append table"
    yield "partition", ", ".join(map(one_line, record["partition_keys"])) or "none"
    latest = record["snapshot"]
    if latest is None:
        yield "snapshot", "none: nothing was committed"
    else:
        stored = latest["total_records"]
        merged = "" if stored is None else f", {plural(stored, 'record')} before merging"
        yield "snapshot", f"{latest['id']} ({latest['kind']}, {moment_text(latest['time'])}){merged}"
    yield "tags", f"{record['tags']}, branches {record['branches']} besides main"
    yield "schema", str(record["schema_id"])


def _lines(record: dict[str, Any], terminal: bool) -> Iterator[str]:
    for name, value in _facts(record):
        yield from folded(f"{name:<11}", value, terminal=terminal)
    headers = [
        name
        for name in ("id", "name", "type", "key", "default", "comment")
        if any(c[name] is not None for c in record["columns"])
    ]
    cells = [["" if c[name] is None else str(c[name]) for name in headers] for c in record["columns"]]
    yield ""
    yield render(headers, cells, terminal=terminal).rstrip("\n")
    if record["options"]:
        yield ""
        yield render(("option", "value"), list(record["options"].items()), terminal=terminal).rstrip("\n")
