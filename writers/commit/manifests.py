"""Manifests of a commit: writing, merging and discarding them, and the live entries that earlier ones leave.

Files are named as in Java: ``manifest-<uuid>-<n>``, ``manifest-list-<uuid>-<n>``, ``index-manifest-<uuid>-<n>``.

Manifests of the previous snapshot are merged into its successor's base list as Java's ManifestFileMerger does. A minor
merge joins small manifests when there are many of them. A full merge rewrites all manifests that are small or delete
files, once their total size reaches a threshold. An ADD and a DELETE entry of the same file cancel out. Unchanged
manifests are listed again.

A commit that checks for conflicts needs the live files of the partitions it changes. Reading all manifests each time
would make the thousandth commit slower than the first, so the entries are kept and updated with the changes (delta
manifests) of later snapshots; most of these are the committer's own and need not be read at all.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from morrow.engine.errors import InvalidArgument, MorrowError, NotFound
from morrow.engine.format.binary_row import decode_columns, decode_rows
from morrow.engine.format.binary_row_encoder import encode_columns
from morrow.engine.format.manifest_encoder import encode_index_manifest, encode_manifest, encode_manifest_list
from morrow.engine.format.manifest_entries import (
    ADD,
    DELETE,
    EMPTY_ROW,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    MANIFEST_LIST_COLUMNS,
    MANIFEST_LIST_VERSION,
)
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.format.types import DataType
from morrow.engine.io.local import sync_file
from morrow.engine.io.store import start_request, translate_system_errors
from morrow.engine.names import GONE, ROW
from morrow.engine.plan.entries import mask_manifests
from morrow.engine.plan.manifests import cache_manifest, list_delta_manifests, list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import And, Leaf, Op, Or, Predicate, Value
from morrow.writers.target import WriteTarget

IDENTITY = ("_PARTITION", "_BUCKET", "_LEVEL", "_FILE_NAME", "_EXTRA_FILES", "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")
"""The columns that identify a file at a level."""

SIMPLE_COLUMNS = (
    *("_KIND", "_TOTAL_BUCKETS", "_MIN_KEY", "_MAX_KEY", "_ROW_COUNT", "_FIRST_ROW_ID"),
    *("_MAX_SEQUENCE_NUMBER", "_CREATION_TIME"),
    *IDENTITY,
)
"""The columns that conflict checks read. Statistics, most of an entry's size, are left out."""

MAX_PRUNED_PARTITIONS = 64
"""Maximum partitions by which manifests are pruned. Testing more would take longer than reading the manifests."""

MAX_SNAPSHOT_STEPS = 64
"""Maximum snapshots since the known one whose changes are read. Beyond it, all manifests are read again."""

MIN_FILTERED_ENTRIES = 1000
"""Minimum entries of a manifest to filter it separately."""

MAX_CHUNKS = 32
"""Maximum Polars chunks of a frame. Beyond it, the frame is rechunked."""

_DTYPES = {**ENTRY_COLUMNS, **FILE_COLUMNS}
_NO_ENTRIES = pl.DataFrame(schema={name: _DTYPES[name] for name in SIMPLE_COLUMNS})


def read_live_entries(
    metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema, partitions: Set[bytes] | None
) -> pl.DataFrame:
    """Return the entries of live files in these partitions (BinaryRows; None: all), columns of `decode_manifest`.

    Raises `CorruptFile`, `FileMissing`: as `engine.plan.entries.read_live_entries`.
    """
    listed = list_manifests(metadata, snapshot)
    wanted = partitions if schema.partition_keys else None
    if wanted is not None:
        listed = listed.filter(mark_relevant_manifests(metadata, listed, schema, wanted))
    frames = read_manifest_entries(metadata, listed)
    if not frames:
        return pl.DataFrame(schema=_DTYPES)
    # Small manifests are many, and are filtered together; large ones are filtered before they are concatenated.
    parts = [frame if frame.height < MIN_FILTERED_ENTRIES else _filter_partitions(frame, wanted) for frame in frames]
    return cancel_entries(_filter_partitions(pl.concat(parts), wanted))


