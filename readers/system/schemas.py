"""``$schemas``, ``$options`` and ``$aggregation_fields``: the contents of schema files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

import polars as pl

from morrow.engine.format.type_json import field_to_json
from morrow.engine.telling import without_secrets
from morrow.readers.casts.java_text import wall_clock
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of

SCHEMA_COLUMNS = columns_of(
    schema_id="BIGINT NOT NULL",
    fields="STRING NOT NULL",
    partition_keys="STRING NOT NULL",
    primary_keys="STRING NOT NULL",
    options="STRING NOT NULL",
    comment="STRING",
    update_time="TIMESTAMP(3) NOT NULL",
)
OPTION_COLUMNS = columns_of(key="STRING NOT NULL", value="STRING NOT NULL")
AGGREGATION_COLUMNS = columns_of(
    field_name="STRING NOT NULL",
    field_type="STRING NOT NULL",
    function="STRING",
    function_options="STRING",
    comment="STRING",
)

FIELD_OPTIONS = "fields"
LEAST_BUCKETS = 16
FULLEST = 0.75
WORD = 0xFFFF_FFFF
LEAST_PARTS = 3
"""Parts of ``fields.<column>.<option>``; a column name with a dot cannot be distinguished from one with an option."""


def _schemas(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    schemas = state.metadata.schemas()
    rows = (
        (
            schema.id,
            _json([field_to_json(field) for field in schema.fields]),
            _json(schema.partition_keys),
            _json(schema.primary_keys),
            _json(_in_hash_order(without_secrets(schema.options))),
            schema.comment,
            None,
        )
        for schema in schemas
    )
    times = wall_clock([schema.time_millis or 0 for schema in schemas])
    return frame_of(SCHEMA_COLUMNS, rows).with_columns(times.alias("update_time"))


def _json(node: Any) -> str:
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def _options(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    return frame_of(OPTION_COLUMNS, _in_hash_order(without_secrets(state.newest_schema.options)).items())


def _aggregation_fields(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    schema = state.newest_schema
    options = _field_options(_in_hash_order(schema.options))
    rows = (
        (
            field.name,
            str(field.type),
            _listed(options.get(field.name, {}).values()),
            _listed(options.get(field.name, {})),
            field.description,
        )
        for field in schema.fields
    )
    return frame_of(AGGREGATION_COLUMNS, rows)


def _field_options(options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the ``fields.<column>.*`` options of each column, by their full names."""
    found: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        parts = key.rstrip(".").split(".")
        if len(parts) >= LEAST_PARTS and parts[0] == FIELD_OPTIONS:
            found.setdefault(parts[1], {})[key] = value
    return found


def _in_hash_order(options: Mapping[str, str]) -> dict[str, str]:
    """Returns options in the order of Java's HashMap, in which it shows them: by bucket, then by insertion."""
    buckets = LEAST_BUCKETS
    while len(options) > buckets * FULLEST:
        buckets *= 2
    keys = sorted(options, key=lambda key: _java_hash(key) & (buckets - 1))
    return {key: options[key] for key in keys}


def _java_hash(text: str) -> int:
    """Returns the hash of a text in a HashMap: its hash code, the upper half mixed into the lower."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = reduce(lambda code, unit: (31 * code + unit) & WORD, units, 0)
    return code ^ (code >> 16)


def _listed(texts: Collection[str]) -> str:
    return f"[{', '.join(texts)}]"


SCHEMAS = MetadataTable("schemas", "all versions of the schema, oldest first", SCHEMA_COLUMNS, _schemas)
OPTIONS = MetadataTable("options", "the options of the newest schema", OPTION_COLUMNS, _options)
AGGREGATION_FIELDS = MetadataTable(
    "aggregation_fields", "the columns and the functions that merge them", AGGREGATION_COLUMNS, _aggregation_fields
)
