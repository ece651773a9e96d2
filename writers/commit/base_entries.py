"""Live entries of the partitions that a commit changes, updated from snapshot to snapshot.

A commit that checks for conflicts needs the live files of the partitions it changes. Reading all manifests each time
would make the thousandth commit slower than the first, so the entries are kept and updated with the changes (delta
manifests) of later snapshots; most of these are the committer's own and need not be read at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import cast

import polars as pl

from morrow.engine.errors import NotFound
from morrow.engine.format.binary_row import decode_rows
from morrow.engine.format.manifest_entries import ADD, DELETE, ENTRY_COLUMNS, FILE_COLUMNS
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import GONE, ROW
from morrow.engine.plan.entries import mask_manifests
from morrow.engine.plan.manifests import list_delta_manifests, list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import And, Leaf, Op, Or, Predicate, Value

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

    Raises:
        CorruptFile, FileMissing: as `engine.plan.entries.read_live_entries`.
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

        Raises:
            CorruptFile, FileMissing: as `engine.plan.entries.read_live_entries`.
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
        return [(step, self._delta(step)) for step in (*between, snapshot)]

    def _delta(self, snapshot: Snapshot) -> pl.DataFrame:
        listed = list_delta_manifests(self._metadata, snapshot)
        frames = [frame.select(SIMPLE_COLUMNS) for frame in read_manifest_entries(self._metadata, listed)]
        return pl.concat(frames) if frames else self._entries.clear()

    def _apply(self, snapshot: Snapshot, delta: pl.DataFrame) -> None:
        changes = _filter_partitions(delta.select(SIMPLE_COLUMNS), self._partitions)
        entries = cancel_entries(pl.concat([self._entries, changes]))
        self._entries = entries.rechunk() if entries.n_chunks() > MAX_CHUNKS else entries
        self._snapshot = snapshot