def cancel_entries(entries: pl.DataFrame) -> pl.DataFrame:
    """Drop pairs of an ADD and a DELETE entry of the same file from entries in commit order.

    A DELETE without its ADD stays.
    """
    deleted = entries["_FILE_NAME"].filter(entries["_KIND"] == DELETE)
    if not len(deleted):
        return entries
    suspect = entries["_FILE_NAME"].is_in(deleted.implode())
    numbered = entries.select(*IDENTITY, "_KIND").with_row_index(ROW).filter(suspect)
    files = numbered.group_by(IDENTITY).agg(
        pl.col(ROW).last(), ((pl.col("_KIND") == ADD).sum() == (pl.col("_KIND") == DELETE).sum()).alias(GONE)
    )
    kept = suspect.not_()
    kept[files.filter(~files[GONE])[ROW]] = True
    return entries.filter(kept)


def _filter_partitions(entries: pl.DataFrame, partitions: Set[bytes] | None) -> pl.DataFrame:
    return entries if partitions is None else entries.filter(entries["_PARTITION"].is_in(list(partitions)))


def mark_relevant_manifests(
    metadata: TableMetadata, listed: pl.DataFrame, schema: TableSchema, partitions: Set[bytes]
) -> pl.Series:
    """Return for each manifest whether, by its statistics, it may hold entries of these partitions."""
    if not schema.partition_keys or len(partitions) > MAX_PRUNED_PARTITIONS or not listed.height:
        return pl.repeat(True, listed.height, eager=True)
    return mask_manifests(
        listed, schema, _build_partition_predicate(schema, partitions, metadata.where), metadata.where
    )


def _build_partition_predicate(schema: TableSchema, partitions: Iterable[bytes], where: str) -> Predicate:
    types = [schema.by_name[name].type for name in schema.partition_keys]
    return Or(
        tuple(
            And(
                tuple(
                    Leaf(name, Op.IS_NULL) if value is None else Leaf(name, Op.EQ, (cast(Value, value),))
                    for name, value in zip(schema.partition_keys, row, strict=True)
                )
            )
            for row in decode_rows(list(partitions), types, where=where)
        )
    )


class BaseEntries:
    """The live entries (`SIMPLE_COLUMNS`) of the partitions requested so far, in the snapshot last requested."""

    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._snapshot: Snapshot | None = None
        self._partitions: frozenset[bytes] = frozenset()
        self._entries = _NO_ENTRIES

    def at(self, snapshot: Snapshot, partitions: Set[bytes]) -> pl.DataFrame:
        """Return the live entries of these partitions in this snapshot.

        Raises `CorruptFile`, `FileMissing`: as `engine.plan.entries.read_live_entries`.
        """
        self._advance(snapshot)
        missing = partitions - self._partitions
        if missing:
            found = read_live_entries(self._metadata, snapshot, self._schema, missing).select(SIMPLE_COLUMNS)
            self._entries = pl.concat([self._entries, found])
            self._partitions |= missing
        return _filter_partitions(self._entries, partitions)

    def committed(self, snapshot: Snapshot, before: Snapshot | None, delta: pl.DataFrame) -> None:
        """Apply the changes between `before` and `snapshot`, so that they need not be read again."""
        if self._partitions and self._snapshot == before:
            self._apply(snapshot, delta)

    def _advance(self, snapshot: Snapshot) -> None:
        if self._snapshot == snapshot:
            return
        try:
            steps = self._steps(snapshot)
        except NotFound:  # expired or rolled back meanwhile
            steps = None
        if steps is None:
            self._partitions = frozenset()
            self._entries = self._entries.clear()
        else:
            for step, delta in steps:
                self._apply(step, delta)
        self._snapshot = snapshot

    def _steps(self, snapshot: Snapshot) -> list[tuple[Snapshot, pl.DataFrame]] | None:
        """Return the snapshots after the known one with their changes, None if they do not lead to `snapshot`."""
        known = self._snapshot
        if known is None or not self._partitions or known.id >= snapshot.id:
            return None
        if snapshot.id - known.id > MAX_SNAPSHOT_STEPS or self._metadata.snapshot(known.id) != known:
            return None
        between = [self._metadata.snapshot(i) for i in range(known.id + 1, snapshot.id)]
        steps = [(step, self._delta(step)) for step in (*between, snapshot)]
        # An overwrite without changes may have given new row ids to all files.
        unknown = any(step.commit_kind == OVERWRITE and not delta.height for step, delta in steps)
        return None if unknown and snapshot.next_row_id is not None else steps

    def _delta(self, snapshot: Snapshot) -> pl.DataFrame:
        listed = list_delta_manifests(self._metadata, snapshot)
        frames = [frame.select(SIMPLE_COLUMNS) for frame in read_manifest_entries(self._metadata, listed)]
        return pl.concat(frames) if frames else self._entries.clear()

    def _apply(self, snapshot: Snapshot, delta: pl.DataFrame) -> None:
        changes = _filter_partitions(delta.select(SIMPLE_COLUMNS), self._partitions)
        entries = cancel_entries(pl.concat([self._entries, changes]))
        self._entries = entries.rechunk() if entries.n_chunks() > MAX_CHUNKS else entries
        self._snapshot = snapshot


