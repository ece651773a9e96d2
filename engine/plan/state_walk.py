"""The live files of many states, one after another: each manifest is read once, and its files are numbered.

`live_entries` derives the files of one state from all its manifests. Neighbouring states share nearly all of theirs, so
that of a thousand states it would resolve the same entries a thousand times. Here a state is a list of numbers: which
files its manifests add and delete. What is wrong with a state is told by `live_entries`, which is asked where the
numbers do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile, MorrowError, StorageError, Unsupported
from morrow.engine.format.binary_row import arities
from morrow.engine.format.manifest import decode_index_manifest, decode_manifest_lists
from morrow.engine.format.manifest_columns import ADD, OUTLINE_COLUMNS
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.frames import distinct
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.manifests import decoded_files, manifest_entries, manifests_of
from morrow.engine.plan.metadata import TableMetadata

NAME = ("_PARTITION", "_BUCKET", "_FILE_NAME")
"""Columns of entries that no two live files share."""
KEPT = (*NAME, "_EXTERNAL_PATH", "_FILE_SIZE", "_EXTRA_FILES")

Numbers = npt.NDArray[np.int64]


@dataclass
class _Manifest:
    """A manifest as numbers: of each entry the file, its name, and whether it adds it.

    `entries` are dropped once a state has named each of its files.
    """

    files: Numbers
    names: Numbers
    adds: npt.NDArray[np.bool_]
    rows: int
    arities: frozenset[int]
    entries: pl.DataFrame | None


@dataclass
class StateWalk:
    """The states of one branch, or of several whose files are the same; see `unseen`."""

    _files: dict[tuple[object, ...], int] = field(default_factory=dict)
    _names: dict[tuple[object, ...], int] = field(default_factory=dict)
    _manifests: dict[tuple[str, int], _Manifest] = field(default_factory=dict)
    _seen: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def unseen(self, metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema) -> pl.DataFrame:
        """Returns the entries of live files that no snapshot asked for before has by that name, columns `KEPT`.

        Raises:
            CorruptFile, FileMissing: as `live_entries`.
        """
        try:
            manifests = self._of(metadata, snapshot)
        except StorageError:
            raise
        except MorrowError:
            manifests = None
        live = None if manifests is None else _live(manifests, snapshot, len(schema.partition_keys))
        if manifests is None or live is None:
            return live_entries(metadata, snapshot, schema, columns=KEPT).frame.select(*KEPT)
        return self._new(metadata, manifests, live)

    def _new(
        self, metadata: TableMetadata, manifests: Sequence[_Manifest], live: Sequence[npt.NDArray[np.bool_]]
    ) -> pl.DataFrame:
        self._seen = np.append(self._seen, np.zeros(len(self._names) - len(self._seen), bool))
        parts = [pl.DataFrame(schema={name: OUTLINE_COLUMNS[name] for name in KEPT})]
        for each, alive in zip(manifests, live):
            if each.entries is not None:
                parts.append(each.entries.filter(pl.Series(alive & ~self._seen[each.names])))
        found = pl.concat(parts)
        check_segments(found["_FILE_NAME"], metadata.where)
        for each, alive in zip(manifests, live):
            if each.entries is not None:
                self._seen[each.names[alive]] = True
                each.entries = None if self._seen[each.names].all() else each.entries
        return found

    def _of(self, metadata: TableMetadata, snapshot: Snapshot) -> list[_Manifest] | None:
        """Returns the manifests of a snapshot; None where one does not hold what its list says."""
        listed = manifests_of(metadata, snapshot)
        columns = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
        rows = list(zip(*(listed[name].to_list() for name in columns)))
        keys = [(metadata.paths.manifest(name), size) for name, size, _, _ in rows]
        missing = [number for number, key in enumerate(keys) if key not in self._manifests]
        if missing:
            for number, entries in zip(missing, manifest_entries(metadata, listed[missing], outlines=True)):
                self._manifests[keys[number]] = self._numbered(entries, metadata.where)
        found = [self._manifests[key] for key in keys]
        for each, (_, _, added, deleted) in zip(found, rows):
            if (int(each.adds.sum()), len(each.adds) - int(each.adds.sum())) != (added, deleted):
                return None
        return found

    def _numbered(self, entries: pl.DataFrame, where: str) -> _Manifest:
        named = [self._names.setdefault(row, len(self._names)) for row in entries.select(*NAME).iter_rows()]
        rest = entries.select(
            "_LEVEL", pl.col("_EXTRA_FILES").list.join("\0"), "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH"
        )
        files = [self._files.setdefault((name, *row), len(self._files)) for name, row in zip(named, rest.iter_rows())]
        adds = entries["_KIND"].to_numpy() == ADD
        rows = entries["_ROW_COUNT"].to_numpy()
        return _Manifest(
            np.array(files, np.int64),
            np.array(named, np.int64),
            adds,
            int(rows[adds].sum()) - int(rows[~adds].sum()),
            frozenset(arities(distinct(entries["_PARTITION"]), where=where).tolist())
            if entries.height
            else frozenset(),
            entries.select(*KEPT),
        )


def _live(manifests: Sequence[_Manifest], snapshot: Snapshot, arity: int) -> list[npt.NDArray[np.bool_]] | None:
    """Returns which entries of each manifest are live files; None where they contradict each other or the snapshot."""
    if any(each.arities - {arity} for each in manifests):
        return None
    if snapshot.total_record_count not in (None, sum(each.rows for each in manifests)):
        return None
    if not manifests:
        return []
    files = np.concatenate([each.files for each in manifests])
    names = np.concatenate([each.names for each in manifests])
    live = np.concatenate([each.adds for each in manifests])
    deleted = len(live) - int(live.sum())
    if deleted:
        last = np.full(int(files.max()) + 1, -1)
        last[files] = np.arange(len(files))  # of an equal number, the last one stays
        live &= last[files] == np.arange(len(files))
        if live.sum() != len(files) - 2 * deleted:
            return None
    if (np.bincount(names[live]) > 1).any():
        return None
    return np.split(live, np.cumsum([len(each.files) for each in manifests])[:-1])


def read_ahead(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> None:
    """Reads lists and index manifests of snapshots together; what is wrong with one is told to who asks for it."""
    lists = [
        (metadata.paths.manifest(name), size)
        for each in snapshots
        for name, size in (
            (each.base_manifest_list, each.base_manifest_list_size),
            (each.delta_manifest_list, each.delta_manifest_list_size),
        )
    ]
    names = {each.index_manifest for each in snapshots if each.index_manifest is not None}
    indexes = [(metadata.paths.manifest(name), None) for name in sorted(names)]
    with suppress(CorruptFile, Unsupported):
        decoded_files(metadata, lists, decode_manifest_lists, missing_ok=True)
    with suppress(CorruptFile, Unsupported):
        decoded_files(metadata, indexes, _decode_indexes, missing_ok=True)


def _decode_indexes(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    return [decode_index_manifest(*file) for file in files]
