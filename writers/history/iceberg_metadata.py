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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, MorrowError, Unsupported
from morrow.engine.format import iceberg_files as iceberg
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.iceberg_files import ADDED, DATA, DELETED, DELETES, EXISTING, LIST_DTYPES, MANIFEST_DTYPES
from morrow.engine.format.manifest_entries import ADD, DELETE, DELETION_VECTORS_INDEX, ColumnStats, decode_column_stats
from morrow.engine.format.metadata_json import format_json, parse_object
from morrow.engine.format.paths import DATABASE_SUFFIX, MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import COMPACT, FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.format.types import NESTED_TYPES, DataField
from morrow.engine.io.resolve import confine
from morrow.engine.io.store import FileStore
from morrow.engine.options import Options, TableOptions, parse_write_options
from morrow.engine.options.declared import features
from morrow.engine.options.declared.maintenance import MANIFEST_TARGET_FILE_SIZE
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.options.retention import parse_expire_options
from morrow.engine.plan.data_files import build_file_paths, build_index_paths, parse_file_formats
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_delta_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata, estimate_frame_bytes
from morrow.engine.redaction import get_logger

Document: TypeAlias = dict[str, Any]

IDENTITY = "paimon-commit-identity"
"""The member of a snapshot's summary that names its commit: ids are used again after a rollback."""
HINT, RETIRE_PENDING = "version-hint.text", "retire-pending"
MAX_AHEAD = 10
"""The limit of snapshots that a commit publishes. If more lack their metadata, only the newest is published."""
REQUIRED = ("format-version", "table-uuid", "location", "last-column-id", "schemas", "snapshots", "current-snapshot-id")
NO_EXPIRY = 2**63 - 1
PATH = "__path"

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
        table.publish(head)
        latest = metadata.latest_snapshot()
        # Another commit may have published a newer snapshot before the hint of this one was written.
        head = latest if latest != head and latest is not None and table.has_version(latest.id) else None


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
            table.update_tags(head)
    except MorrowError as error:
        log.warning("%s: the Iceberg metadata does not have the tags: %s", metadata.where, error)


def find_identity(snapshot: Snapshot) -> str:
    """Return the identity of a commit, as Java writes it."""
    identity = snapshot.extra.get("uuid")
    return str(identity or f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}")