ARITY = struct.Struct(">i")

ROLLING_CHECK_ENTRIES = 1000
"""Entries between two checks of the size of a manifest, as in Java."""


class ManifestWriter:
    """Writer of the metadata files of one table. `discard` removes files that no snapshot names.

    Files are durable once `settle` has returned; snapshots may name them only then.
    """

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._uuid = uuid.uuid4()
        self._counts = {kind: count() for kind in ("manifest", "manifest-list", "index-manifest")}
        self._under_way: list[Callable[[], None]] = []
        self._unsynced: list[str] = []
        self._unnamed: list[str] = []
        """Files whose bytes are durable, but whose names are not yet."""

    def settle(self) -> None:
        """Wait until all started files are durable.

        Uploads to a remote store run in parallel; on a local disk the folder is synced once.

        Raises: the first error of a write.
        """
        under_way, self._under_way = self._under_way, []
        failures: list[MorrowError] = []
        for done in under_way:
            try:
                done()
            except MorrowError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        # All of them are in one folder, which is synced through any of them.
        unsynced = self._unsynced or self._unnamed[-1:]
        self._unsynced, self._unnamed = [], []
        if unsynced:
            self._target.store.sync(unsynced)

    def sync_files(self) -> None:
        """Make the bytes of local files durable before the base list is written; `settle` makes their names durable."""
        for path in self._unsynced:
            with translate_system_errors(path):
                sync_file(Path(path))
        self._unnamed += self._unsynced
        self._unsynced = []

    def entries(self, frame: pl.DataFrame, written: list[str]) -> pl.DataFrame:
        """Write entries (columns of `decode_manifest`) into manifests of the target size.

        Returns:
            A row per manifest, columns of `decode_manifest_list`. The names are added to `written` before the files are
            written, so that a failure leaves no unknown file.
        """
        rows: list[dict[str, Any]] = []
        if frame.height:
            data = self._encoded(encode_manifest, frame)
            # There is seldom more than one manifest, so the bytes encoded to learn the size can usually be written.
            target_size = self._target.write.manifest_target_size
            pieces = [frame] if len(data) <= target_size else _split_frame(frame, len(data), target_size)
            for piece in pieces:
                data = data if piece is frame else self._encoded(encode_manifest, piece)
                name = self._write("manifest", data, written)
                cache_manifest(self._target.metadata, name, len(data), piece)
                rows.append({"_FILE_NAME": name, "_FILE_SIZE": len(data), **self._summary(piece)})
        return pl.DataFrame([{"_VERSION": MANIFEST_LIST_VERSION, **row} for row in rows], schema=MANIFEST_LIST_COLUMNS)

    def manifest_list(self, manifests: pl.DataFrame, written: list[str]) -> tuple[str, int]:
        """Write a manifest list; return its name and size."""
        manifests = manifests.rechunk()
        data = self._encoded(encode_manifest_list, manifests)
        name = self._write("manifest-list", data, written)
        cache_manifest(self._target.metadata, name, len(data), manifests)
        return name, len(data)

    def index_manifest(self, frame: pl.DataFrame, written: list[str]) -> str:
        """Write an index manifest (columns of `decode_index_manifest`); return its name."""
        name = self._write("index-manifest", self._encoded(encode_index_manifest, frame), written)
        cache_manifest(self._target.metadata, name, None, frame)
        return name

    def discard(self, names: Sequence[str]) -> None:
        """Remove metadata files that no snapshot names. Files that cannot be removed stay as orphans."""
        if self._under_way:
            with suppress(MorrowError):
                self.settle()
        paths = [self._target.metadata.paths.manifest(name) for name in names]
        self._unsynced = [path for path in self._unsynced if path not in paths]
        self._target.store.discard(paths)

    def _encoded(self, encode: Callable[[pl.DataFrame, str, str], bytes], frame: pl.DataFrame) -> bytes:
        return encode(frame, self._target.write.manifest_format, self._target.write.manifest_compression)

    def _write(self, kind: str, data: bytes, written: list[str]) -> str:
        name = f"{kind}-{self._uuid}-{next(self._counts[kind])}"
        written.append(name)
        path = self._target.metadata.paths.manifest(name)
        native = self._target.store.local_target(path)
        if native is not None:
            # Readers do not know the name yet, so they cannot read a partial file.
            with translate_system_errors(path), Path(native).open("xb") as stream:
                stream.write(data)
            self._unsynced.append(path)
            return name
        self._under_way.append(start_request(self._target.store, partial(self._target.store.write, path, data)))
        return name

    def _summary(self, entries: pl.DataFrame) -> dict[str, Any]:
        """Return the statistics of a manifest for its manifest list."""
        added = int((entries["_KIND"] == ADD).sum())
        first, rows = entries["_FIRST_ROW_ID"], entries["_ROW_COUNT"]
        tracked = not first.null_count()
        return {
            "_NUM_ADDED_FILES": added,
            "_NUM_DELETED_FILES": entries.height - added,
            "_PARTITION_STATS": self._partition_stats(entries["_PARTITION"]),
            "_SCHEMA_ID": entries["_SCHEMA_ID"].max(),
            "_MIN_BUCKET": entries["_BUCKET"].min(),
            "_MAX_BUCKET": entries["_BUCKET"].max(),
            "_MIN_LEVEL": entries["_LEVEL"].min(),
            "_MAX_LEVEL": entries["_LEVEL"].max(),
            "_MIN_ROW_ID": first.min() if tracked else None,
            "_MAX_ROW_ID": (first + rows - 1).max() if tracked else None,
        }

    def _partition_stats(self, partitions: pl.Series) -> dict[str, Any]:
        types = [field.type for field in self._target.partition_fields]
        if not types:
            return {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}
        columns = decode_columns(partitions.unique(), types, where=self._target.where)
        # Java does not compare byte arrays, so their bounds are unknown.
        ordered = [
            column.clear() if column.dtype == pl.Binary else _sort_as_java(column.drop_nulls()) for column in columns
        ]
        nulls = decode_columns(partitions, types, where=self._target.where)
        return {
            "_MIN_VALUES": _encode_row([column.head(1) for column in ordered], types),
            "_MAX_VALUES": _encode_row([column.tail(1) for column in ordered], types),
            "_NULL_COUNTS": [column.null_count() for column in nulls],
        }


