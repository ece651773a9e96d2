"""Manifests of Iceberg metadata: the rows of data files and deletion vectors, and the files that hold them.

A snapshot's changes are applied to the manifests of the snapshot before. A manifest that names no removed file stays.
Others are written again, with their removed files as deleted, and those that were deleted before left out. Small
manifests are merged if there are many.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import iceberg_files as iceberg
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.iceberg_files import ADDED, DATA, DELETED, DELETES, EXISTING, MANIFEST_DTYPES
from morrow.engine.format.manifest_entries import ADD, DELETE, DELETION_VECTORS_INDEX, ColumnStats, decode_column_stats
from morrow.engine.format.paths import DATABASE_SUFFIX, MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.format.types import NESTED_TYPES, DataField
from morrow.engine.io.resolve import confine
from morrow.engine.io.store import FileStore
from morrow.engine.names import INDEX, PATH
from morrow.engine.options import Options, TableOptions, parse_write_options
from morrow.engine.options.declared import features
from morrow.engine.options.declared.maintenance import MANIFEST_TARGET_FILE_SIZE
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.plan.data_files import build_file_paths, build_index_paths, parse_file_formats
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_delta_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata, estimate_frame_bytes

Document: TypeAlias = dict[str, Any]

IDENTITY = "paimon-commit-identity"
"""The member of a snapshot's summary that names its commit: ids are used again after a rollback."""


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
        return self.to_iceberg(self.schema.id)

    def to_iceberg(self, schema_id: int) -> Document:
        return iceberg.to_iceberg_schema(self.metadata.schema(schema_id), self.version, self.metadata.where)

    # --- data files ---

    @cached_property
    def shows_vectors(self) -> bool:
        """Whether the table has deletion vectors; `check_iceberg` refuses vectors that Iceberg cannot read."""
        return self.given.get(DELETION_VECTORS_ENABLED)

    def mask_shown(self, entries: pl.DataFrame) -> pl.Series:
        """Return which files an Iceberg reader may see: those whose rows need no merge."""
        if not self.schema.primary_keys:
            return pl.repeat(True, entries.height, eager=True)
        if self.shows_vectors:
            return entries["_LEVEL"] > 0
        write = parse_write_options(self.given.raw, keyed=True, where=self.metadata.where)
        return entries["_LEVEL"] == write.levels - 1

    def locate(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Add the URL of each data file."""
        if not entries.height:
            return entries.with_columns(pl.lit(None, pl.String).alias(PATH))
        paths = build_file_paths(self.metadata, self.schema, self.options, entries)
        return entries.with_columns(pl.Series(PATH, [self.store.url(path) for path in paths], dtype=pl.String))

    def apply_changes(self, files: NewFiles, manifests: pl.DataFrame) -> tuple[list[pl.DataFrame], FileChanges]:
        """Apply the changes of a snapshot to the manifests of data files."""
        listed = list_delta_manifests(self.metadata, files.snapshot)
        parts = read_manifest_entries(self.metadata, listed)
        if not parts:
            return split_rows(manifests), FileChanges("append")
        entries = pl.concat(parts)
        deletes = entries["_KIND"] == DELETE
        # A file that moves to another level is deleted and added: the last entry counts.
        last = self.locate(entries.filter(deletes | self.mask_shown(entries)))
        last = last.unique(PATH, keep="last", maintain_order=True)
        added, removed = last.filter(pl.col("_KIND") == ADD), last.filter(pl.col("_KIND") == DELETE)
        changes, kept = FileChanges("append"), split_rows(manifests)
        if deletes.any():
            kept = []
            values = dict.fromkeys(self._list_partitions(last))
            for row in split_rows(manifests):
                touched = self._overlaps(row, values)
                kept += self._remove_files(files, row, added[PATH], removed[PATH], changes) if touched else [row]
            added = added.filter(~added[PATH].is_in(changes.present))
        changes.added, changes.added_rows = added.height, count_values(added, "_ROW_COUNT")
        changes.added_bytes, changes.partitions = count_values(added, "_FILE_SIZE"), last["_PARTITION"].n_unique()
        if changes.removed:
            changes.operation = "replace" if files.snapshot.commit_kind == COMPACT else "overwrite"
        return [*kept, *files.write(self.describe(added, files.snapshot), DATA)], changes

    def _remove_files(
        self, files: NewFiles, row: pl.DataFrame, added: pl.Series, removed: pl.Series, changes: FileChanges
    ) -> list[pl.DataFrame]:
        """Return the manifest, or new ones if it names removed files; record the added files that it names."""
        entries = self.read_manifest(row["manifest_path"][0])
        live = entries.filter(pl.col("status") != DELETED)
        changes.present += live["file_path"].filter(live["file_path"].is_in(added.implode())).to_list()
        gone = live["file_path"].is_in(removed.implode())
        if not gone.any():
            return [row]
        changes.removed += int(gone.sum())
        changes.removed_rows += count_values(live.filter(gone), "record_count")
        changes.removed_bytes += count_values(live.filter(gone), "file_size_in_bytes")
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

    def describe(self, entries: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
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
                stats.field("_MIN_VALUES"),
                stats.field("_MAX_VALUES"),
                stats.field("_NULL_COUNTS"),
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

    def write_vectors(self, files: NewFiles) -> list[pl.DataFrame]:
        """Write the manifests of a snapshot's deletion vectors."""
        index = read_index_entries(self.metadata, files.snapshot) if self.shows_vectors else None
        if index is None:
            return []
        index = index.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
        if not index.height:
            return []
        paths = build_index_paths(self.metadata, self.schema, self.options, index)
        located = index.with_columns(pl.Series(INDEX, [self.store.url(path) for path in paths], dtype=pl.String))
        ranges = located.select("_PARTITION", "_BUCKET", INDEX, "_FILE_SIZE", "_DELETIONS_VECTORS_RANGES")
        ranges = ranges.explode("_DELETIONS_VECTORS_RANGES", empty_as_null=False).unnest("_DELETIONS_VECTORS_RANGES")
        live = read_live_entries(self.metadata, files.snapshot, self.schema).frame
        shown = self.locate(live.filter(self.mask_shown(live))).select("_PARTITION", "_BUCKET", "_FILE_NAME", PATH)
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
            "file_path": found[INDEX],
            "record_count": found["_CARDINALITY"],
            "file_size_in_bytes": found["_FILE_SIZE"],
            "referenced_data_file": found[PATH],
            "content_offset": found["f1"],
            "content_size_in_bytes": found["f2"],
        }
        return files.write(self._complete(columns, found), DELETES)

    # --- manifests ---

    def read_list(self, path: str) -> pl.DataFrame:
        return self._read_cached(path, iceberg.decode_manifest_list)

    def read_manifest(self, path: str) -> pl.DataFrame:
        return self._read_cached(path, lambda data, where: iceberg.decode_iceberg_manifest(data, self.schema, where))

    def _read_cached(self, path: str, decode: Any) -> pl.DataFrame:
        """Read a file of the Iceberg metadata by its URL, from the cache if possible: names are never reused."""
        name = f"{self.folder}/{path.rpartition('/')[2]}"

        def read() -> tuple[object, int]:
            frame = decode(self.store.read(name), name)
            return frame, estimate_frame_bytes(frame)

        return METADATA_CACHE.get_or_make(("iceberg", self.store.url(name)), read)  # type: ignore[return-value]  # heterogeneous cache

    def merge_manifests(self, files: NewFiles, manifests: list[pl.DataFrame]) -> list[pl.DataFrame]:
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
        merged = pl.concat([_fill_row_ids(row, self.read_manifest(row["manifest_path"][0])) for row in small])
        merged = merged.filter(~old | (pl.col("status") != DELETED))
        status = pl.when(old).then(EXISTING).otherwise(pl.col("status")).cast(pl.Int32).alias("status")
        unused = [row["manifest_path"][0] for row in small if row["added_snapshot_id"][0] == current]
        self.store.discard([f"{self.folder}/{path.rpartition('/')[2]}" for path in unused])
        return [*large, *files.write(merged.with_columns(status), DATA)]


