"""Entries of manifests as they travel to a planner in another process: without statistics, with what these tell.

Statistics are most of the metadata. What planning asks of them are masks (`pruning`) and the dates of ORC files
(`modern_dates`), which one entry tells without others: they become columns here. All else is for the planner, which
sees every entry of the matching partitions: which files are live, which overlap, and whether metadata is whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from morrow.engine.format.entry_frames import no_entries
from morrow.engine.names import BUCKET_MATCHES, KEYS_MATCH, MODERN_DATES, VALUES_MATCH
from morrow.engine.plan.entries import RESOLVED, Decoded, matching, pieces, rows_of
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.manifests import manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.modern_dates import lacks_statistics, with_modern_dates
from morrow.engine.plan.planner import NEEDED
from morrow.engine.plan.predicate import ALWAYS, columns
from morrow.engine.plan.pruning import bucket_mask, key_mask, projected, value_mask
from morrow.engine.plan.request import ScanRequest

KEPT = tuple(sorted({*RESOLVED, *NEEDED}))
MATCHES = (BUCKET_MATCHES, KEYS_MATCH, VALUES_MATCH)


def outlined(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    """Decodes manifests of a list for a plan of `request`: the entries of matching partitions have what it needs.

    Raises:
        CorruptFile, FileMissing, Unsupported, StorageError: a manifest, or a schema, cannot be read.
    """
    found = [_piece(metadata, request, piece) for piece in pieces(manifests)]
    return Decoded(pl.concat(each.frame for each in found), sum(each.rows for each in found))


def asked_of(request: ScanRequest) -> ScanRequest:
    """Returns what a request asks of the entries, and nothing else: what `outlined` has to be sent."""
    predicate = request.filter.predicate
    asked = Filter(predicate, (), columns(predicate), str(predicate))
    return ScanRequest(request.schema, request.options, None, (), asked)


def _piece(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    tells = request.filter.predicate != ALWAYS
    entries = _read(metadata, manifests, outlines=not tells)
    rows = rows_of(entries)
    part = projected(request.filter.predicate, frozenset(request.schema.partition_keys))
    entries = matching(entries, request.schema, part, metadata.where)
    if not tells and lacks_statistics(request.schema, entries):
        entries = matching(_read(metadata, manifests, outlines=False), request.schema, part, metadata.where)
    entries = with_modern_dates(metadata, entries)
    if MODERN_DATES not in entries.columns:
        entries = entries.with_columns(pl.lit(None, pl.List(pl.String)).alias(MODERN_DATES))
    told = _matches(metadata, request, entries) if tells else ()
    return Decoded(entries.select(*KEPT, MODERN_DATES, *told), rows)


def _read(metadata: TableMetadata, manifests: pl.DataFrame, *, outlines: bool) -> pl.DataFrame:
    frames = manifest_entries(metadata, manifests, caches=False, outlines=outlines)
    return pl.concat(frames, rechunk=False) if frames else no_entries()


def _matches(metadata: TableMetadata, request: ScanRequest, entries: pl.DataFrame) -> list[pl.Series]:
    """Returns `MATCHES`, each told of the entries that the one before leaves: a plan asks in the same order."""
    schema, options, predicate = request.schema, request.options, request.filter.predicate
    tests: tuple[Callable[[pl.DataFrame], pl.Series | None], ...] = (
        lambda rest: bucket_mask(schema, options, predicate, rest),
        lambda rest: key_mask(metadata, schema, predicate, rest) if schema.primary_keys else None,
        lambda rest: value_mask(metadata, schema, options, predicate, rest),
    )
    left, numbers = entries, np.arange(entries.height)
    found = []
    for name, test in zip(MATCHES, tests):
        mask = test(left) if left.height else None
        if mask is not None:
            left, numbers = left.filter(mask), numbers[mask.to_numpy()]
        flags = np.zeros(entries.height, bool)
        flags[numbers] = True
        found.append(pl.Series(name, flags))
    return found