def _sort_as_java(column: pl.Series) -> pl.Series:
    """Return the values in Java's order, where -0.0 is less than 0.0 (and NaN the greatest)."""
    if not column.dtype.is_float():
        return column.sort()
    positive = pl.Series(~np.signbit(column.to_numpy()))
    return column.to_frame("value").select(pl.col("value").sort_by("value", positive)).to_series()


def _encode_row(values: Sequence[pl.Series], types: Sequence[DataType]) -> bytes:
    """Return the BinaryRow (arity first) of columns with one value each; an empty column is null."""
    columns = [column if len(column) else column.extend_constant(None, 1) for column in values]
    return ARITY.pack(len(types)) + encode_columns(columns, types).row(0)


def _split_frame(frame: pl.DataFrame, size: int, target_size: int) -> list[pl.DataFrame]:
    """Split a frame of `size` encoded bytes into consecutive parts, each of about the target size."""
    checks = math.ceil(frame.height * target_size / size / ROLLING_CHECK_ENTRIES)
    return list(frame.iter_slices(max(checks, 1) * ROLLING_CHECK_ENTRIES))


def merge_manifests(
    target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]
) -> pl.DataFrame:
    """Return the base list (columns of `decode_manifest_list`) that replaces the manifests `listed`.

    Names of new manifests are added to `written`.

    Raises `CorruptFile`, `FileMissing`: a manifest cannot be read. `InvalidArgument`: a threshold is zero.
    """
    if target.write.manifest_full_compaction <= 0:
        raise InvalidArgument(f"{target.where}: 'manifest.full-compaction-threshold-size' must be greater than 0")
    full = _merge_all(target, writer, listed, written)
    return _merge_small(target, writer, listed, written) if full is None else full


