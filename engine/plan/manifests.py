"""Manifests of a snapshot, decoded as columns, cached, and read ahead; guards for reads whose files are removed
meanwhile.

The cache folder holds decoded manifests that are large or lie in a remote store.

The snapshot names the manifest lists, and the lists name the manifests: a reader would wait twice. These functions read
both while the newest snapshot is still being requested. They decide nothing: the contents are cached under the names of
the files, which are never reused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile, FileMissing, MorrowError, SnapshotExpired
from morrow.engine.format.arrow_buffers import IPC_ERRORS, deserialize_frame, serialize_frame
from morrow.engine.format.manifest import (
    decode_index_manifest,
    decode_manifest_lists,
    decode_manifests,
    decode_outlines,
)
from morrow.engine.format.manifest_entries import ADD, DELETE, OUTLINE_COLUMNS
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.cache_folder import compute_digest, find_cache_folder, store_entry
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, FileStore, has_urls, start_request
from morrow.engine.plan import metadata as newest
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata, estimate_frame_bytes
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.polars_threads import check_process, concat_frames, open_threads

KEEP_ROWS = "plan the read again; a tag made beforehand (Table.tags.create) keeps the files of a long read"
KEEP_CHANGES = "read the table as a whole, then changes from there; a consumer_id keeps those not read yet"


@contextmanager
def guard_read(plan: ScanPlan, store: FileStore) -> Iterator[None]:
    """Guard code that reads the files of `plan` and of its fallback.

    Expiry, the deletion of a tag and a rollback first make a snapshot invisible (by the hint EARLIEST, or by renaming
    its file) and then remove files. So a missing file is not damage if nothing keeps the plan's snapshot any longer;
    the error becomes `SnapshotExpired`. If the snapshot is still kept, the table is damaged, and `FileMissing` stays.

    Raises:
        SnapshotExpired: a file is missing, and no snapshot or tag keeps the plan's files.
        Unsupported: the process was forked from one that has run queries.
    """
    check_process()
    try:
        yield
    except FileMissing as error:
        for part in plan.parts:
            if part.snapshot is None or not part.root:  # a writer's plan of individual files
                continue
            metadata = TableMetadata(store, part.root, part.branch)
            _check_held(metadata, part.snapshot, error, of_changes=part.of_changes)
        raise


@contextmanager
def guard_planning(metadata: TableMetadata, snapshot: Snapshot | None, *, of_changes: bool = False) -> Iterator[None]:
    """Guard code that reads the manifests of `snapshot`. Raises as `guard_read`."""
    check_process()
    try:
        yield
    except FileMissing as error:
        if snapshot is not None:
            _check_held(metadata, snapshot, error, of_changes=of_changes)
        raise


def _check_held(metadata: TableMetadata, snapshot: Snapshot, missing: FileMissing, *, of_changes: bool) -> None:
    try:
        held = is_living(metadata, snapshot) or (
            _has_changelog(metadata, snapshot) if of_changes else _has_tag(metadata, snapshot)
        )
    except MorrowError:  # a failed look-up must not hide the missing file
        return
    if not held:
        what, hint = ("its changes were", KEEP_CHANGES) if of_changes else ("it was", KEEP_ROWS)
        raise SnapshotExpired(
            f"{metadata.where}: snapshot {snapshot.id} was removed while {what} read ({missing.path} is gone); {hint}"
        ) from missing


def is_living(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether the table has this snapshot, and expiry has not announced its removal.

    The file of a snapshot is removed after the files that it names.
    """
    found = metadata.snapshot_or_none(snapshot.id)
    if found is None or not is_same_commit(found, snapshot):
        return False
    earliest = metadata.earliest_snapshot_id()
    return earliest is not None and earliest <= snapshot.id


