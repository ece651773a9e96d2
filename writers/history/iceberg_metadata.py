"""Iceberg metadata beside Paimon's (``metadata.iceberg.storage``), with which Iceberg readers read the data files.

As in Java, each snapshot has an Iceberg snapshot of the same id, and a version of the metadata:

    metadata/v<id>.metadata.json                 schemas, snapshots and tags; only the newest version is kept
    metadata/version-hint.text                   the newest version
    metadata/snap-<n>-<uuid>.avro                the manifests of a snapshot
    metadata/<uuid>-m<n>.avro                    data files, or deletion vectors

A version extends the version of the snapshot before. It is made from the live files alone if there is none, if it is of
another table or another history (see `IDENTITY`), or if its schemas differ. Append tables show all files, tables with a
primary key only those that a full compaction has made, or, with deletion vectors, those above level 0.

Snapshots are published after their commit, by any later commit if the process was killed before. Commits that race
publish the same: a version is created if it does not exist.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, MorrowError
from morrow.engine.format import iceberg_files as iceberg
from morrow.engine.format.iceberg_files import DATA, DELETED, DELETES, LIST_DTYPES
from morrow.engine.format.metadata_json import format_json, parse_object
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.options.declared import features
from morrow.engine.options.retention import parse_expire_options
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import get_logger
from morrow.writers.history.iceberg_manifests import (
    IDENTITY,
    Document,
    FileChanges,
    IcebergTable,
    NewFiles,
    assign_row_ids,
    count_values,
    find_identity,
    split_rows,
)

HINT, RETIRE_PENDING = "version-hint.text", "retire-pending"
MAX_AHEAD = 10
"""The limit of snapshots that a commit publishes. If more lack their metadata, only the newest is published."""
REQUIRED = ("format-version", "table-uuid", "location", "last-column-id", "schemas", "snapshots", "current-snapshot-id")
NO_EXPIRY = 2**63 - 1

log = get_logger(__name__)


def publish_snapshots(metadata: TableMetadata) -> None:
    """Write the Iceberg metadata of the newest snapshot, and of the few before it that lack theirs.

    Does nothing for other branches, and for tables without ``metadata.iceberg.storage``.

    Raises:
        Unsupported, InvalidArgument: the schema or an option does not go with Iceberg. CorruptFile, FileMissing,
        StorageError: a file could not be read or written. The next commit publishes again.
    """
    table = IcebergTable.of(metadata)
    head = None if table is None else metadata.latest_snapshot()
    while table is not None and head is not None:
        IcebergVersions(table).publish(head)
        latest = metadata.latest_snapshot()
        # Another commit may have published a newer snapshot before the hint of this one was written.
        head = (
            latest if latest != head and latest is not None and IcebergVersions(table).has_version(latest.id) else None
        )


def publish_quietly(metadata: TableMetadata) -> None:
    """Publish after a commit or a change of the history, and log errors. The next commit tries again."""
    try:
        publish_snapshots(metadata)
    except MorrowError as error:
        log.warning("%s: the Iceberg metadata does not follow: %s", metadata.where, error)


def publish_tags(metadata: TableMetadata) -> None:
    """Write the table's tags as references of the newest version of the Iceberg metadata; log errors."""
    try:
        table = IcebergTable.of(metadata)
        head = None if table is None else metadata.latest_snapshot()
        if table is not None and head is not None:
            IcebergVersions(table).update_tags(head)
    except MorrowError as error:
        log.warning("%s: the Iceberg metadata does not have the tags: %s", metadata.where, error)


