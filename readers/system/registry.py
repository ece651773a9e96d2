"""Registry of a table's system tables by name, and system tables of snapshots, schemas, references and statistics.

`find_system_table` finds one by a user's spelling. ``$snapshots`` has all live snapshots. ``$schemas``, ``$options``
and ``$aggregation_fields`` show schema files. ``$tags``, ``$branches`` and ``$consumers`` are the references to
snapshots. ``$statistics`` has the results of ANALYZE for a snapshot, from ``statistics/<name>``.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

import polars as pl

from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.engine.format.metadata_json import build_from_json, format_json, parse_object
from morrow.engine.format.types import to_json_field
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import BRANCH_PREFIX
from morrow.engine.redaction import hide_secrets
from morrow.readers.casts.java_strings import to_java_sort_key, to_wall_clock
from morrow.readers.system.audit_log import ROW_TABLES
from morrow.readers.system.base import (
    MetadataTable,
    SystemTable,
    TableState,
    make_columns,
    make_frame,
    suggest_table_name,
)
from morrow.readers.system.files import (
    BUCKETS,
    FILE_INDEXES,
    FILE_KEY_RANGES,
    FILES,
    MANIFESTS,
    PARTITIONS,
    TABLE_INDEXES,
)

SNAPSHOT_COLUMNS = make_columns(
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_user="STRING NOT NULL",
    commit_identifier="BIGINT NOT NULL",
    commit_kind="STRING NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    base_manifest_list="STRING NOT NULL",
    delta_manifest_list="STRING NOT NULL",
    changelog_manifest_list="STRING",
    total_record_count="BIGINT",
    delta_record_count="BIGINT",
    changelog_record_count="BIGINT",
    watermark="BIGINT",
    next_row_id="BIGINT",
    operation="STRING",
    writer_version="STRING",
)


def _make_snapshots(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    snapshots = list(state.metadata.snapshots())
    rows = (
        (
            snapshot.id,
            snapshot.schema_id,
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind,
            None,
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            snapshot.watermark,
            snapshot.next_row_id,
            snapshot.operation,
            snapshot.extra.get("writerVersion"),
        )
        for snapshot in snapshots
    )
    times = to_wall_clock([snapshot.time_millis for snapshot in snapshots])
    return make_frame(SNAPSHOT_COLUMNS, rows).with_columns(times.alias("commit_time"))


SNAPSHOTS = MetadataTable("snapshots", "living snapshots, oldest first", SNAPSHOT_COLUMNS, _make_snapshots)

SCHEMA_COLUMNS = make_columns(
    schema_id="BIGINT NOT NULL",
    fields="STRING NOT NULL",
    partition_keys="STRING NOT NULL",
    primary_keys="STRING NOT NULL",
    options="STRING NOT NULL",
    comment="STRING",
    update_time="TIMESTAMP(3) NOT NULL",
)
OPTION_COLUMNS = make_columns(key="STRING NOT NULL", value="STRING NOT NULL")
AGGREGATION_COLUMNS = make_columns(
    field_name="STRING NOT NULL",
    field_type="STRING NOT NULL",
    function="STRING",
    function_options="STRING",
    comment="STRING",
)

FIELD_OPTIONS = "fields"
MIN_BUCKETS = 16
MAX_LOAD = 0.75
WORD = 0xFFFF_FFFF
MIN_OPTION_PARTS = 3
"""Parts of ``fields.<column>.<option>``; a column name with a dot cannot be distinguished from one with an option."""


def _make_schemas(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    schemas = state.metadata.schemas()
    rows = (
        (
            schema.id,
            _format_json([to_json_field(field) for field in schema.fields]),
            _format_json(schema.partition_keys),
            _format_json(schema.primary_keys),
            _format_json(_sort_by_hash(hide_secrets(schema.options))),
            schema.comment,
            None,
        )
        for schema in schemas
    )
    times = to_wall_clock([schema.time_millis or 0 for schema in schemas])
    return make_frame(SCHEMA_COLUMNS, rows).with_columns(times.alias("update_time"))


def _format_json(node: Any) -> str:
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def _make_options(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    return make_frame(OPTION_COLUMNS, _sort_by_hash(hide_secrets(state.newest_schema.options)).items())


def _make_aggregation_fields(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    schema = state.newest_schema
    options = _group_field_options(_sort_by_hash(schema.options))
    rows = (
        (
            field.name,
            str(field.type),
            _format_list(options.get(field.name, {}).values()),
            _format_list(options.get(field.name, {})),
            field.description,
        )
        for field in schema.fields
    )
    return make_frame(AGGREGATION_COLUMNS, rows)


def _group_field_options(options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the ``fields.<column>.*`` options of each column, by their full names."""
    found: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        parts = key.rstrip(".").split(".")
        if len(parts) >= MIN_OPTION_PARTS and parts[0] == FIELD_OPTIONS:
            found.setdefault(parts[1], {})[key] = value
    return found


def _sort_by_hash(options: Mapping[str, str]) -> dict[str, str]:
    """Return options in the order of Java's HashMap, in which it shows them: by bucket, then by insertion."""
    buckets = MIN_BUCKETS
    while len(options) > buckets * MAX_LOAD:
        buckets *= 2
    keys = sorted(options, key=lambda key: _hash_text(key) & (buckets - 1))
    return {key: options[key] for key in keys}


