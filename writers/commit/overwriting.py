"""The changes of an overwrite: all files and index files of the chosen partitions are replaced by the new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal, TypeAlias

import msgspec
import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value, decode_columns, decode_rows, same_value
from morrow.engine.format.data_file_meta import EntryKind, ManifestEntry
from morrow.engine.format.entry_frames import entries_of, index_entries_of, without_value_stats
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.manifests import index_entries
from morrow.engine.plan.sections import bucket_numbers, key_ranks
from morrow.writers.commit.base_entries import live_in_partitions
from morrow.writers.commit.changes import Changes
from morrow.writers.target import WriteTarget

Partitions: TypeAlias = "Literal['all'] | Sequence[bytes] | Sequence[Mapping[str, Value]]"
"""All partitions, those with these BinaryRows, or those with these values in (some of) their columns."""


def overwritten(target: WriteTarget, new: Changes, partitions: Partitions) -> Callable[[Snapshot | None], Changes]:
    """Returns the changes of an OVERWRITE snapshot, as a function of the snapshot that it follows.

    Raises:
        InvalidArgument: a new file outside of the partitions, or a column that is no partition key.
    """
    chosen = _chosen(target, partitions)
    for entry in new.files:
        if entry.kind == EntryKind.ADD and not chosen({entry.partition}):
            raise InvalidArgument(
                f"{target.where}: a file for the partition {target.partition_values(entry.partition)} does not belong "
                "to the partitions to overwrite; name it too, or overwrite dynamically"
            )

    def changes(latest: Snapshot | None) -> Changes:
        if latest is None:
            return new
        gone = _live(target, latest, partitions, chosen)
        index = index_entries(target.metadata, latest)
        gone_index = [] if index is None else index_entries_of(index)
        kept = chosen({entry.partition for entry in gone_index})
        return Changes(
            (*gone, *new.files),
            (),
            (
                *(
                    msgspec.structs.replace(entry, kind=EntryKind.DELETE)
                    for entry in gone_index
                    if entry.partition in kept
                ),
                *new.index,
            ),
        )

    return changes


Chosen: TypeAlias = Callable[[Set[bytes]], Set[bytes]]
"""Returns the chosen ones of some partitions."""


def _chosen(target: WriteTarget, partitions: Partitions) -> Chosen:
    if partitions == "all":
        return lambda some: some
    specs = [spec for spec in partitions if isinstance(spec, Mapping)]
    rows = frozenset(row for row in partitions if isinstance(row, bytes))
    if not specs:
        return lambda some: some & rows
    keys = target.schema.partition_keys
    for spec in specs:
        if unknown := [name for name in spec if name not in keys]:
            raise InvalidArgument(f"{unknown[0]!r} is no partition key; they are: {', '.join(keys) or 'none'}")
    types = [field.type for field in target.partition_fields]

    def of_values(some: Set[bytes]) -> Set[bytes]:
        decoded = zip(some, decode_rows(list(some), types, where=target.where), strict=True)
        return {
            row
            for row, values in decoded
            if row in rows
            or any(all(same_value(dict(zip(keys, values))[k], value) for k, value in spec.items()) for spec in specs)
        }

    return of_values


def _live(target: WriteTarget, latest: Snapshot, partitions: Partitions, chosen: Chosen) -> list[ManifestEntry]:
    """Returns DELETE entries for the live files; those of the postponed bucket only in tables with ``bucket = -2``."""
    named = partitions != "all" and all(isinstance(row, bytes) for row in partitions)
    exact = {row for row in partitions if isinstance(row, bytes)} if named else None
    frame = live_in_partitions(target.metadata, latest, target.schema, exact)
    if target.options.bucket != POSTPONE_BUCKET:
        frame = frame.filter(frame["_BUCKET"] >= 0)
    if exact is None and partitions != "all":
        kept = chosen(set(frame["_PARTITION"].unique().to_list()))
        frame = frame.filter(frame["_PARTITION"].is_in(list(kept)))
    entries = [msgspec.structs.replace(entry, kind=EntryKind.DELETE) for entry in entries_of(frame)]
    if target.write.manifest_drop_stats:
        entries = [msgspec.structs.replace(e, file=without_value_stats(e.file)) for e in entries]
    return entries


def upgraded(target: WriteTarget, entries: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Moves new level-0 files of an overwritten keyed table to the bottom level where those of a bucket do not overlap.

    They then need no compaction (``overwrite-upgrade``).
    """
    wanted = target.keyed and target.write.overwrite_upgrade
    if not wanted or not entries or any(entry.file.level > 0 or entry.bucket < 0 for entry in entries):
        return tuple(entries)
    frame = pl.DataFrame(
        {
            "_PARTITION": [entry.partition for entry in entries],
            "_BUCKET": [entry.bucket for entry in entries],
            "low": [entry.file.min_key for entry in entries],
            "high": [entry.file.max_key for entry in entries],
        }
    )
    types = [target.schema.by_name[name].type for name in target.schema.trimmed_primary_keys]
    low, high = key_ranks(decode_columns(pl.concat([frame["low"], frame["high"]]), types, where=target.where)).reshape(
        2, -1
    )
    ordered = pl.DataFrame({"group": bucket_numbers(frame), "low": low, "high": high}).with_row_index("row")
    meets = ordered.sort("group", "low").with_columns(
        (pl.col("low").shift(-1) <= pl.col("high")).over("group").fill_null(False).alias("meets")
    )
    apart = meets.filter(~pl.col("meets").any().over("group"))["row"].to_list()
    lifted = set(apart)
    level = target.write.max_level
    return tuple(
        msgspec.structs.replace(entry, file=entry.file.upgraded(level)) if i in lifted else entry
        for i, entry in enumerate(entries)
    )