@dataclass(frozen=True)
class IcebergTable:
    """The Iceberg metadata of one table."""

    metadata: TableMetadata
    schema: TableSchema
    given: Options
    store: FileStore
    folder: str

    @classmethod
    def of(cls, metadata: TableMetadata) -> IcebergTable | None:
        """Return the Iceberg metadata of the main branch; None if the table has none."""
        if metadata.branch != MAIN_BRANCH:
            return None
        schema = metadata.latest_schema()
        given = Options({**schema.options, **dict(metadata.dynamic)}, metadata.where)
        if given.get(features.METADATA_ICEBERG_STORAGE) == "disabled":
            return None
        folder = find_iceberg_folder(metadata, given)
        return cls(metadata.knowing(schema), schema, given, confine(metadata.store, (metadata.root, folder)), folder)

    @cached_property
    def options(self) -> TableOptions:
        return self.metadata.options(self.schema)

    @cached_property
    def version(self) -> int:
        return self.given.get(features.METADATA_ICEBERG_FORMAT_VERSION)

    @cached_property
    def keys(self) -> list[DataField]:
        return [self.schema.by_name[name] for name in self.schema.partition_keys]

    @cached_property
    def iceberg_schema(self) -> Document:
        return self._to_iceberg(self.schema.id)

    def _to_iceberg(self, schema_id: int) -> Document:
        return iceberg.to_iceberg_schema(self.metadata.schema(schema_id), self.version, self.metadata.where)

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
        if base is None or self.metadata.latest_snapshot() != head:
            return
        self.store.write(f"{self.folder}/{HINT}", str(head.id).encode())
        self._clean(head, base, versions, seen)

    def has_version(self, snapshot_id: int) -> bool:
        return self.store.exists(self._version_path(snapshot_id))

    def update_tags(self, head: Snapshot) -> None:
        """Write the tags into the version of `head`, if it is there."""
        document = self._read(head.id)
        if document is None or not _is_of(document, head):
            return
        refs = self._list_refs(document["snapshots"])
        if refs != document.get("refs"):
            self.store.write(self._version_path(head.id), format_json({**document, "refs": refs}))

    def _version_path(self, snapshot_id: int) -> str:
        return f"{self.folder}/v{snapshot_id}.metadata.json"

    def _list_versions(self) -> list[int]:
        names = (status.name.partition(".") for status in self.store.list(self.folder))
        found = (first[1:] for first, _, rest in names if rest == "metadata.json" and first.startswith("v"))
        return sorted(int(number) for number in found if number.isdecimal())

    def _read(self, snapshot_id: int) -> Document | None:
        """Return a version; None if it is missing or damaged, so that it is made again."""
        path = self._version_path(snapshot_id)
        try:
            found = parse_object(self.store.read(path), path)
        except (FileMissing, CorruptFile):
            return None
        return found if found.keys() >= set(REQUIRED) and _find_current(found) is not None else None

    def _prepare_folder(self, head: Snapshot) -> None:
        """Remove the metadata of a dropped table in whose place this one is: there it lies outside of the table."""
        outside = not self.folder.startswith(f"{self.metadata.root}/")
        if head.id == FIRST_SNAPSHOT_ID and outside:
            document = self._read(head.id)
            if document is None or not _is_of(document, head):
                self.store.delete_folder(self.folder)

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
            snapshot = self.metadata.snapshot_or_none(snapshot.id - 1)
        return [head], None

    def _add_version(self, snapshot: Snapshot, base: Document | None, floor: _Floor) -> Document:
        """Create the version of a snapshot; return the one that exists then."""
        files = _NewFiles(self, snapshot)
        path = self._version_path(snapshot.id)
        try:
            made = self._build(files, base, floor)
            if self.store.create(path, format_json(made)):
                return made
            there = self._read(snapshot.id)
            if there is not None and _is_of(there, snapshot):
                self.store.discard(files.written)
                return there
            self.store.write(path, format_json(made))  # of a history that was rolled back
        except MorrowError:
            self.store.discard(files.written)
            raise
        return made

    def _build(self, files: _NewFiles, base: Document | None, floor: _Floor) -> Document:
        if base is not None and self._can_extend(base):
            try:
                return self._extend(files, base, floor)
            except (FileMissing, CorruptFile) as error:
                log.warning("%s: the Iceberg metadata is made anew: %s", self.metadata.where, error)
        return self._start(files, floor)

    def _can_extend(self, base: Document) -> bool:
        if base["format-version"] > self.version:
            raise InvalidArgument(
                f"{self.metadata.where}: the Iceberg metadata has format version {base['format-version']}, and "
                f"{features.METADATA_ICEBERG_FORMAT_VERSION} is {self.version}; set it back"
            )
        rows_known = self.version < iceberg.ROW_IDS_VERSION or base.get("next-row-id") is not None
        is_same = base["format-version"] == self.version and base["location"] == self._location and rows_known
        known = base["schemas"]
        if not is_same or any(each["schema-id"] > self.schema.id for each in known):
            return False
        return all(each == self._to_iceberg(each["schema-id"]) for each in known)

    @property
    def _location(self) -> str:
        return self.store.url(self.metadata.root)

    def _make_document(
        self, files: _NewFiles, snapshots: list[Document], base: Document | None, floor: _Floor, next_row: int
    ) -> Document:
        snapshot = files.snapshot
        known = [] if base is None else list(base["schemas"])
        ids = {each["schema-id"] for each in known}
        schemas = known + [self._to_iceberg(i) for i in self.metadata.schema_ids() if i not in ids]
        fields = iceberg.list_partition_fields(self.schema)
        row_ids = {"next-row-id": next_row} if self.version >= iceberg.ROW_IDS_VERSION else {}
        return {
            "format-version": self.version,
            "table-uuid": floor.table_uuid,
            "location": self._location,
            "last-sequence-number": snapshot.id,
            "last-updated-ms": time.time_ns() // 1_000_000,
            "last-column-id": max([floor.last_column, *(f["id"] for each in schemas for f in each["fields"])]),
            "schemas": schemas,
            "current-schema-id": self.schema.id,
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
        """Return the tags of these Iceberg snapshots; Iceberg refuses metadata with others."""
        identities = {each["snapshot-id"]: each["summary"].get(IDENTITY) for each in snapshots}
        return {
            tag.name: {"snapshot-id": tag.snapshot.id, "type": "tag", "max-ref-age-ms": NO_EXPIRY}
            for tag in (self.metadata.tags() if self.metadata.tag_names() else ())
            if tag.snapshot.id in identities and identities[tag.snapshot.id] in (None, find_identity(tag.snapshot))
        }

    # --- snapshots ---

    def _start(self, files: _NewFiles, floor: _Floor) -> Document:
        """Return a version of the live files alone."""
        snapshot = files.snapshot
        live = read_live_entries(self.metadata, snapshot, self.schema).frame
        shown = self._locate(live.filter(self._mask_shown(live)))
        manifests = [*files.write(self._describe(shown, snapshot), DATA), *self._write_vectors(files)]
        changes = _Changes("append", shown.height, _count(shown, "_ROW_COUNT"), _count(shown, "_FILE_SIZE"))
        changes.partitions = shown["_PARTITION"].n_unique()
        made, next_row = self._make_snapshot(files, manifests, changes, floor, changes.added_bytes)
        return self._make_document(files, [made], None, floor, next_row)

    def _extend(self, files: _NewFiles, base: Document, floor: _Floor) -> Document:
        """Return the version after `base`."""
        snapshot, current = files.snapshot, _find_current(base)
        assert current is not None
        before = self._read_list(current["manifest-list"])
        rows_before = before.filter(pl.col("content") == DATA)
        manifests, changes = self._apply(files, rows_before)
        manifests = self._merge_manifests(files, manifests)
        if not self.shows_vectors:
            vectors = []
        elif self._has_same_vectors(snapshot):
            vectors = _split_rows(before.filter(pl.col("content") == DELETES))
        else:
            vectors = self._write_vectors(files)
        known = current["summary"].get("total-files-size")
        total = sum(self._count_bytes(path) for path in rows_before["manifest_path"]) if known is None else int(known)
        total += changes.added_bytes - changes.removed_bytes
        made, next_row = self._make_snapshot(files, [*manifests, *vectors], changes, floor, total)
        kept = self._drop_expired([*base["snapshots"], made])
        return self._make_document(files, kept, base, floor, next_row)

    def _has_same_vectors(self, snapshot: Snapshot) -> bool:
        before = self.metadata.snapshot_or_none(snapshot.id - 1)
        return before is not None and before.index_manifest == snapshot.index_manifest

    def _count_bytes(self, path: str) -> int:
        entries = self._read_manifest(path)
        return _count(entries.filter(pl.col("status") != DELETED), "file_size_in_bytes")

    def _make_snapshot(
        self, files: _NewFiles, manifests: Sequence[pl.DataFrame], changes: _Changes, floor: _Floor, total_bytes: int
    ) -> tuple[Document, int]:
        """Write the manifest list; return the Iceberg snapshot, and the next row id."""
        snapshot = files.snapshot
        listed = pl.concat([pl.DataFrame(schema=dict(LIST_DTYPES)), *manifests])
        next_row, row_ids = floor.next_row, {}
        if self.version >= iceberg.ROW_IDS_VERSION:
            listed, next_row = _assign_row_ids(listed, floor.next_row)
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
        kept = parse_expire_options(self.given.raw, where=self.metadata.where).snapshots
        newest, oldest = snapshots[-1]["snapshot-id"], time.time_ns() // 1_000_000 - kept.millis
        for place, each in enumerate(snapshots):
            age = newest - each["snapshot-id"]
            if age < kept.least or (age < kept.most and each["timestamp-ms"] >= oldest):
                return snapshots[place:]
        return snapshots[-1:]

    # --- data files ---

    @cached_property
    def shows_vectors(self) -> bool:
        """Whether deletion vectors are published; `check_iceberg` refuses tables with others."""
        return self.given.get(DELETION_VECTORS_ENABLED)

    def _mask_shown(self, entries: pl.DataFrame) -> pl.Series:
        """Return which files an Iceberg reader may see: those whose rows need no merge."""
        if not self.schema.primary_keys:
            return pl.repeat(True, entries.height, eager=True)
        if self.shows_vectors:
            return entries["_LEVEL"] > 0
        write = parse_write_options(self.given.raw, keyed=True, where=self.metadata.where)
        return entries["_LEVEL"] == write.levels - 1

    def _locate(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Add the URL of each data file."""
        if not entries.height:
            return entries.with_columns(pl.lit(None, pl.String).alias(PATH))
        paths = build_file_paths(self.metadata, self.schema, self.options, entries)
        return entries.with_columns(pl.Series(PATH, [self.store.url(path) for path in paths], dtype=pl.String))

    def _apply(self, files: _NewFiles, manifests: pl.DataFrame) -> tuple[list[pl.DataFrame], _Changes]:
        """Apply the changes of a snapshot to the manifests of data files."""
        listed = list_delta_manifests(self.metadata, files.snapshot)
        parts = read_manifest_entries(self.metadata, listed)
        if not parts:
            return _split_rows(manifests), _Changes("append")
        entries = pl.concat(parts)
        deletes = entries["_KIND"] == DELETE
        # A file that moves to another level is deleted and added: the last entry counts.
        last = self._locate(entries.filter(deletes | self._mask_shown(entries)))
        last = last.unique(PATH, keep="last", maintain_order=True)
        added, removed = last.filter(pl.col("_KIND") == ADD), last.filter(pl.col("_KIND") == DELETE)
        changes, kept = _Changes("append"), _split_rows(manifests)
        if deletes.any():
            kept = []
            values = dict.fromkeys(self._list_partitions(last))
            for row in _split_rows(manifests):
                touched = self._overlaps(row, values)
                kept += self._remove_files(files, row, added[PATH], removed[PATH], changes) if touched else [row]
            added = added.filter(~added[PATH].is_in(changes.present))
        changes.added, changes.added_rows = added.height, _count(added, "_ROW_COUNT")
        changes.added_bytes, changes.partitions = _count(added, "_FILE_SIZE"), last["_PARTITION"].n_unique()
        if changes.removed:
            changes.operation = "replace" if files.snapshot.commit_kind == COMPACT else "overwrite"
        return [*kept, *files.write(self._describe(added, files.snapshot), DATA)], changes

    def _remove_files(
        self, files: _NewFiles, row: pl.DataFrame, added: pl.Series, removed: pl.Series, changes: _Changes
    ) -> list[pl.DataFrame]:
        """Return the manifest, or new ones if it names removed files; record the added files that it names."""
        entries = self._read_manifest(row["manifest_path"][0])
        live = entries.filter(pl.col("status") != DELETED)
        changes.present += live["file_path"].filter(live["file_path"].is_in(added.implode())).to_list()
        gone = live["file_path"].is_in(removed.implode())
        if not gone.any():
            return [row]
        changes.removed += int(gone.sum())
        changes.removed_rows += _count(live.filter(gone), "record_count")
        changes.removed_bytes += _count(live.filter(gone), "file_size_in_bytes")
        numbered = _fill_row_ids(row, entries).filter(pl.col("status") != DELETED)
        status = pl.when(gone).then(DELETED).otherwise(EXISTING).cast(pl.Int32).alias("status")
        of = pl.when(gone).then(files.snapshot.id).otherwise(pl.col("snapshot_id")).alias("snapshot_id")
        return files.write(numbered.with_columns(status, of), DATA)

    def _list_partitions(self, entries: pl.DataFrame) -> list[tuple[Any, ...]]:
        """Return the partition of each entry, in stored values (decimals unscaled)."""
        if not self.keys:
            return [()] * entries.height
        values = self._partition_values(entries)
        columns = [values[key.name].to_physical() for key in self.keys]
        return list(zip(*(column.to_list() for column in columns), strict=True))

    def _partition_values(self, entries: pl.DataFrame) -> pl.DataFrame:
        types = [key.type for key in self.keys]
        values = decode_columns(entries["_PARTITION"], types, where=self.metadata.where)
        return pl.DataFrame(
            [iceberg.to_stored_values(v, k.type).alias(k.name) for v, k in zip(values, self.keys, strict=True)]
        )

    def _overlaps(self, row: pl.DataFrame, partitions: Iterable[tuple[Any, ...]]) -> bool:
        """Return whether a manifest may name files of one of these partitions."""
        summaries = row["partitions"][0]
        if not self.keys or summaries is None or len(summaries) != len(self.keys):
            return True
        bounds = [
            (each, *(iceberg.decode_bound(each[end], key.type) for end in ("lower_bound", "upper_bound")))
            for each, key in zip(summaries, self.keys, strict=True)
        ]

        def may_have(value: Any, summary: Mapping[str, Any], least: Any, most: Any) -> bool:
            if value is None:
                return bool(summary["contains_null"])
            return value != value or least is None or most is None or bool(least <= value <= most)

        return any(
            all(may_have(value, *bound) for value, bound in zip(values, bounds, strict=True)) for values in partitions
        )

    def _describe(self, entries: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
        """Return the rows of a manifest that adds these files."""
        count = entries.height
        statistics = self._describe_columns(entries)
        columns: dict[str, Any] = {
            **dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"), snapshot.id),
            "status": ADDED,
            "content": DATA,
            "file_path": entries[PATH],
            "file_format": parse_file_formats(entries, self.metadata.where) if count else None,
            "record_count": entries["_ROW_COUNT"],
            "file_size_in_bytes": entries["_FILE_SIZE"],
            **statistics,
        }
        return self._complete(columns, entries)

    def _complete(self, columns: Mapping[str, Any], entries: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of a manifest for files in the partitions of `entries`; others are null."""

        def make(name: str, dtype: Any) -> pl.Series:
            value = columns.get(name)
            if isinstance(value, pl.Series):
                return value.cast(dtype).alias(name)
            return pl.Series(name, [value], dtype=dtype).new_from_index(0, entries.height)

        frame = pl.DataFrame([make(name, dtype) for name, dtype in MANIFEST_DTYPES.items()])
        if not self.keys:
            return frame
        values = self._partition_values(entries)
        return frame.with_columns(iceberg.make_partitions([values[key.name] for key in self.keys], self.keys))

    def _describe_columns(self, entries: pl.DataFrame) -> dict[str, pl.Series]:
        """Return null counts and bounds of each file, by field id."""
        facts: dict[str, list[pl.DataFrame]] = {"null_value_counts": [], "lower_bounds": [], "upper_bounds": []}
        numbered = entries.with_row_index("entry")
        for (schema_id,), part in numbered.partition_by("_SCHEMA_ID", as_dict=True).items():
            schema = self.metadata.schema(int(schema_id))
            stats = part["_VALUE_STATS"].struct
            found = decode_column_stats(
                *(stats.field(name) for name in ("_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS")),
                part["_VALUE_STATS_COLS"],
                {each.name: each.type for each in schema.fields},
                [each.name for each in schema.fields],
                where=self.metadata.where,
            )
            for each in schema.fields:
                for name, values in self._list_facts(each, found[each.name]):
                    key = pl.Series("key", [each.id], dtype=pl.Int32).new_from_index(0, part.height)
                    facts[name].append(pl.DataFrame([part["entry"], key, values.alias("value")]).drop_nulls("value"))
        return {name: _gather(parts, entries.height, MANIFEST_DTYPES[name]) for name, parts in facts.items()}

    def _list_facts(self, column: DataField, stats: ColumnStats) -> Iterator[tuple[str, pl.Series]]:
        if stats.null_count is not None:
            yield "null_value_counts", stats.null_count.cast(pl.Int64)
        today = next((each for each in self.schema.fields if each.id == column.id), column)
        if stats.minimum is None or stats.maximum is None or isinstance(column.type, NESTED_TYPES):
            return
        if not iceberg.can_promote(column.type, today.type):
            return  # bounds of another type would lead readers astray
        bounds = [
            iceberg.encode_bounds(iceberg.to_stored_values(values, column.type), today.type)
            for values in (stats.minimum, stats.maximum)
        ]
        both = bounds[0].is_not_null() & bounds[1].is_not_null()
        for name, values in zip(("lower_bounds", "upper_bounds"), bounds, strict=True):
            yield name, values.zip_with(both, pl.Series([None], dtype=pl.Binary).new_from_index(0, len(values)))

    def _write_vectors(self, files: _NewFiles) -> list[pl.DataFrame]:
        """Write the manifests of a snapshot's deletion vectors."""
        index = read_index_entries(self.metadata, files.snapshot) if self.shows_vectors else None
        if index is None:
            return []
        index = index.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
        if not index.height:
            return []
        paths = build_index_paths(self.metadata, self.schema, self.options, index)
        located = index.with_columns(pl.Series("__index", [self.store.url(path) for path in paths], dtype=pl.String))
        ranges = located.select("_PARTITION", "_BUCKET", "__index", "_FILE_SIZE", "_DELETIONS_VECTORS_RANGES")
        ranges = ranges.explode("_DELETIONS_VECTORS_RANGES", empty_as_null=False).unnest("_DELETIONS_VECTORS_RANGES")
        live = read_live_entries(self.metadata, files.snapshot, self.schema).frame
        shown = self._locate(live.filter(self._mask_shown(live))).select("_PARTITION", "_BUCKET", "_FILE_NAME", PATH)
        on = ["_PARTITION", "_BUCKET"]
        found = ranges.join(shown, left_on=[*on, "f0"], right_on=[*on, "_FILE_NAME"], maintain_order="left")
        if found["_CARDINALITY"].null_count():
            raise Unsupported(
                "a deletion vector whose number of rows is not recorded beside Iceberg metadata",
                where=self.metadata.where,
                hint="compact the table fully, which removes its deletion vectors",
            )
        columns: dict[str, Any] = {
            **dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"), files.snapshot.id),
            "status": ADDED,
            "content": DELETES,
            "file_format": "puffin",
            "file_path": found["__index"],
            "record_count": found["_CARDINALITY"],
            "file_size_in_bytes": found["_FILE_SIZE"],
            "referenced_data_file": found[PATH],
            "content_offset": found["f1"],
            "content_size_in_bytes": found["f2"],
        }
        return files.write(self._complete(columns, found), DELETES)

    # --- manifests ---

    def _read_list(self, path: str) -> pl.DataFrame:
        return self._read_cached(path, iceberg.decode_manifest_list)

    def _read_manifest(self, path: str) -> pl.DataFrame:
        return self._read_cached(path, lambda data, where: iceberg.decode_iceberg_manifest(data, self.schema, where))

    def _read_cached(self, path: str, decode: Any) -> pl.DataFrame:
        """Read a file of the Iceberg metadata by the URL in another: names are never used again."""
        name = f"{self.folder}/{path.rpartition('/')[2]}"

        def read() -> tuple[object, int]:
            frame = decode(self.store.read(name), name)
            return frame, estimate_frame_bytes(frame)

        return METADATA_CACHE.get_or_make(("iceberg", self.store.url(name)), read)  # type: ignore[return-value]  # heterogeneous cache

    def _merge_manifests(self, files: _NewFiles, manifests: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """Merge small manifests if there are many, as Java does."""
        target = self.given.get(MANIFEST_TARGET_FILE_SIZE)
        lengths = [int(row["manifest_length"][0]) for row in manifests]
        small = [row for row, length in zip(manifests, lengths, strict=True) if length < target * 2 // 3]
        least = self.given.get(features.METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM)
        most = self.given.get(features.METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM)
        total = sum(length for length in lengths if length < target * 2 // 3)
        if len(small) < least or (len(small) < most and total < target):
            return manifests
        large = [row for row, length in zip(manifests, lengths, strict=True) if length >= target * 2 // 3]
        current = files.snapshot.id
        old = (pl.col("file_sequence_number") != current) & (pl.col("snapshot_id") != current)
        merged = pl.concat([_fill_row_ids(row, self._read_manifest(row["manifest_path"][0])) for row in small])
        merged = merged.filter(~old | (pl.col("status") != DELETED))
        status = pl.when(old).then(EXISTING).otherwise(pl.col("status")).cast(pl.Int32).alias("status")
        unused = [row["manifest_path"][0] for row in small if row["added_snapshot_id"][0] == current]
        self.store.discard([f"{self.folder}/{path.rpartition('/')[2]}" for path in unused])
        return [*large, *files.write(merged.with_columns(status), DATA)]

    # --- cleaning ---

    def _clean(self, head: Snapshot, document: Document, versions: Sequence[int], seen: list[Document]) -> None:
        """Remove old versions, versions of a history that was rolled back, and manifests that no snapshot needs."""
        gone = [each for each in versions if each > head.id]
        if self.given.get(features.METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED):
            first = head.id - self.given.get(features.METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX)
            gone += [each for each in {*versions, *(each["current-snapshot-id"] for each in seen)} if each < first]
        seen += [each for each in map(self._read, gone) if each is not None]
        self.store.discard([*map(self._version_path, gone), f"{self.folder}/{RETIRE_PENDING}"])
        kept = {each["manifest-list"] for each in document["snapshots"]}
        lists = {each["manifest-list"] for old in seen for each in old["snapshots"]} - kept
        if lists:
            needed = {path for each in kept for path in self._read_list(each)["manifest_path"]}
            unused = set(lists)
            for each in lists:
                with suppress(FileMissing, CorruptFile):
                    unused.update(path for path in self._read_list(each)["manifest_path"] if path not in needed)
            self.store.discard([f"{self.folder}/{path.rpartition('/')[2]}" for path in sorted(unused)])


def find_iceberg_folder(metadata: TableMetadata, given: Options) -> str:
    """Return the folder of a table's Iceberg metadata.

    Raises:
        InvalidArgument: it belongs beside the databases of a warehouse, and the table lies in none.
    """
    location = given.get(features.METADATA_ICEBERG_STORAGE_LOCATION)
    if location is None:
        is_inside = given.get(features.METADATA_ICEBERG_STORAGE) == "table-location"
        location = "table-location" if is_inside else "catalog-location"
    if location == "table-location":
        return f"{metadata.root}/metadata"
    database, _, table = metadata.root.rpartition("/")
    warehouse, _, name = database.rpartition("/")
    if not name.endswith(DATABASE_SUFFIX):
        raise InvalidArgument(
            f"{metadata.where}: Iceberg metadata of a catalog needs a table in a folder <database>{DATABASE_SUFFIX}; "
            f"set {features.METADATA_ICEBERG_STORAGE_LOCATION} = table-location"
        )
    return f"{warehouse}/iceberg/{name.removesuffix(DATABASE_SUFFIX)}/{table}/metadata"


@dataclass(frozen=True)
class _Floor:
    """What the table has had before, and its metadata must not use again."""

    table_uuid: str
    last_column: int = 0
    next_row: int = 0

    @classmethod
    def of(cls, documents: Sequence[Document], before: _Floor | None = None) -> _Floor:
        start = before or cls(documents[0]["table-uuid"] if documents else str(uuid.uuid4()))
        columns = (int(each["last-column-id"]) for each in documents)
        rows = (int(each.get("next-row-id") or 0) for each in documents)
        return cls(start.table_uuid, max(start.last_column, *columns, 0), max(start.next_row, *rows, 0))


@dataclass
class _Changes:
    """What a snapshot changes in the data files that Iceberg readers see."""

    operation: str
    added: int = 0
    added_rows: int = 0
    added_bytes: int = 0
    removed: int = 0
    removed_rows: int = 0
    removed_bytes: int = 0
    partitions: int = 0
    present: list[str] = field(default_factory=list)
    """Added files that the metadata had already."""

    def summarize(self, snapshot: Snapshot, listed: pl.DataFrame, total_bytes: int) -> dict[str, str]:
        """Return the summary of an Iceberg snapshot."""
        rows, vectors = (listed.filter(pl.col("content") == content) for content in (DATA, DELETES))
        files, records = (
            [_count(part, f"added_{what}_count") + _count(part, f"existing_{what}_count") for part in (rows, vectors)]
            for what in ("files", "rows")
        )
        numbers = {
            "added-data-files": self.added,
            "added-records": self.added_rows,
            "added-files-size": self.added_bytes,
            "deleted-data-files": self.removed,
            "deleted-records": self.removed_rows,
            "removed-files-size": self.removed_bytes,
            "changed-partition-count": self.partitions,
            "total-records": records[0],
            "total-data-files": files[0],
            "total-files-size": total_bytes,
            "total-delete-files": files[1],
            "total-position-deletes": records[1],
            "total-equality-deletes": 0,
        }
        texts = {name: str(number) for name, number in numbers.items()}
        return {"operation": self.operation, **texts, **snapshot.properties, IDENTITY: find_identity(snapshot)}


@dataclass
class _NewFiles:
    """The manifests that the version of one snapshot adds."""

    table: IcebergTable
    snapshot: Snapshot
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    written: list[str] = field(default_factory=list)

    def write(self, entries: pl.DataFrame, content: int) -> list[pl.DataFrame]:
        """Write entries as manifests of about ``manifest.target-file-size``; return their rows of a manifest list."""
        if not entries.height:
            return []
        data = self._encode(entries, content)
        count = -(-len(data) // self.table.given.get(MANIFEST_TARGET_FILE_SIZE))
        if count < 2 or entries.height < 2:
            return [self._add(entries, data, content)]
        parts = entries.iter_slices(-(-entries.height // count))
        return [self._add(part, self._encode(part, content), content) for part in parts]

    def _encode(self, entries: pl.DataFrame, content: int) -> bytes:
        table = self.table
        return iceberg.encode_iceberg_manifest(
            entries, table.schema, table.iceberg_schema, table.version, self._codec, content
        )

    @property
    def _codec(self) -> str:
        return self.table.given.get(features.METADATA_ICEBERG_MANIFEST_COMPRESSION)

    def _add(self, entries: pl.DataFrame, data: bytes, content: int) -> pl.DataFrame:
        path = self._put(f"{self.name}-m{len(self.written) + 1}.avro", data)
        return iceberg.summarize_manifest(entries, self.table.schema, path, len(data), self.snapshot.id, content)

    def write_list(self, manifests: pl.DataFrame, parent: int | None) -> str:
        """Write the manifest list; return its URL."""
        legacy = self.table.given.get(features.METADATA_ICEBERG_MANIFEST_LEGACY_VERSION)
        data = iceberg.encode_manifest_list(
            manifests, self.table.version, self._codec, legacy, self.snapshot.id, parent
        )
        return self._put(f"snap-1-{self.name}.avro", data)

    def _put(self, name: str, data: bytes) -> str:
        path = f"{self.table.folder}/{name}"
        self.table.store.write(path, data)
        self.written.append(path)
        return self.table.store.url(path)


def _find_current(document: Document) -> Document | None:
    current = document["current-snapshot-id"]
    return next((each for each in document["snapshots"] if each["snapshot-id"] == current), None)


def _is_of(document: Document, snapshot: Snapshot) -> bool:
    """Return whether a version was made from this very snapshot; older releases of Java do not record it."""
    current = _find_current(document)
    identity = None if current is None else current["summary"].get(IDENTITY)
    return document["current-snapshot-id"] == snapshot.id and identity in (None, find_identity(snapshot))


def _split_rows(manifests: pl.DataFrame) -> list[pl.DataFrame]:
    return [manifests[row : row + 1] for row in range(manifests.height)]


def _count(frame: pl.DataFrame, column: str) -> int:
    return int(frame[column].sum())


def _gather(parts: Sequence[pl.DataFrame], count: int, dtype: Any) -> pl.Series:
    """Return for each entry the list of its keys and values."""
    entries = pl.DataFrame({"entry": pl.int_range(count, dtype=pl.UInt32, eager=True)})
    if not parts:
        return pl.Series([[]], dtype=dtype).new_from_index(0, count)
    lists = pl.concat(parts).group_by("entry").agg(pl.struct("key", "value").alias("found"))
    found = entries.join(lists, on="entry", how="left", maintain_order="left")["found"]
    return found.fill_null([]).cast(dtype)


def _fill_row_ids(row: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """Return entries with the row ids that they have from their manifest: an entry that moves keeps its own."""
    first = row["first_row_id"][0]
    if first is None:
        return entries
    inherits = (pl.col("status") != DELETED) & pl.col("first_row_id").is_null()
    counts = pl.when(inherits).then(pl.col("record_count")).otherwise(0)
    numbered = pl.when(inherits).then(first + counts.cum_sum() - counts).otherwise(pl.col("first_row_id"))
    return entries.with_columns(numbered.alias("first_row_id"))


def _assign_row_ids(listed: pl.DataFrame, first: int) -> tuple[pl.DataFrame, int]:
    """Return manifests of data files with their first row id, and the next id: others keep what they have."""
    lacks = (pl.col("content") == DATA) & pl.col("first_row_id").is_null()
    counts = pl.when(lacks).then(pl.col("added_rows_count") + pl.col("existing_rows_count")).otherwise(0)
    begins = pl.when(lacks).then(first + counts.cum_sum() - counts).otherwise(pl.col("first_row_id"))
    return listed.with_columns(begins.alias("first_row_id")), first + int(listed.select(counts.sum()).item())
