"""The names of data files that states of a table keep alive: those live in a snapshot or tag, those of a changelog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_columns import ADD
from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.entries import partitions_overlap, resolved
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Or, Predicate, conjunction
from morrow.engine.plan.references import (
    KEY,
    WRITTEN,
    data_lists,
    delta_list,
    entries_of,
    named,
    no_names,
    read_entries,
    read_lists,
)
from morrow.engine.plan.roots import Root, RootKind

MOST_PARTITIONS = 1000
"""The most partitions to filter manifests by; of more partitions, every manifest is read."""


@dataclass(frozen=True)
class _Among:
    """A filter of manifests, by their partitions, and of entries for the files in question."""

    files: pl.DataFrame
    schema: TableSchema
    predicate: Predicate
    where: str

    @classmethod
    def of(cls, metadata: TableMetadata, files: pl.DataFrame) -> _Among:
        schema = metadata.latest_schema()
        return cls(files, schema, _one_of(files["_PARTITION"].unique(), schema, metadata.where), metadata.where)

    def manifests(self, listed: pl.DataFrame) -> pl.DataFrame:
        if self.predicate == ALWAYS or not listed.height:
            return listed
        return listed.filter(partitions_overlap(listed, self.schema, self.predicate, self.where))

    def entries(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Returns the entries of the files, and all with extra files: these may be in question too."""
        named = entries["_FILE_NAME"].is_in(self.files["_FILE_NAME"].implode())
        return entries.filter(named | (entries["_EXTRA_FILES"].list.len() > 0))


def live_names(roots: Sequence[Root], among: pl.DataFrame | None = None) -> pl.DataFrame:
    """Returns `KEY` of the data files that roots need, their extra files included, changelog files excluded.

    Args:
        among: the files in question, with the columns `KEY`; others are not considered. None: all files.

    Raises:
        FileMissing, CorruptFile: a manifest cannot be read.
    """
    keeping = _distinct(root for root in roots if root.keeps_data)
    if not keeping:
        return no_names().select(*KEY)
    wanted = None if among is None else _Among.of(keeping[0].metadata, among)
    following = _following(keeping)
    parts = [_names_of_delta(following, wanted)] if following else []
    parts += [_names_of_whole(root, wanted) for root in keeping if root not in following]
    return pl.concat([part.select(*KEY) for part in parts]).unique()


def _distinct(roots: Iterable[Root]) -> list[Root]:
    """Returns one root per state and set of needed lists."""
    return list({(root.kind == RootKind.CHANGELOG, root.snapshot.delta_manifest_list): root for root in roots}.values())


def _following(roots: Sequence[Root]) -> list[Root]:
    """Returns the roots of which only the delta counts: changelogs, and snapshots whose predecessor is a root too."""
    ids = {(root.metadata.branch, root.id) for root in roots if root.kind == RootKind.SNAPSHOT}
    return [
        root
        for root in roots
        if root.kind == RootKind.CHANGELOG
        or (root.kind == RootKind.SNAPSHOT and (root.metadata.branch, root.id - 1) in ids)
    ]


def _names_of_delta(roots: Sequence[Root], among: _Among | None) -> pl.DataFrame:
    """Returns files that snapshots added, and those that writers added or removed in changelogs without own files."""
    frames = read_lists(roots, map(delta_list, roots))
    listed = [frames[delta_list(root)] for root in roots]
    parts = read_entries(roots, [frame if among is None else among.manifests(frame) for frame in listed])
    needed = (part.filter(_needed_of_delta(root)) for root, part in zip(roots, parts) if part is not None)
    return pl.concat([no_names(), *needed])


def _needed_of_delta(root: Root) -> pl.Expr:
    written = pl.col("_FILE_SOURCE").fill_null(WRITTEN) == WRITTEN
    return written if root.kind == RootKind.CHANGELOG else pl.col("_KIND") == ADD


def names_of_gone(root: Root) -> pl.DataFrame:
    """Returns `named` of the live files of a removed root; none when some of its manifests are already missing."""
    lists = set(data_lists(root))
    frames = read_lists([root], lists, gone=True)
    if len(frames) < len(lists):
        return no_names()
    (entries,) = entries_of([root], [pl.concat([frames[stored] for stored in data_lists(root)])], gone=True)
    return no_names() if entries is None else named(resolved(entries))


def _names_of_whole(root: Root, among: _Among | None) -> pl.DataFrame:
    """Returns `named` of the live files of a root."""
    frames = read_lists([root], data_lists(root))
    listed = pl.concat([frames[stored] for stored in data_lists(root)])
    listed = listed if among is None else among.manifests(listed)
    (entries,) = entries_of([root], [listed])
    assert entries is not None
    entries = entries if among is None else among.entries(entries)
    return named(resolved(entries) if listed["_NUM_DELETED_FILES"].sum() else entries)


def _one_of(partitions: pl.Series, schema: TableSchema, where: str) -> Predicate:
    """Matches these partitions, and others that have each value from one of them."""
    if not schema.partition_keys or len(partitions) > MOST_PARTITIONS:
        return ALWAYS
    columns = decode_columns(partitions, [schema.by_name[name].type for name in schema.partition_keys], where=where)
    if any(column.dtype.is_float() for column in columns):  # NaN equals nothing
        return ALWAYS
    return conjunction(*(_value_of(name, column) for name, column in zip(schema.partition_keys, columns)))


def _value_of(name: str, column: pl.Series) -> Predicate:
    known = Leaf(name, Op.IN, tuple(column.drop_nulls().unique().to_list()))
    return Or((known, Leaf(name, Op.IS_NULL))) if column.null_count() else known
