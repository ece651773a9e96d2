"""``morrow describe``, ``schema``, ``snapshots``, ``history``, ``du``, ``files``, ``explain`` and ``system``.

The commands read metadata and system tables, but not the rows of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import TABLE_ROWS, TABLES, open_output, write_rows
from morrow.cli.table_layout import fold_text, render
from morrow.cli.targets import get_metadata, open_catalog, open_system_scan, open_table, open_table_scan
from morrow.cli.terminal import emit, show_progress
from morrow.engine.catalog.names import parse_object_name
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.predicate import ALWAYS, split_conjuncts
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.redaction import clean_text, escape_to_line, hide_secrets
from morrow.engine.units import format_count, format_moment
from morrow.readers.system.catalog_tables import CATALOG_TABLES
from morrow.readers.system.registry import SYSTEM_TABLES
from morrow.scans.system_tables import SystemScan
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import polars as pl

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
    """Write the description of a table: one row with lists and structs, except in the form ``table``."""
    with show_progress("opening"):
        record = _build_table_record(open_table(path, branch))
    if form is Format.TABLE:
        with open_output(output) as out:
            emit("".join(f"{line}\n" for line in _render_description(record, terminal=output is None)), out)
        return
    # Options become an object with one member each, so that `.options."file.format"` finds them.
    options = pa.struct([(key, pa.string()) for key in record["options"]])
    schema = TABLE.set(TABLE.get_field_index("options"), pa.field("options", options))
    write_rows(schema, pa.Table.from_pylist([record], schema).to_batches(), form, output)


def write_schema(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write the columns."""
    with show_progress("opening"):
        columns = _build_table_record(open_table(path, branch))["columns"]
    columns_schema = pa.schema(list(COLUMN))
    write_rows(columns_schema, pa.Table.from_pylist(columns, columns_schema).to_batches(), form, output)


def write_snapshots(path: str, branch: str | None, limit: int | None, form: Format, output: Path | None) -> None:
    """Write the snapshots, newest first."""
    with show_progress("reading snapshots"):
        newest_first = open_table(path, branch).snapshots()[::-1][:limit]
    table = pa.Table.from_pylist([_build_snapshot_record(snapshot) for snapshot in newest_first], SNAPSHOT)
    write_rows(SNAPSHOT, table.to_batches(), form, output)


def write_history(path: str, branch: str | None, limit: int | None, form: Format, output: Path | None) -> None:
    """Write the frame of `Table.history`."""
    _write_frame(open_table(path, branch).history(limit), form, output)


