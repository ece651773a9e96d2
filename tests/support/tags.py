"""Snapshots with given times for tests of tags: they are empty, since no committer could set the times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from morrow.engine.format.snapshot import Snapshot, format_snapshot
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from tests.support import commits

UTC_DAYS = {"sink.process-time-zone": "UTC"}
"""Options that make tests independent of the local time zone."""


def table(
    folder: Path, *times: str, options: Mapping[str, str] | None = None, store: FileStore | None = None
) -> TableMetadata:
    """Make a table with a snapshot for each time (ISO text in UTC), beginning with id 1."""
    metadata = commits.table(folder, options={**UTC_DAYS, **(options or {})}, store=store)
    for i, time in enumerate(times, 1):
        add_snapshot(metadata, i, time)
    return metadata


def add_snapshot(
    metadata: TableMetadata,
    snapshot_id: int,
    time: str,
    *,
    watermark: str | None = None,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
) -> Snapshot:
    """Add an empty snapshot with this time."""
    snapshot = Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list=f"manifest-list-{snapshot_id}-0",
        delta_manifest_list=f"manifest-list-{snapshot_id}-1",
        commit_user="somebody",
        commit_identifier=identifier,
        commit_kind="APPEND",
        time_millis=millis(time),
        watermark=None if watermark is None else millis(watermark),
        total_record_count=0,
        delta_record_count=0,
        next_row_id=0,
    )
    metadata.store.write(metadata.paths.snapshot(snapshot_id), format_snapshot(snapshot))
    metadata.store.write(f"{metadata.paths.snapshot_dir}/LATEST", str(snapshot_id).encode())
    return snapshot


def expire(metadata: TableMetadata, *snapshot_ids: int) -> None:
    """Remove snapshot files like the last step of expiry."""
    for snapshot_id in snapshot_ids:
        assert metadata.store.delete(metadata.paths.snapshot(snapshot_id))


def tags(metadata: TableMetadata) -> dict[str, int]:
    """Map the names of all tags to the ids of their snapshots."""
    return {tag.name: tag.snapshot.id for tag in metadata.tags()}


def moment(text: str) -> dt.datetime:
    """Parse ISO text as an instant, in UTC if it lacks a zone."""
    time = dt.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def millis(text: str) -> int:
    return int(moment(text).timestamp() * 1000)
