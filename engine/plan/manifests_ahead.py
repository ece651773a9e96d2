"""Manifest lists and manifests read before it is certain that they are needed, from stores far away.

The snapshot names the lists and the lists name the manifests: two waits, which whoever reads them ahead does not have.
Nothing is decided here: their contents are kept in the cache under their names, which are never used again.
"""

from __future__ import annotations

from morrow.engine.format.manifest import decode_manifest_lists, decode_manifests
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, has_urls
from morrow.engine.plan.manifests import decoded_files, index_entries, manifest_entries, manifests_of
from morrow.engine.plan.metadata import TableMetadata

MOST_FILES, MOST_BYTES = 16, 1 << 20
"""Manifests of a snapshot that are read ahead: all of them if they are so few, or none."""
LIST_PREFIX, MANIFEST_PREFIX = "manifest-list-", "manifest-"
NEWEST_FILES, NEWEST_MILLIS = 6, 3000
"""Files of the manifest folder that are read ahead: those written last, within so many milliseconds."""


def read_manifests(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Reads the lists of a snapshot, its index manifest, and its manifests if they are few.

    Raises: as `manifests_of`, `index_entries` and `manifest_entries`.
    """
    indexing = ahead(metadata.store, lambda: index_entries(metadata, snapshot))
    manifests = manifests_of(metadata, snapshot)
    if 0 < manifests.height <= MOST_FILES and manifests["_FILE_SIZE"].sum() <= MOST_BYTES:
        manifest_entries(metadata, manifests)
    indexing()


def read_latest_files(metadata: TableMetadata) -> None:
    """Reads the files of the manifest folder that were written last: lists of the newest snapshot, probably.

    A folder of more files than one page of a listing has is left alone.
    """
    if not has_urls(metadata.store):
        return
    folder = metadata.paths.manifest("any").rpartition("/")[0]
    page = next(iter(metadata.store.walk(folder)), [])
    files = [status for _, status in page if status.name.startswith(MANIFEST_PREFIX) and not status.is_dir]
    if not files or len(page) >= WALKED_AT_ONCE:
        return
    latest = max(status.modified_millis for status in files) - NEWEST_MILLIS
    newest = sorted((each for each in files if each.modified_millis >= latest), key=lambda each: -each.modified_millis)
    chosen = [status for status in newest[:NEWEST_FILES] if status.size <= MOST_BYTES]
    lists = [status for status in chosen if status.name.startswith(LIST_PREFIX)]
    manifests = [status for status in chosen if not status.name.startswith(LIST_PREFIX)]
    reading = ahead(metadata.store, lambda: decoded_files(metadata, _stored(metadata, manifests), decode_manifests))
    decoded_files(metadata, _stored(metadata, lists), decode_manifest_lists)
    reading()


def _stored(metadata: TableMetadata, files: list[FileStatus]) -> list[tuple[str, int | None]]:
    return [(metadata.paths.manifest(status.name), status.size) for status in files]
