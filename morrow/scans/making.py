"""Scans made: the state that is read, and what is asked of it, checked."""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.format.schema import refuse_unreadable
from morrow.engine.plan.fallback import readable_schema
from morrow.engine.plan.filter import FilterLike, parse_filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.newest_state import newest_state
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.time_travel import NOW, Travel, resolve, travel_of_options
from morrow.scans.planning import read_latest_files, read_manifests
from morrow.scans.scan_arguments import checked_columns, checked_limit
from morrow.scans.table_scan import Scan


def make_scan(
    metadata: TableMetadata,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    travel: Travel = NOW,
    newest: bool = False,
) -> Scan:
    """Resolves branch, snapshot and schema, and checks columns, filter and limit against them; see `Table.scan`.

    Args:
        newest: read the newest snapshot with the newest columns, whatever the options of time travel say.
    """
    metadata, travel = travel.of_branch(metadata)
    latest, ahead = (
        newest_state(metadata, read_manifests, read_latest_files)
        if travel.is_latest
        else (metadata.latest_schema(), None)
    )
    options = metadata.options(latest)
    is_now = travel.is_latest
    if is_now and not newest:
        travel = travel_of_options(options.travel)
    found = ahead if is_now and travel.is_latest else resolve(metadata, travel)
    # Time travel reads with that snapshot's columns; options are those of today, as in Java.
    schema = latest if travel.is_latest or found is None else metadata.schema(found.schema_id)
    refuse_unreadable(schema, metadata.where)
    asked = Travel()
    if options.other_branch is not None:
        asked, schema = travel, readable_schema(metadata, schema, options, found, travel)
    checked_limit(limit)
    names = tuple(schema.by_name) if columns is None else checked_columns(columns)
    for name in names:
        schema.column(name)
    parsed = parse_filter(filter, schema.fields)
    request = ScanRequest(schema, options, found, names, parsed, limit, travel=asked)
    return Scan(metadata, request)