def _has_tag(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether a tag keeps the snapshot: tags keep its rows, but not its changelog."""
    return any(is_same_commit(tag.snapshot, snapshot) for tag in metadata.tags())


def _has_changelog(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether a changelog keeps the snapshot's changes. It may outlive the snapshot without keeping its rows."""
    found = metadata.changelog_or_none(snapshot.id)
    return found is not None and is_same_commit(found, snapshot) and snapshot.id in list_living_changelog_ids(metadata)


def is_same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Return whether both snapshots are of one commit: after a rollback, another commit may have the same id.

    Catalogs that keep snapshots may add members to them, or change their time. Java drops unknown members from tags.
    """
    return one.id == other.id and one.delta_manifest_list == other.delta_manifest_list


MANIFEST_READERS = 4
"""The number of manifests read at once: decoding is native code that releases the interpreter lock."""

REMOTE_READERS = 16
"""The number of manifests read at once from a remote store, where most of the time is spent waiting."""

MIN_THREADED_BYTES = 1 << 20
"""The size in bytes below which manifests are decoded together, without threads.

On a local disk, starting threads for fewer bytes costs more than it saves, as does decoding each manifest separately.
"""

Stored: TypeAlias = tuple[str, int | None]
"""Path and size of a metadata file; the size is null if it was not recorded."""

Decode: TypeAlias = Callable[[Sequence[tuple[bytes, str]]], Sequence[pl.DataFrame]]
"""Decodes files, given as data and path, into frames."""


def list_manifests(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame:
    """Return the manifests of a snapshot, base list before delta list: the order in which entries apply."""
    lists = (
        (metadata.paths.manifest(snapshot.base_manifest_list), snapshot.base_manifest_list_size),
        (metadata.paths.manifest(snapshot.delta_manifest_list), snapshot.delta_manifest_list_size),
    )

    def joined() -> tuple[object, int]:
        frame = concat_frames(_decode_frames(metadata, lists, decode_manifest_lists))
        return frame, estimate_frame_bytes(frame)

    key = (metadata.store.url(metadata.root), *lists)
    return METADATA_CACHE.get_or_make(key, joined, of=snapshot.delta_manifest_list)  # type: ignore[return-value]  # heterogeneous cache


def list_base_manifests(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame:
    """Return the manifests of the snapshot's base list, which hold the files of its predecessor."""
    path = metadata.paths.manifest(snapshot.base_manifest_list)
    (frame,) = _decode_frames(metadata, [(path, snapshot.base_manifest_list_size)], decode_manifest_lists)
    return frame


def list_delta_manifests(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame:
    """Return the manifests of the changes of this snapshot."""
    path = metadata.paths.manifest(snapshot.delta_manifest_list)
    (frame,) = _decode_frames(metadata, [(path, snapshot.delta_manifest_list_size)], decode_manifest_lists)
    return frame


def list_changelog_manifests(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame | None:
    """Return the manifests of the changelog files that this snapshot added; None if it has none."""
    if snapshot.changelog_manifest_list is None:
        return None
    path = metadata.paths.manifest(snapshot.changelog_manifest_list)
    (frame,) = _decode_frames(metadata, [(path, snapshot.changelog_manifest_list_size)], decode_manifest_lists)
    return frame


def read_index_entries(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame | None:
    """Return the index files of a snapshot, columns of `decode_index_manifest`; None if it has none."""
    if snapshot.index_manifest is None:
        return None
    path = metadata.paths.manifest(snapshot.index_manifest)
    (frame,) = _decode_frames(metadata, [(path, None)], lambda files: [decode_index_manifest(*file) for file in files])
    added = frame["_KIND"] == ADD
    if not added.all():  # Writers keep only ADD entries, and Java reads every entry as an existing index file.
        raise CorruptFile(path, "an index file is deleted that was not added")
    return frame


def read_manifest_entries(
    metadata: TableMetadata, kept: pl.DataFrame, *, caches: bool = True, outlines: bool = False
) -> list[pl.DataFrame]:
    """Return the entries of each manifest in `kept`, checked against the counts of the manifest list.

    Without `caches`, newly read manifests are not added to the cache. With `outlines`, the columns are
    `OUTLINE_COLUMNS`.
    """
    paths = [metadata.paths.manifest(name) for name in kept["_FILE_NAME"].to_list()]
    files = list(zip(paths, kept["_FILE_SIZE"].to_list()))
    found = decode_files(metadata, files, decode_outlines if outlines else decode_manifests, caches=caches)
    frames = [found[file].select(*OUTLINE_COLUMNS) if outlines else found[file] for file in files]
    counts = zip(paths, frames, kept["_NUM_ADDED_FILES"].to_list(), kept["_NUM_DELETED_FILES"].to_list())
    for path, frame, added, deleted in counts:
        deletes = int(np.count_nonzero(frame["_KIND"].to_numpy() == DELETE))
        if (frame.height - deletes, deletes) != (added, deleted):
            raise CorruptFile(path, "the counts of added and deleted files differ from those in the manifest list")
    return frames


def cache_manifest(metadata: TableMetadata, name: str, size: int | None, frame: pl.DataFrame) -> None:
    """Cache the contents of a file of the manifest folder, for its writer and the following reads.

    `size` is null for index manifests, whose size is not recorded.
    """
    path = metadata.paths.manifest(name)
    _cache_frame(_make_cache_key(metadata, (path, size), False), path, frame)


def _decode_frames(metadata: TableMetadata, files: Sequence[Stored], decode: Decode) -> list[pl.DataFrame]:
    """Return the frame of each file, from the cache or decoded into it."""
    frames = decode_files(metadata, files, decode)
    return [frames[file] for file in files]


def decode_files(
    metadata: TableMetadata, files: Sequence[Stored], decode: Decode, *, missing_ok: bool = False, caches: bool = True
) -> dict[Stored, pl.DataFrame]:
    """Return the frame of each file, from the cache or decoded; with `caches`, decoded frames are added to the cache.

    With `missing_ok` the result lacks missing files; otherwise they raise `FileMissing`. An outline includes statistics
    if the whole manifest is cached.
    """
    check_process()
    outline = decode is decode_outlines
    frames = _find_cached(metadata, files, outline, caches)
    missing = [file for file in dict.fromkeys(files) if file not in frames]

    def read(file: Stored) -> bytes | None:
        return _read_or_none(metadata, file, missing_ok)

    def make(part: Sequence[Stored], data: Iterable[bytes | None]) -> list[tuple[Stored, pl.DataFrame]]:
        there = [(file, found) for file, found in zip(part, data) if found is not None]
        decoded = decode([(data, file[0]) for file, data in there])
        return list(zip((file for file, _ in there), decoded, strict=True))

    parts = _group_files(missing)
    if metadata.store.is_local and len(parts) < 2:
        made = [make(part, map(read, part)) for part in parts]
    elif metadata.store.is_local:
        with open_threads(MANIFEST_READERS) as pool:
            made = list(pool.map(lambda part: make(part, map(read, part)), parts))
    elif missing:
        with open_threads(REMOTE_READERS) as pool, open_threads(MANIFEST_READERS) as decoding:
            asked = [[pool.submit(read, file) for file in part] for part in parts]
            made = list(decoding.map(lambda part, data: make(part, [each.result() for each in data]), parts, asked))
    else:
        made = []
    for file, entries in itertools.chain.from_iterable(made):
        if caches:
            _cache_frame(_make_cache_key(metadata, file, outline), file[0], entries)
        frames[file] = entries
        store_manifest(metadata.store, *file, entries, outline=outline)
    return {file: frames[file] for file in files if file in frames}


def _make_cache_key(metadata: TableMetadata, file: Stored, outline: bool) -> tuple[object, ...]:
    key = metadata.store.url(file[0]), file[1]
    return (*key, "outline") if outline else key


def _find_cached(
    metadata: TableMetadata, files: Sequence[Stored], outline: bool, caches: bool
) -> dict[Stored, pl.DataFrame]:
    """Return the frames in the cache or the cache folder; for outlines, also the frames of whole files."""
    frames: dict[Stored, pl.DataFrame] = {}
    kinds = (False, True) if outline else (False,)
    for file in files:
        for is_outline in kinds:
            key = _make_cache_key(metadata, file, is_outline)
            cached = METADATA_CACHE.get(key)
            frame = load_manifest(metadata.store, *file, outline=is_outline) if cached is None else cached
            if isinstance(frame, pl.DataFrame):
                if caches and cached is None:
                    _cache_frame(key, file[0], frame)
                frames[file] = frame
                break
    return frames


def _cache_frame(key: tuple[object, ...], path: str, frame: pl.DataFrame) -> None:
    METADATA_CACHE.put(key, frame, estimate_frame_bytes(frame) + len(path), of=path.rpartition("/")[2])


def _group_files(files: Sequence[Stored]) -> list[Sequence[Stored]]:
    """Group files that are read and decoded together: each large file alone, small files in one group per reader."""
    sizes = [size or 0 for _, size in files]
    most = MIN_THREADED_BYTES if sum(sizes) < MIN_THREADED_BYTES else MIN_THREADED_BYTES // MANIFEST_READERS
    parts: list[list[Stored]] = []
    room = 0
    for file, size in zip(files, sizes):
        if not parts or size > room:
            parts.append([])
            room = most
        parts[-1].append(file)
        room -= size
    return [*parts]


def _read_or_none(metadata: TableMetadata, file: Stored, missing_ok: bool) -> bytes | None:
    try:
        return _read(metadata, *file)
    except FileMissing:
        if missing_ok:
            return None
        raise


def _read(metadata: TableMetadata, path: str, size: int | None) -> bytes:
    data = metadata.store.read(path)
    if size is not None and len(data) != size:
        raise CorruptFile(path, f"{len(data)} bytes long where its metadata says {size}")
    return data


MIN_STORED_BYTES = 1 << 18
"""The size in bytes below which manifests on a local disk are not stored: decoding them is fast enough."""
MAX_STORED_BYTES = 64 << 20
"""The limit of memory in bytes of a stored frame."""


def load_manifest(store: FileStore, path: str, size: int | None, *, outline: bool = False) -> pl.DataFrame | None:
    """Return the decoded manifest at `path`, of `size` bytes, or its outline; None if it is not stored."""
    key = _make_folder_key(store, path, size, outline)
    folder = None if key is None else find_cache_folder()
    data = None if key is None or folder is None else folder.get(key)
    if key is None or folder is None or data is None:
        return None
    try:
        return deserialize_frame(data)
    except IPC_ERRORS:
        folder.discard(key)
        return None


def store_manifest(
    store: FileStore, path: str, size: int | None, frame: pl.DataFrame, *, outline: bool = False
) -> None:
    """Store a decoded manifest, or its outline, if that saves time later."""
    key = _make_folder_key(store, path, size, outline)
    folder = None if key is None else find_cache_folder()
    if key is None or folder is None or frame.estimated_size() > MAX_STORED_BYTES:
        return
    store_entry(folder, key, lambda: serialize_frame(frame))


def _make_folder_key(store: FileStore, path: str, size: int | None, outline: bool) -> bytes | None:
    """Return the key of a manifest in the cache folder; None if storing the manifest does not pay.

    Name and size alone do not identify a file. On a local disk the key has the file's status, too; in other stores
    names are never reused.
    """
    if size is None or store.checks_pages or (store.is_local and size < MIN_STORED_BYTES):
        return None
    place, kind = store.url(path), "outline" if outline else "manifest"
    if not store.is_local:
        return compute_digest(kind, pl.__version__, place, size)
    try:
        status = Path(place).stat()
    except OSError:
        return None
    if status.st_size != size:
        return None
    return compute_digest(kind, pl.__version__, place, size, status.st_mtime_ns, status.st_ino)


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
        schema, found = metadata.latest_schema(), metadata.latest_snapshot()
    else:
        looking = start_request(metadata.store, metadata.latest_snapshot)
        done = _begin_reading(metadata, beforehand, at_first)
        schema, found = metadata.latest_schema(), looking()
        done()
    if found is not None and found.schema_id > schema.id:  # the schema was changed between both reads
        schema = metadata.latest_schema()
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