def _hash_text(text: str) -> int:
    """Return the hash of a text in a HashMap: its hash code, the upper half mixed into the lower."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = reduce(lambda code, unit: (31 * code + unit) & WORD, units, 0)
    return code ^ (code >> 16)


def _format_list(texts: Collection[str]) -> str:
    return f"[{', '.join(texts)}]"


SCHEMAS = MetadataTable("schemas", "all versions of the schema, oldest first", SCHEMA_COLUMNS, _make_schemas)
OPTIONS = MetadataTable("options", "the options of the newest schema", OPTION_COLUMNS, _make_options)
AGGREGATION_FIELDS = MetadataTable(
    "aggregation_fields", "the columns and the functions that merge them", AGGREGATION_COLUMNS, _make_aggregation_fields
)

TAG_COLUMNS = make_columns(
    tag_name="STRING NOT NULL",
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    commit_time="TIMESTAMP(3) NOT NULL",
    record_count="BIGINT",
    create_time="TIMESTAMP(3)",
    time_retained="STRING",
)
BRANCH_COLUMNS = make_columns(branch_name="STRING NOT NULL", create_time="TIMESTAMP(3) NOT NULL")
CONSUMER_COLUMNS = make_columns(consumer_id="STRING NOT NULL", next_snapshot_id="BIGINT NOT NULL")

MICROS_PER_SECOND = 1_000_000
SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3600


def _make_tags(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    tags = sorted(state.metadata.tags(), key=lambda tag: to_java_sort_key(tag.name))
    rows = (
        (
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            None,
            tag.snapshot.total_record_count,
            tag.create_time,
            None if tag.time_retained is None else format_duration(tag.time_retained),
        )
        for tag in tags
    )
    times = to_wall_clock([tag.snapshot.time_millis for tag in tags])
    return make_frame(TAG_COLUMNS, rows).with_columns(times.alias("commit_time"))


def format_duration(duration: dt.timedelta) -> str:
    """Return Java's text of a duration: ``PT24H``, ``PT1H30M``, ``PT0.5S``; hours are the largest unit."""
    micros = duration // dt.timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), MICROS_PER_SECOND)
    hours, rest = divmod(seconds, SECONDS_PER_HOUR)
    minutes, rest = divmod(rest, SECONDS_PER_MINUTE)
    texts = [f"{sign}{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if rest or fraction or not texts:
        digits = f".{fraction:06d}".rstrip("0") if fraction else ""
        texts.append(f"{sign}{rest}{digits}S")
    return "PT" + "".join(texts)


def _make_branches(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata = state.metadata
    listed = [s for s in metadata.store.list(metadata.paths.branches_dir) if s.is_dir]
    changed = {s.name.removeprefix(BRANCH_PREFIX): s.modified_millis for s in listed}
    names = metadata.branch_names()
    times = to_wall_clock([changed.get(name, 0) for name in names])
    return pl.DataFrame({"branch_name": pl.Series(names, dtype=pl.String), "create_time": times})


def _make_consumers(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    return make_frame(CONSUMER_COLUMNS, Consumers(state.metadata).all().items())


TAGS = MetadataTable("tags", "the tags by name", TAG_COLUMNS, _make_tags)
BRANCHES = MetadataTable("branches", "the branches except main, by name", BRANCH_COLUMNS, _make_branches)
CONSUMERS = MetadataTable("consumers", "readers of changes and where they go on", CONSUMER_COLUMNS, _make_consumers)

STATISTICS_COLUMNS = make_columns(
    snapshot_id="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    mergedRecordCount="BIGINT",
    mergedRecordSize="BIGINT",
    colstat="STRING",
)
MEMBERS = ("colId", "distinctCount", "min", "max", "nullCount", "avgLen", "maxLen")
"""Members of one column's statistics, in the order in which Java prints them; nulls are left out."""


def _make_statistics(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    snapshot, metadata = state.snapshot, state.metadata
    if snapshot is None or snapshot.statistics is None:
        return make_frame(STATISTICS_COLUMNS, [])
    path = metadata.paths.statistics(snapshot.statistics)
    row = build_from_json(path, _make_statistics_row, parse_object(metadata.store.read(path), path))
    return make_frame(STATISTICS_COLUMNS, [row])


def _make_statistics_row(node: Mapping[str, Any]) -> tuple[int, int, int | None, int | None, str]:
    count, size = node.get("mergedRecordCount"), node.get("mergedRecordSize")
    columns = {name: _select_members(stats) for name, stats in (node.get("colStats") or {}).items()}
    return (
        int(node["snapshotId"]),
        int(node["schemaId"]),
        None if count is None else int(count),
        None if size is None else int(size),
        format_json(columns).decode(),
    )


def _select_members(stats: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stats[name] for name in MEMBERS if stats.get(name) is not None}


STATISTICS = MetadataTable("statistics", "what ANALYZE found out", STATISTICS_COLUMNS, _make_statistics, travels=True)

_TABLES: tuple[SystemTable, ...] = (
    SNAPSHOTS,
    SCHEMAS,
    OPTIONS,
    AGGREGATION_FIELDS,
    TAGS,
    BRANCHES,
    CONSUMERS,
    MANIFESTS,
    FILES,
    FILE_KEY_RANGES,
    PARTITIONS,
    BUCKETS,
    TABLE_INDEXES,
    FILE_INDEXES,
    STATISTICS,
    *ROW_TABLES,
)

SYSTEM_TABLES: Mapping[str, SystemTable] = {table.name: table for table in _TABLES}


def find_system_table(name: str) -> SystemTable:
    """Return the system table of this name, in lower or upper case, with or without the ``$`` before it.

    Raises `TableNotFound`: the table does not exist. `InvalidArgument`: the name is not text.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"the name of a system table is text such as 'snapshots', not {name!r}")
    plain = name.lower().removeprefix("$")
    found = SYSTEM_TABLES.get(plain)
    if found is None:
        raise TableNotFound(f"there is no system table {name!r}; {suggest_table_name(plain, [*SYSTEM_TABLES])}")
    return found