def write_storage(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write the frame of `Table.storage`."""
    with show_progress("reading manifests"):
        frame = open_table(path, branch).storage()
    _write_frame(frame, form, output)


def _write_frame(frame: pl.DataFrame, form: Format, output: Path | None) -> None:
    """Write a frame, to a terminal without columns that are completely null."""
    if form in TABLES:
        frame = frame.select(column for column in frame if column.null_count() < max(frame.height, 1))
    rows = frame.to_arrow()
    write_rows(rows.schema, rows.to_batches(), form, output)


def _build_table_record(table: morrow.Table) -> dict[str, Any]:
    metadata = get_metadata(table)
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
                "key": _find_role(schema, field.name),
                "default": field.default_value,
                "comment": field.description,
            }
            for field in schema.fields
        ],
        "primary_keys": list(schema.primary_keys),
        "partition_keys": list(schema.partition_keys),
        "options": hide_secrets(schema.options),
        "snapshot": None if latest is None else _build_snapshot_record(latest),
        "tags": len(metadata.tag_names()),
        "branches": len(metadata.branch_names()),
    }


def _find_role(schema: TableSchema, name: str) -> str | None:
    keys = (("primary", schema.primary_keys), ("partition", schema.partition_keys))
    return ", ".join(role for role, names in keys if name in names) or None


def _build_snapshot_record(snapshot: Snapshot) -> dict[str, Any]:
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


def _list_facts(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "table", clean_text(record["path"])
    yield "branch", escape_to_line(record["branch"])
    if record["comment"]:
        yield "comment", escape_to_line(record["comment"])
    yield "keys", ", ".join(map(escape_to_line, record["primary_keys"])) or "none: an append table"
    yield "partition", ", ".join(map(escape_to_line, record["partition_keys"])) or "none"
    latest = record["snapshot"]
    if latest is None:
        yield "snapshot", "none: nothing was committed"
    else:
        stored = latest["total_records"]
        merged = "" if stored is None else f", {format_count(stored, 'record')} before merging"
        yield "snapshot", f"{latest['id']} ({latest['kind']}, {format_moment(latest['time'])}){merged}"
    yield "tags", f"{record['tags']}, branches {record['branches']} besides main"
    yield "schema", str(record["schema_id"])


def _render_description(record: dict[str, Any], terminal: bool) -> Iterator[str]:
    for name, value in _list_facts(record):
        yield from fold_text(f"{name:<11}", value, terminal=terminal)
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


FILE_FIELDS = (
    ("path", pa.string()),
    ("level", pa.int32()),
    ("rows", pa.int64()),
    ("deleted_rows", pa.int64()),
    ("size", pa.int64()),
    ("format", pa.string()),
    ("bucket", pa.int32()),
    ("section", pa.string()),
)
STEP = pa.struct([("name", pa.string()), ("kept", pa.int64()), ("of", pa.int64())])
PLAN = pa.schema(
    [
        ("table", pa.string()),
        ("snapshot", pa.int64()),
        ("schema_id", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("pushed", pa.list_(pa.string())),
        ("after", pa.list_(pa.string())),
        ("limit", pa.int64()),
        ("merge", pa.string()),
        ("pruned", pa.list_(STEP)),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("rows_stored", pa.int64()),
        ("deletion_vectors", pa.int64()),
        ("sections", pa.map_(pa.string(), pa.int64())),
    ]
)


def write_files(
    path: str, at: TravelArguments, where: str | None, limit: int | None, form: Format, output: Path | None
) -> None:
    """Write the data files of a plan, one row per file.

    `path` is relative if the file is in the table's folder. `deleted_rows` is the cardinality of the deletion vector,
    null if it was not recorded. `partition` is a struct of typed values, for partitioned tables only.
    """
    scan = open_table_scan(path, at, where=where)
    with show_progress("planning"):
        plan = scan.plan
    keys = [plan.schema.by_name[name].arrow().with_nullable(True) for name in plan.schema.partition_keys]
    schema = pa.schema([*FILE_FIELDS, *([("partition", pa.struct(keys))] if keys else [])])
    records = list(_list_files(scan))[:limit]
    cap = TABLE_ROWS if limit is None else None
    write_rows(schema, pa.Table.from_pylist(records, schema).to_batches(), form, output, cap)


def explain(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the plan: as text in the form ``table``, else as one row."""
    scan = open_table_scan(path, at, columns, where, limit)
    with show_progress("planning"):
        plan = scan.plan
    if form is Format.TABLE:
        with open_output(output) as out:
            out.write("".join(f"{escape_to_line(line)}\n" for line in scan.explain().split("\n")).encode())
        return
    write_rows(PLAN, pa.Table.from_pylist([_list_steps(plan)], PLAN).to_batches(), form, output)


def _list_files(scan: Scan) -> Iterator[dict[str, Any]]:
    root = get_metadata(scan).root + "/"
    for part in scan.plan.parts:
        for section in part.sections:
            partition = dict(zip(part.schema.partition_keys, section.partition, strict=True))
            for file in section.files:
                yield {
                    "path": file.path.removeprefix(root),
                    "level": file.level,
                    "rows": file.row_count,
                    "deleted_rows": 0 if file.deletion is None else file.deletion.cardinality,
                    "size": file.size,
                    "format": file.format,
                    "bucket": section.bucket,
                    "section": section.kind.value,
                } | ({"partition": partition} if partition else {})


def _list_steps(plan: ScanPlan) -> dict[str, Any]:
    predicate = plan.filter.predicate
    all_files = [file for part in plan.parts for file in part.files]
    return {
        "table": plan.table,
        "snapshot": None if plan.snapshot is None else plan.snapshot.id,
        "schema_id": plan.schema.id,
        "columns": list(plan.columns),
        "pushed": [] if predicate == ALWAYS else [str(part) for part in split_conjuncts(predicate)],
        "after": [residual.text for residual in plan.filter.residuals],
        "limit": plan.limit,
        "merge": None if plan.merge is None else str(plan.merge),
        "pruned": [{"name": step.name, "kept": step.kept, "of": step.of} for part in plan.parts for step in part.steps],
        "files": len(all_files),
        "bytes": sum(file.size for file in all_files),
        "rows_stored": sum(file.row_count for file in all_files),
        "deletion_vectors": sum(file.deletion is not None for file in all_files),
        "sections": list(Counter(section.kind.value for part in plan.parts for section in part.sections).items()),
    }


BATCH_ROWS = 65_536
NAMES = pa.schema([("name", pa.string()), ("rows", pa.string())])


def write_system_table(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the rows of a system table. Without a name, list the system tables."""
    if name is None and parse_object_name(path).system is None:
        _write_system_tables(form, output)
        return
    cap = TABLE_ROWS if form in TABLES and limit is None else None
    # Read one row more than is shown, to find out whether there are more.
    most = limit if cap is None else cap + 1
    with show_progress("planning"):
        scan = _scan(path, name, at, columns, where, most)
        scan.prepare()
    write_rows(scan.schema, scan.to_batches(BATCH_ROWS), form, output, cap)


def _scan(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
) -> SystemScan:
    if name is not None and name.lower() in CATALOG_TABLES:
        return open_catalog(path).system(name, columns, where, limit, **at)
    return open_system_scan(path, name, at, columns, where, limit)


def _write_system_tables(form: Format, output: Path | None) -> None:
    rows = [{"name": table.name, "rows": table.description} for table in SYSTEM_TABLES.values()]
    rows += [{"name": table.name, "rows": table.description} for table in CATALOG_TABLES.values()]
    write_rows(NAMES, pa.Table.from_pylist(rows, NAMES).to_batches(), form, output)
