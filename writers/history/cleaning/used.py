"""The names of all files that roots need: lists, manifests, index and statistics files, data files with extra files.

Names are random, so that a file is identified by its name alone, in any folder: two files of one name are both kept.
Entries that delete a file count as well, as in Java: streaming reads of the changes may read the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Set

import polars as pl

from morrow.engine.format.manifest import decode_index_manifest, decode_manifest_lists, decode_outlines
from morrow.engine.format.manifest_columns import MANIFEST_LIST_COLUMNS
from morrow.engine.names import NEEDED
from morrow.engine.plan.manifests import Decode, Stored, decoded_files, manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.cleaning.roots import Named, Roots, named

FILES_AT_ONCE = 256
MANIFEST_BYTES_AT_ONCE = 32 << 20
MANIFEST_COLUMNS = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")


def used_names(roots: Roots) -> Iterator[pl.Series]:
    """Yields the names of the files that these roots need, in pieces (String), some of them several times.

    Memory holds the names of all manifests, and the entries of some at a time.

    Raises:
        CorruptFile, Unsupported: metadata that cannot be read. FileMissing: a file that a root needs is gone: damage,
            unless the root has gone meanwhile.
    """
    table = next(iter(roots.tables.values()))
    found = list(named(roots))
    yield pl.Series([name for one in found for name in _own_names(one)], dtype=pl.String)
    for frames in _index_files(table, found):
        yield pl.concat(frame["_FILE_NAME"] for frame in frames)
    manifests = _manifests(table, found)
    yield manifests["_FILE_NAME"]
    for _, piece in manifests.group_by(pl.col("_FILE_SIZE").cum_sum() // MANIFEST_BYTES_AT_ONCE, NEEDED):
        entries = [frame.select("_FILE_NAME", "_EXTRA_FILES") for frame in _entries(table, piece)]
        if entries:
            together = pl.concat(entries)
            yield together["_FILE_NAME"]
            yield together["_EXTRA_FILES"].explode().drop_nulls()


def _own_names(one: Named) -> Iterator[str]:
    yield from (name for name, _ in (*one.needed, *one.optional))
    yield from (name for name in (one.snapshot.index_manifest, one.snapshot.statistics) if name is not None)


def _index_files(table: TableMetadata, found: Sequence[Named]) -> Iterator[Sequence[pl.DataFrame]]:
    needs = [(one.snapshot.index_manifest, one.needs_index) for one in found]
    needed = {(name, None) for name, is_needed in needs if name is not None and is_needed}
    others = {(name, None) for name, _ in needs if name is not None} - needed
    yield from _read(table, needed, _decode_indexes, missing_ok=False)
    yield from _read(table, others, _decode_indexes, missing_ok=True)


def _decode_indexes(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    return [decode_index_manifest(*file) for file in files]


def _manifests(table: TableMetadata, found: Sequence[Named]) -> pl.DataFrame:
    """Returns all manifests once, columns `MANIFEST_COLUMNS` and __needed: whether some root needs them."""
    needed = {stored for one in found for stored in one.needed}
    others = {stored for one in found for stored in one.optional} - needed
    known = pl.DataFrame(
        schema={**{name: MANIFEST_LIST_COLUMNS[name] for name in MANIFEST_COLUMNS}, NEEDED: pl.Boolean}
    )
    for lists, is_needed in ((needed, True), (others, False)):
        for frames in _read(table, lists, decode_manifest_lists, missing_ok=not is_needed):
            more = [frame.select(*MANIFEST_COLUMNS, pl.lit(is_needed).alias(NEEDED)) for frame in frames]
            known = pl.concat([known, *more]).unique("_FILE_NAME", keep="first", maintain_order=True)
    return known


def _entries(table: TableMetadata, piece: pl.DataFrame) -> Iterable[pl.DataFrame]:
    if piece[NEEDED].all():
        return manifest_entries(table, piece, outlines=True)
    names = set(piece.select("_FILE_NAME", "_FILE_SIZE").iter_rows())
    return itertools.chain.from_iterable(_read(table, names, decode_outlines, missing_ok=True))


def _read(
    table: TableMetadata, names: Set[Stored], decode: Decode, *, missing_ok: bool
) -> Iterator[Sequence[pl.DataFrame]]:
    """Yields the frames of files of the folder ``manifest``, up to `FILES_AT_ONCE` of them at a time."""
    # In an order of its own, so that of several damaged files always the same one is named.
    files = [(table.paths.manifest(name), size) for name, size in sorted(names, key=lambda one: (one[0], one[1] or 0))]
    for start in range(0, len(files), FILES_AT_ONCE):
        found = decoded_files(table, files[start : start + FILES_AT_ONCE], decode, missing_ok=missing_ok)
        if found:
            yield [*found.values()]
