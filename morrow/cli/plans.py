"""``morrow files`` and ``morrow explain``: the plan of a read, without reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from morrow.cli.arguments import Format
from morrow.cli.output import TABLE_ROWS, sink, write_rows
from morrow.cli.progress import working
from morrow.cli.scans import metadata_of, scan_of
from morrow.engine.plan.predicate import ALWAYS, conjuncts
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.telling import one_line
from morrow.scans.table_scan import Scan

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


def files(
    path: str, at: TravelArguments, where: str | None, limit: int | None, form: Format, output: Path | None
) -> None:
    """Write the data files of a plan: one row a file.

    `path` is relative to the table where the file lies in it; `deleted_rows` are those of the deletion vector, null
    where its cardinality was not recorded; `partition` is there for partitioned tables, a struct of typed values.
    """
    scan = scan_of(path, at, where=where)
    with working("planning"):
        plan = scan.plan
    keys = [plan.schema.by_name[name].arrow().with_nullable(True) for name in plan.schema.partition_keys]
    schema = pa.schema([*FILE_FIELDS, *([("partition", pa.struct(keys))] if keys else [])])
    records = list(_files(scan))[:limit]
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
    """Write the plan: as text, or in every form but ``table`` as one row."""
    scan = scan_of(path, at, columns, where, limit)
    with working("planning"):
        plan = scan.plan
    if form is Format.TABLE:
        with sink(output) as out:
            out.write("".join(f"{one_line(line)}\n" for line in scan.explain().split("\n")).encode())
        return
    write_rows(PLAN, pa.Table.from_pylist([_plan(plan)], PLAN).to_batches(), form, output)


def _files(scan: Scan) -> Iterator[dict[str, Any]]:
    root = metadata_of(scan).root + "/"
    for part in scan.plan.parts:
        for section in part.sections:
            partition = dict(zip(part.schema.partition_keys, section.partition, strict=True))
            for file in section.files:
                yield _file(file, section, root) | ({"partition": partition} if partition else {})


def _file(file: DataFile, section: Section, root: str) -> dict[str, Any]:
    return {
        "path": file.path.removeprefix(root),
        "level": file.level,
        "rows": file.row_count,
        "deleted_rows": 0 if file.deletion is None else file.deletion.cardinality,
        "size": file.size,
        "format": file.format,
        "bucket": section.bucket,
        "section": section.kind.value,
    }


def _plan(plan: ScanPlan) -> dict[str, Any]:
    predicate = plan.filter.predicate
    all_files = [file for part in plan.parts for file in part.files]
    return {
        "table": plan.table,
        "snapshot": None if plan.snapshot is None else plan.snapshot.id,
        "schema_id": plan.schema.id,
        "columns": list(plan.columns),
        "pushed": [] if predicate == ALWAYS else [str(part) for part in conjuncts(predicate)],
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