def find_iceberg_folder(metadata: TableMetadata, given: Options) -> str:
    """Return the folder of a table's Iceberg metadata.

    Raises `InvalidArgument`: it belongs beside the databases of a warehouse, and the table lies in none.
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


@dataclass
class FileChanges:
    """The changes of a snapshot to the data files that Iceberg readers see."""

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
            [
                count_values(part, f"added_{what}_count") + count_values(part, f"existing_{what}_count")
                for part in (rows, vectors)
            ]
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
class NewFiles:
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


def split_rows(manifests: pl.DataFrame) -> list[pl.DataFrame]:
    return [manifests[row : row + 1] for row in range(manifests.height)]


def count_values(frame: pl.DataFrame, column: str) -> int:
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
    """Return entries with the row ids that their manifest implies, so that entries keep them in other manifests."""
    first = row["first_row_id"][0]
    if first is None:
        return entries
    inherits = (pl.col("status") != DELETED) & pl.col("first_row_id").is_null()
    counts = pl.when(inherits).then(pl.col("record_count")).otherwise(0)
    numbered = pl.when(inherits).then(first + counts.cum_sum() - counts).otherwise(pl.col("first_row_id"))
    return entries.with_columns(numbered.alias("first_row_id"))


def assign_row_ids(listed: pl.DataFrame, first: int) -> tuple[pl.DataFrame, int]:
    """Give manifests of data files without a first row id one; return all manifests, and the next free id."""
    lacks = (pl.col("content") == DATA) & pl.col("first_row_id").is_null()
    counts = pl.when(lacks).then(pl.col("added_rows_count") + pl.col("existing_rows_count")).otherwise(0)
    begins = pl.when(lacks).then(first + counts.cum_sum() - counts).otherwise(pl.col("first_row_id"))
    return listed.with_columns(begins.alias("first_row_id")), first + int(listed.select(counts.sum()).item())
