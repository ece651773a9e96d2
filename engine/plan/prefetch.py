"""Metadata of remote stores that is read ahead: the newest schema and snapshot of a table, and its manifests.

The snapshot names the manifest lists, and the lists name the manifests: a reader would wait twice. These functions read
both while the newest snapshot is still being requested. They decide nothing: the contents are cached under the names of
the files, which are never reused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from morrow.engine.errors import MorrowError
from morrow.engine.format.manifest import decode_manifest_lists, decode_manifests
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.prefetch import start_request
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, has_urls
from morrow.engine.plan import metadata as newest
from morrow.engine.plan.manifests import decode_files, list_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned

_TASK_BYTES = 2048
"""The approximate memory in bytes of a pending function."""

Beforehand: TypeAlias = Callable[[TableMetadata, Snapshot], object]
"""Called with the probable newest snapshot while the newest is being requested; its errors are ignored."""
AtFirst: TypeAlias = Callable[[TableMetadata], object]
"""Called if no probable snapshot is known. Opening a table does not wait for it, and its errors are ignored."""


def load_newest_schema(
    metadata: TableMetadata, beforehand: Beforehand | None = None, at_first: AtFirst | None = None
) -> tuple[TableSchema, Snapshot | None]:
    """Return the newest schema; in a remote store also the newest snapshot, if it was found at the same time.

    Raises: as `TableMetadata.latest_schema`. An error about the snapshot is left to its later readers.
    """
    if metadata.store.is_local or Owned.SNAPSHOTS in metadata.owner.owns:
        return metadata.latest_schema(), None
    looking = start_request(metadata.store, metadata.latest_snapshot)
    done = _begin_reading(metadata, beforehand, at_first)
    schema, found = metadata.latest_schema(), None
    with suppress(MorrowError):
        found = looking()
    if beforehand is not None:
        done()
    return schema, found


def load_newest_state(
    metadata: TableMetadata, beforehand: Beforehand | None = None, at_first: AtFirst | None = None
) -> tuple[TableSchema, Snapshot | None]:
    """Return the newest schema and snapshot; in a remote store, both are requested concurrently."""
    if metadata.store.is_local:
        return metadata.latest_schema(), metadata.latest_snapshot()
    looking = start_request(metadata.store, metadata.latest_snapshot)
    done = _begin_reading(metadata, beforehand, at_first)
    schema, found = metadata.latest_schema(), looking()
    done()
    return schema, found


def _begin_reading(
    metadata: TableMetadata, beforehand: Beforehand | None, at_first: AtFirst | None
) -> Callable[[], None]:
    """Begin the work that is possible before the newest snapshot is certain; return the function that waits for it."""
    key = "pending request", metadata.store.url(metadata.paths.snapshot_dir)
    known = newest.get_last_seen(metadata)
    if known is None:
        if at_first is None or Owned.SNAPSHOTS in metadata.owner.owns:
            return lambda: None
        reading = start_request(metadata.store, partial(at_first, metadata))
        newest.METADATA_CACHE.put(key, reading, _TASK_BYTES)
        return partial(_wait, reading)
    if beforehand is None:
        return lambda: None
    begun = newest.METADATA_CACHE.get(key)

    def read() -> None:
        if callable(begun):
            _wait(begun)
        beforehand(metadata, known)

    return partial(_wait, start_request(metadata.store, read))


def _wait(doing: Callable[[], object]) -> None:
    with suppress(MorrowError):
        doing()


MAX_AHEAD_FILES, MAX_AHEAD_BYTES = 16, 1 << 20
"""The limits of reading a snapshot's manifests ahead. Beyond them, no manifest is read ahead."""
LIST_PREFIX, MANIFEST_PREFIX = "manifest-list-", "manifest-"
MAX_NEWEST_FILES, MAX_NEWEST_MILLIS = 6, 3000
"""The limits of reading files of the manifest folder ahead: the last files, written within these milliseconds."""


def read_manifests_ahead(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Read the lists of a snapshot, its index manifest, and its manifests if they are few.

    Raises: as `list_manifests`, `read_index_entries` and `read_manifest_entries`.
    """
    indexing = start_request(metadata.store, lambda: read_index_entries(metadata, snapshot))
    manifests = list_manifests(metadata, snapshot)
    if 0 < manifests.height <= MAX_AHEAD_FILES and manifests["_FILE_SIZE"].sum() <= MAX_AHEAD_BYTES:
        read_manifest_entries(metadata, manifests)
    indexing()


def read_latest_files_ahead(metadata: TableMetadata) -> None:
    """Read the files of the manifest folder that were written last: probably the lists of the newest snapshot.

    A folder whose listing takes more than one page is skipped.
    """
    if not has_urls(metadata.store):
        return
    folder = metadata.paths.manifest("any").rpartition("/")[0]
    page = next(iter(metadata.store.walk(folder)), [])
    files = [status for _, status in page if status.name.startswith(MANIFEST_PREFIX) and not status.is_dir]
    if not files or len(page) >= WALKED_AT_ONCE:
        return
    latest = max(status.modified_millis for status in files) - MAX_NEWEST_MILLIS
    newest = sorted((each for each in files if each.modified_millis >= latest), key=lambda each: -each.modified_millis)
    chosen = [status for status in newest[:MAX_NEWEST_FILES] if status.size <= MAX_AHEAD_BYTES]
    lists = [status for status in chosen if status.name.startswith(LIST_PREFIX)]
    manifests = [status for status in chosen if not status.name.startswith(LIST_PREFIX)]
    reading = start_request(
        metadata.store, lambda: decode_files(metadata, _to_stored(metadata, manifests), decode_manifests)
    )
    decode_files(metadata, _to_stored(metadata, lists), decode_manifest_lists)
    reading()


def _to_stored(metadata: TableMetadata, files: list[FileStatus]) -> list[tuple[str, int | None]]:
    return [(metadata.paths.manifest(status.name), status.size) for status in files]
