"""The files of a read that are read as they are, where all are: metadata alone tells how many of their rows live."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from morrow.engine.names import VECTOR
from morrow.engine.plan.deletions import DeletionVectors
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import spec_of, visible_entries
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.sectioned import sectioned


@dataclass(frozen=True)
class PlainFiles:
    """Live entries of manifests, and of each the rows that its deletion vector leaves out (Int64, 0 without one)."""

    entries: pl.DataFrame
    dead: pl.Series


def plain_files(metadata: TableMetadata, request: ScanRequest) -> PlainFiles | None:
    """Returns the files of the partitions that may match; the request has a snapshot.

    None where metadata does not tell which rows live: keys in several files, retractions, columns of a row in several
    files, a deletion vector whose size was not recorded.

    Raises:
        CorruptFile, FileMissing, Unsupported, UnsafePath: metadata that cannot be trusted.
    """
    spec = spec_of(metadata, request)
    entries, vectors = visible_entries(metadata, request, spec, [])
    divided = sectioned(metadata, request, spec, entries)
    if divided.kinds:
        return None
    entries = divided.frame
    if request.schema.primary_keys and not (spec is not None and spec.keeps_retractions):
        retractions = entries["_DELETE_ROW_COUNT"]
        if retractions.null_count() or (retractions > 0).any():
            return None
    dead = _dead_rows(entries, vectors)
    return None if dead.null_count() else PlainFiles(entries, dead)


def _dead_rows(entries: pl.DataFrame, vectors: DeletionVectors | None) -> pl.Series:
    """Returns the rows that deletion vectors leave out; null where that was not recorded."""
    if vectors is None:
        return pl.repeat(0, entries.height, dtype=pl.Int64, eager=True)
    counts = vectors.ranges["_CARDINALITY"].cast(pl.Int64)
    numbers = entries[VECTOR]
    marked = counts.gather(numbers.clip(lower_bound=0))
    return marked.zip_with(numbers >= 0, pl.repeat(0, entries.height, dtype=pl.Int64, eager=True))