@dataclass(frozen=True)
class IcebergVersions:
    """The versions of the Iceberg metadata of one table."""

    table: IcebergTable

    # --- versions ---

    def publish(self, head: Snapshot) -> None:
        """Make the versions up to `head`, point the hint there, and remove what is no longer needed."""
        self._prepare_folder(head)
        versions = self._list_versions()
        waiting, base = self._find_waiting(head)
        newest = self._read(max(versions, default=0))
        floor = _Floor.of([each for each in (base, newest) if each is not None])
        seen = [each for each in (base, newest) if each is not None]
        for snapshot in waiting:
            base = self._add_version(snapshot, base, floor)
            floor = _Floor.of([base], floor)
            seen.append(base)
        if base is None or self.table.metadata.latest_snapshot() != head:
            return
        self.table.store.write(f"{self.table.folder}/{HINT}", str(head.id).encode())
        self._clean(head, base, versions, seen)

    def has_version(self, snapshot_id: int) -> bool:
        return self.table.store.exists(self._version_path(snapshot_id))

    def update_tags(self, head: Snapshot) -> None:
        """Write the tags into the version of `head`, if it is there."""
        document = self._read(head.id)
        if document is None or not _is_of(document, head):
            return
        refs = self._list_refs(document["snapshots"])
        if refs != document.get("refs"):
            self.table.store.write(self._version_path(head.id), format_json({**document, "refs": refs}))

    def _version_path(self, snapshot_id: int) -> str:
        return f"{self.table.folder}/v{snapshot_id}.metadata.json"

    def _list_versions(self) -> list[int]:
        names = (status.name.partition(".") for status in self.table.store.list(self.table.folder))
        found = (first[1:] for first, _, rest in names if rest == "metadata.json" and first.startswith("v"))
        return sorted(int(number) for number in found if number.isdecimal())

    def _read(self, snapshot_id: int) -> Document | None:
        """Return a version; None if it is missing or damaged, so that it is made again."""
        path = self._version_path(snapshot_id)
        try:
            found = parse_object(self.table.store.read(path), path)
        except (FileMissing, CorruptFile):
            return None
        return found if found.keys() >= set(REQUIRED) and _find_current(found) is not None else None

    def _prepare_folder(self, head: Snapshot) -> None:
        """Remove the metadata of a dropped table in whose place this one is: there it lies outside of the table."""
        outside = not self.table.folder.startswith(f"{self.table.metadata.root}/")
        if head.id == FIRST_SNAPSHOT_ID and outside:
            document = self._read(head.id)
            if document is None or not _is_of(document, head):
                self.table.store.delete_folder(self.table.folder)

    def _find_waiting(self, head: Snapshot) -> tuple[list[Snapshot], Document | None]:
        """Return the snapshots to publish, oldest first, and the version that the first one extends."""
        waiting: list[Snapshot] = []
        snapshot: Snapshot | None = head
        while snapshot is not None and len(waiting) <= MAX_AHEAD:
            document = self._read(snapshot.id)
            if document is not None and _is_of(document, snapshot):
                return waiting, document
            waiting.insert(0, snapshot)
            if snapshot.id == FIRST_SNAPSHOT_ID:
                return waiting, None
            snapshot = self.table.metadata.snapshot_or_none(snapshot.id - 1)
        return [head], None

    def _add_version(self, snapshot: Snapshot, base: Document | None, floor: _Floor) -> Document:
        """Create the version of a snapshot; return the one that exists then."""
        files = NewFiles(self.table, snapshot)
        path = self._version_path(snapshot.id)
        try:
            made = self._build(files, base, floor)
            if self.table.store.create(path, format_json(made)):
                return made
            there = self._read(snapshot.id)
            if there is not None and _is_of(there, snapshot):
                self.table.store.discard(files.written)
                return there
            self.table.store.write(path, format_json(made))  # of a history that was rolled back
        except MorrowError:
            self.table.store.discard(files.written)
            raise
        return made

    def _build(self, files: NewFiles, base: Document | None, floor: _Floor) -> Document:
        if base is not None and self._can_extend(base):
            try:
                return self._extend(files, base, floor)
            except (FileMissing, CorruptFile) as error:
                log.warning("%s: the Iceberg metadata is rewritten: %s", self.table.metadata.where, error)
        return self._start(files, floor)

    def _can_extend(self, base: Document) -> bool:
        if base["format-version"] > self.table.version:
            raise InvalidArgument(
                f"{self.table.metadata.where}: the Iceberg metadata has format version {base['format-version']}, and "
                f"{features.METADATA_ICEBERG_FORMAT_VERSION} is {self.table.version}; set it back"
            )
        rows_known = self.table.version < iceberg.ROW_IDS_VERSION or base.get("next-row-id") is not None
        is_same = base["format-version"] == self.table.version and base["location"] == self._location and rows_known
        known = base["schemas"]
        if not is_same or any(each["schema-id"] > self.table.schema.id for each in known):
            return False
        return all(each == self.table.to_iceberg(each["schema-id"]) for each in known)

    @property
    def _location(self) -> str:
        return self.table.store.url(self.table.metadata.root)

    def _make_document(
        self, files: NewFiles, snapshots: list[Document], base: Document | None, floor: _Floor, next_row: int
    ) -> Document:
        snapshot = files.snapshot
        known = [] if base is None else list(base["schemas"])
        ids = {each["schema-id"] for each in known}
        schemas = known + [self.table.to_iceberg(i) for i in self.table.metadata.schema_ids() if i not in ids]
        fields = iceberg.list_partition_fields(self.table.schema)
        row_ids = {"next-row-id": next_row} if self.table.version >= iceberg.ROW_IDS_VERSION else {}
        return {
            "format-version": self.table.version,
            "table-uuid": floor.table_uuid,
            "location": self._location,
            "last-sequence-number": snapshot.id,
            "last-updated-ms": time.time_ns() // 1_000_000,
            "last-column-id": max([floor.last_column, *(f["id"] for each in schemas for f in each["fields"])]),
            "schemas": schemas,
            "current-schema-id": self.table.schema.id,
            "partition-specs": [{"spec-id": 0, "fields": fields}],
            "default-spec-id": 0,
            "last-partition-id": iceberg.FIRST_PARTITION_ID - 1 + len(fields),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": snapshots,
            "current-snapshot-id": snapshot.id,
            **row_ids,
            "properties": {},
            "refs": self._list_refs(snapshots),
        }

    def _list_refs(self, snapshots: Sequence[Document]) -> Document:
        """Return the tags of these Iceberg snapshots; Iceberg refuses metadata with tags of other snapshots."""
        identities = {each["snapshot-id"]: each["summary"].get(IDENTITY) for each in snapshots}
        return {
            tag.name: {"snapshot-id": tag.snapshot.id, "type": "tag", "max-ref-age-ms": NO_EXPIRY}
            for tag in (self.table.metadata.tags() if self.table.metadata.tag_names() else ())
            if tag.snapshot.id in identities and identities[tag.snapshot.id] in (None, find_identity(tag.snapshot))
        }

    # --- snapshots ---

    def _start(self, files: NewFiles, floor: _Floor) -> Document:
        """Return a version of the live files alone."""
        snapshot = files.snapshot
        live = read_live_entries(self.table.metadata, snapshot, self.table.schema).frame
        shown = self.table.locate(live.filter(self.table.mask_shown(live)))
        manifests = [*files.write(self.table.describe(shown, snapshot), DATA), *self.table.write_vectors(files)]
        changes = FileChanges(
            "append", shown.height, count_values(shown, "_ROW_COUNT"), count_values(shown, "_FILE_SIZE")
        )
        changes.partitions = shown["_PARTITION"].n_unique()
        made, next_row = self._make_snapshot(files, manifests, changes, floor, changes.added_bytes)
        return self._make_document(files, [made], None, floor, next_row)

    def _extend(self, files: NewFiles, base: Document, floor: _Floor) -> Document:
        """Return the metadata document that follows `base`."""
        snapshot, current = files.snapshot, _find_current(base)
        assert current is not None
        before = self.table.read_list(current["manifest-list"])
        rows_before = before.filter(pl.col("content") == DATA)
        manifests, changes = self.table.apply_changes(files, rows_before)
        manifests = self.table.merge_manifests(files, manifests)
        if not self.table.shows_vectors:
            vectors = []
        elif self._has_same_vectors(snapshot):
            vectors = split_rows(before.filter(pl.col("content") == DELETES))
        else:
            vectors = self.table.write_vectors(files)
        known = current["summary"].get("total-files-size")
        total = sum(self._count_bytes(path) for path in rows_before["manifest_path"]) if known is None else int(known)
        total += changes.added_bytes - changes.removed_bytes
        made, next_row = self._make_snapshot(files, [*manifests, *vectors], changes, floor, total)
        kept = self._drop_expired([*base["snapshots"], made])
        return self._make_document(files, kept, base, floor, next_row)

    def _has_same_vectors(self, snapshot: Snapshot) -> bool:
        before = self.table.metadata.snapshot_or_none(snapshot.id - 1)
        return before is not None and before.index_manifest == snapshot.index_manifest

    def _count_bytes(self, path: str) -> int:
        entries = self.table.read_manifest(path)
        return count_values(entries.filter(pl.col("status") != DELETED), "file_size_in_bytes")

    def _make_snapshot(
        self, files: NewFiles, manifests: Sequence[pl.DataFrame], changes: FileChanges, floor: _Floor, total_bytes: int
    ) -> tuple[Document, int]:
        """Write the manifest list; return the Iceberg snapshot, and the next row id."""
        snapshot = files.snapshot
        listed = pl.concat([pl.DataFrame(schema=dict(LIST_DTYPES)), *manifests])
        next_row, row_ids = floor.next_row, {}
        if self.table.version >= iceberg.ROW_IDS_VERSION:
            listed, next_row = assign_row_ids(listed, floor.next_row)
            row_ids = {"first-row-id": floor.next_row, "added-rows": next_row - floor.next_row}
        parent = None if snapshot.id == FIRST_SNAPSHOT_ID else snapshot.id - 1
        made = {
            "sequence-number": snapshot.id,
            "snapshot-id": snapshot.id,
            "parent-snapshot-id": parent,
            "timestamp-ms": snapshot.time_millis,
            "summary": changes.summarize(snapshot, listed, total_bytes),
            "manifest-list": files.write_list(listed, parent),
            "schema-id": snapshot.schema_id,
            **row_ids,
        }
        return {name: value for name, value in made.items() if value is not None}, next_row

    def _drop_expired(self, snapshots: list[Document]) -> list[Document]:
        """Return the snapshots without the oldest ones, which Paimon's own expiry removes after this commit."""
        kept = parse_expire_options(self.table.given.raw, where=self.table.metadata.where).snapshots
        newest, oldest = snapshots[-1]["snapshot-id"], time.time_ns() // 1_000_000 - kept.millis
        for place, each in enumerate(snapshots):
            age = newest - each["snapshot-id"]
            if age < kept.least or (age < kept.most and each["timestamp-ms"] >= oldest):
                return snapshots[place:]
        return snapshots[-1:]

    # --- cleaning ---

    def _clean(self, head: Snapshot, document: Document, versions: Sequence[int], seen: list[Document]) -> None:
        """Remove old versions, versions of a history that was rolled back, and manifests that no snapshot needs."""
        gone = [each for each in versions if each > head.id]
        if self.table.given.get(features.METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED):
            first = head.id - self.table.given.get(features.METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX)
            gone += [each for each in {*versions, *(each["current-snapshot-id"] for each in seen)} if each < first]
        seen += [each for each in map(self._read, gone) if each is not None]
        self.table.store.discard([*map(self._version_path, gone), f"{self.table.folder}/{RETIRE_PENDING}"])
        kept = {each["manifest-list"] for each in document["snapshots"]}
        lists = {each["manifest-list"] for old in seen for each in old["snapshots"]} - kept
        if lists:
            needed = {path for each in kept for path in self.table.read_list(each)["manifest_path"]}
            unused = set(lists)
            for each in lists:
                with suppress(FileMissing, CorruptFile):
                    unused.update(path for path in self.table.read_list(each)["manifest_path"] if path not in needed)
            self.table.store.discard([f"{self.table.folder}/{path.rpartition('/')[2]}" for path in sorted(unused)])


@dataclass(frozen=True)
class _Floor:
    """Values of earlier metadata that later metadata must not use again."""

    table_uuid: str
    last_column: int = 0
    next_row: int = 0

    @classmethod
    def of(cls, documents: Sequence[Document], before: _Floor | None = None) -> _Floor:
        start = before or cls(documents[0]["table-uuid"] if documents else str(uuid.uuid4()))
        columns = (int(each["last-column-id"]) for each in documents)
        rows = (int(each.get("next-row-id") or 0) for each in documents)
        return cls(start.table_uuid, max(start.last_column, *columns, 0), max(start.next_row, *rows, 0))


def _find_current(document: Document) -> Document | None:
    current = document["current-snapshot-id"]
    return next((each for each in document["snapshots"] if each["snapshot-id"] == current), None)


def _is_of(document: Document, snapshot: Snapshot) -> bool:
    """Return whether a version was made from this very snapshot; older releases of Java do not record it."""
    current = _find_current(document)
    identity = None if current is None else current["summary"].get(IDENTITY)
    return document["current-snapshot-id"] == snapshot.id and identity in (None, find_identity(snapshot))
