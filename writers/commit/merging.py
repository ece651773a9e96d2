"""Merges the manifests of the previous snapshot into its successor's base list, as Java's ManifestFileMerger does.

A minor merge joins small manifests when there are many of them. A full merge rewrites all manifests that are small or
delete files, once their total size reaches a threshold. An entry that adds a file and one that deletes it cancel out.
Manifests that need no change are listed again as they are.
"""

from __future__ import annotations

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_columns import ADD, DELETE
from morrow.engine.plan.manifests import manifest_entries
from morrow.writers.commit.base_entries import IDENTITY, cancelled, may_hold
from morrow.writers.commit.manifests import ManifestWriter
from morrow.writers.target import WriteTarget


def merged(target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]) -> pl.DataFrame:
    """Returns the base list (columns of `decode_manifest_list`) that replaces the manifests `listed`.

    Names of new manifests are added to `written`.

    Raises:
        CorruptFile, FileMissing: a manifest cannot be read. InvalidArgument: a threshold of zero.
    """
    if target.write.manifest_full_compaction <= 0:
        raise InvalidArgument(f"{target.where}: 'manifest.full-compaction-threshold-size' must be greater than 0")
    full = _full(target, writer, listed, written)
    return _minor(target, writer, listed, written) if full is None else full


def _minor(target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]) -> pl.DataFrame:
    """Merges manifests in list order whenever they reach the target size, and the remaining ones if they are many."""
    parts: list[pl.DataFrame] = []
    begin = size = 0
    for end, file_size in enumerate(listed["_FILE_SIZE"].to_list(), start=1):
        size += file_size
        if size >= target.write.manifest_target_size:
            parts.append(_joined(target, writer, listed[begin:end], written))
            begin, size = end, 0
    rest = listed[begin:]
    many = rest.height >= target.write.manifest_merge_count
    parts.append(_joined(target, writer, rest, written) if many else rest)
    return pl.concat(parts)


def _joined(target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]) -> pl.DataFrame:
    if listed.height <= 1:
        return listed
    return writer.entries(cancelled(pl.concat(manifest_entries(target.metadata, listed), rechunk=True)), written)


def _full(target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]) -> pl.DataFrame | None:
    """Returns the base list after a full merge, None where there is too little to rewrite."""
    changing = (listed["_NUM_DELETED_FILES"] > 0) | (listed["_FILE_SIZE"] < target.write.manifest_target_size)
    if listed["_FILE_SIZE"].filter(changing).sum() < target.write.manifest_full_compaction:
        return None
    deletes = _deletes(target, listed)
    # Large manifests are opened only where they may hold a file that was deleted later.
    partitions = frozenset(deletes["_PARTITION"].unique().to_list())
    opened = changing | (may_hold(target.metadata, listed, target.schema, partitions) if partitions else False)
    if opened.sum() <= 1:
        return None
    kept = [listed.filter(~opened)]
    rewritten: list[pl.DataFrame] = []
    chosen = listed.filter(opened)
    must_change = changing.filter(opened).to_list()
    for i, entries in enumerate(manifest_entries(target.metadata, chosen)):
        added = entries.filter(entries["_KIND"] == ADD)
        living = added.join(deletes, on=IDENTITY, how="anti", nulls_equal=True, maintain_order="left")
        if must_change[i] or living.height < added.height:
            rewritten.append(living)
        else:
            kept.append(chosen[i : i + 1])
    return pl.concat([*kept, *([writer.entries(pl.concat(rewritten), written)] if rewritten else [])])


def _deletes(target: WriteTarget, listed: pl.DataFrame) -> pl.DataFrame:
    """Returns the identity of every file that some manifest deletes."""
    frames = manifest_entries(target.metadata, listed.filter(listed["_NUM_DELETED_FILES"] > 0))
    parts = [frame.filter(frame["_KIND"] == DELETE).select(IDENTITY) for frame in frames]
    return pl.concat(parts) if parts else _no_identity(target, listed)


def _no_identity(target: WriteTarget, listed: pl.DataFrame) -> pl.DataFrame:
    (frame,) = manifest_entries(target.metadata, listed.head(1))
    return frame.select(IDENTITY).clear()
