"""The storage of a table: the bytes of its data files, by what keeps them.

Snapshots share files. Each file is counted once, for the first of these that needs it: the newest snapshot of the
branch, other branches, tags, snapshots that expiry leaves, snapshots that expiry would remove, changelogs. Deletion
vectors, indexes and metadata are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_entries import ADD
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import StateWalk, get_changelog_lists, read_lists, read_outlines
from morrow.engine.plan.roots import Line, Root, RootKind, list_lines


class KeptBy(StrEnum):
    """The reasons to keep a data file."""

    LIVE = "live"
    BRANCH = "branch"
    TAG = "tag"
    SNAPSHOTS = "snapshots"
    EXPIRED = "expired snapshots"
    CHANGELOGS = "changelogs"


SCHEMA = {"kept_by": pl.String, "name": pl.String, "partition": pl.String, "files": pl.Int64, "bytes": pl.Int64}


def measure_storage(metadata: TableMetadata) -> pl.DataFrame:
    """Return the files and bytes by what keeps them and by partition; see `Table.storage`.

    Raises `CorruptFile`, `FileMissing`: a manifest cannot be read.
    """
    walk, lines = StateWalk(), list_lines(metadata)
    parts = [pl.DataFrame(schema=SCHEMA)]
    for kept_by, name, root in _list_states(metadata, lines):
        schema = root.metadata.schema(root.snapshot.schema_id)
        parts.append(_sum_by_partition(kept_by, name, root, schema, walk.unseen(root.metadata, root.snapshot, schema)))
    parts += _sum_changelogs(lines)
    by = ["kept_by", "name", "partition"]
    return pl.concat(parts).group_by(by, maintain_order=True).agg(pl.col("files", "bytes").sum())


def _list_states(metadata: TableMetadata, lines: Sequence[Line]) -> Iterator[tuple[KeptBy, str | None, Root]]:
    """Yield the snapshots and tags of all branches in the order in which they claim files."""
    from morrow.writers.history.snapshot_expiry import expire_snapshots

    lines = sorted(lines, key=lambda line: line.metadata.branch != metadata.branch)
    for line in lines:
        is_own = line.metadata.branch == metadata.branch
        for root in line.snapshots(line.snapshot_ids[-1:]):
            yield (KeptBy.LIVE, None, root) if is_own else (KeptBy.BRANCH, line.metadata.branch, root)
    for line in lines:
        for root in line.tag_roots():
            yield KeptBy.TAG, root.name, root
    expired = {line.metadata.branch: int(expire_snapshots(line.metadata, dry_run=True)) for line in lines}
    for line in lines:
        for root in line.snapshots(line.snapshot_ids[expired[line.metadata.branch] :]):
            yield KeptBy.SNAPSHOTS, None, root
    for line in lines:
        for root in line.snapshots(line.snapshot_ids[: expired[line.metadata.branch]]):
            yield KeptBy.EXPIRED, None, root


def _sum_by_partition(
    kept_by: KeptBy, name: str | None, root: Root, schema: TableSchema, entries: pl.DataFrame
) -> pl.DataFrame:
    sums = entries.group_by("_PARTITION", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("files"), pl.col("_FILE_SIZE").sum().alias("bytes")
    )
    partitions = _name_partitions(sums["_PARTITION"], schema, root.metadata.where)
    return sums.select(
        pl.lit(kept_by.value).alias("kept_by"), pl.lit(name, pl.String).alias("name"), partitions, "files", "bytes"
    )


def _name_partitions(rows: pl.Series, schema: TableSchema, where: str) -> pl.Series:
    """Return ``dt=2024-05-14/h=8`` for stored partitions; null for a table without partition keys."""
    if not schema.partition_keys:
        return pl.Series("partition", [None] * len(rows), pl.String)
    types = [schema.by_name[key].type for key in schema.partition_keys]
    columns = decode_columns(rows, types, where=where, unrepresentable="null")
    texts = [
        pl.lit(f"{key}=") + column.cast(pl.String, strict=False).fill_null("null")
        for key, column in zip(schema.partition_keys, columns)
    ]
    return pl.select(pl.concat_str(texts, separator="/").alias("partition")).to_series()


def _sum_changelogs(lines: Sequence[Line]) -> Iterator[pl.DataFrame]:
    """Yield the sums of changelog files, branch by branch. Branches share no changelog files, except copied ones."""
    seen = pl.Series(dtype=pl.String)
    for line in lines:
        roots = [root for root in line.roots() if root.kind != RootKind.TAG]
        frames = read_lists(roots, [stored for root in roots for stored in get_changelog_lists(root)])
        if not frames:
            continue
        entries = pl.concat(found for found in read_outlines(roots, [*frames.values()]) if found is not None)
        is_new = (pl.col("_KIND") == ADD) & ~pl.col("_FILE_NAME").is_in(seen.implode())
        new = entries.filter(is_new).unique("_FILE_NAME", maintain_order=True)
        seen = seen.append(new["_FILE_NAME"])
        yield _sum_by_partition(KeptBy.CHANGELOGS, None, roots[0], line.metadata.latest_schema(), new)