def _merge_small(target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]) -> pl.DataFrame:
    """Merge manifests in list order whenever they reach the target size, and the rest if there are many."""
    parts: list[pl.DataFrame] = []
    begin = size = 0
    for end, file_size in enumerate(listed["_FILE_SIZE"].to_list(), start=1):
        size += file_size
        if size >= target.write.manifest_target_size:
            parts.append(_join_manifests(target, writer, listed[begin:end], written))
            begin, size = end, 0
    rest = listed[begin:]
    many = rest.height >= target.write.manifest_merge_count
    parts.append(_join_manifests(target, writer, rest, written) if many else rest)
    return pl.concat(parts)


def _join_manifests(
    target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]
) -> pl.DataFrame:
    if listed.height <= 1:
        return listed
    return writer.entries(
        cancel_entries(pl.concat(read_manifest_entries(target.metadata, listed), rechunk=True)), written
    )


def _merge_all(
    target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]
) -> pl.DataFrame | None:
    """Return the base list after a full merge, None if there is too little to rewrite."""
    changing = (listed["_NUM_DELETED_FILES"] > 0) | (listed["_FILE_SIZE"] < target.write.manifest_target_size)
    if listed["_FILE_SIZE"].filter(changing).sum() < target.write.manifest_full_compaction:
        return None
    deletes = _find_deleted(target, listed)
    # Large manifests are only opened if they may hold a file that was deleted later.
    partitions = frozenset(deletes["_PARTITION"].unique().to_list())
    opened = changing | (
        mark_relevant_manifests(target.metadata, listed, target.schema, partitions) if partitions else False
    )
    if opened.sum() <= 1:
        return None
    kept = [listed.filter(~opened)]
    rewritten: list[pl.DataFrame] = []
    chosen = listed.filter(opened)
    must_change = changing.filter(opened).to_list()
    for i, entries in enumerate(read_manifest_entries(target.metadata, chosen)):
        added = entries.filter(entries["_KIND"] == ADD)
        living = added.join(deletes, on=IDENTITY, how="anti", nulls_equal=True, maintain_order="left")
        if must_change[i] or living.height < added.height:
            rewritten.append(living)
        else:
            kept.append(chosen[i : i + 1])
    return pl.concat([*kept, *([writer.entries(pl.concat(rewritten), written)] if rewritten else [])])


def _find_deleted(target: WriteTarget, listed: pl.DataFrame) -> pl.DataFrame:
    """Return the identity of every file with a DELETE entry in the manifests."""
    frames = read_manifest_entries(target.metadata, listed.filter(listed["_NUM_DELETED_FILES"] > 0))
    parts = [frame.filter(frame["_KIND"] == DELETE).select(IDENTITY) for frame in frames]
    return pl.concat(parts) if parts else _make_empty_identity(target, listed)


def _make_empty_identity(target: WriteTarget, listed: pl.DataFrame) -> pl.DataFrame:
    (frame,) = read_manifest_entries(target.metadata, listed.head(1))
    return frame.select(IDENTITY).clear()
