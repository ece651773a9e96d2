"""The files that each state of a table keeps alive.

Code that removes files looks up here which of them the remaining roots (see `roots`) need; files shared between states
(they are never copied) are identified by name.

What a root needs:

    snapshot     its live data files, manifest lists, manifests, index manifest, index files, statistics, and the
                 changelog files that it added
    tag          the same without changelog files, which go with the snapshot, as in Java
    changelog    the changelog files that it added; with ``changelog-producer = none``, where there are no such files,
                 its manifests and the files of its delta that no compaction made

The entry of a data file does not record which snapshot committed it (the tags proposal wanted that, Java's entries do
not), so entries decide whether a root needs a file: only those of the partitions in question, and for consecutive
snapshots only those of the first, plus the files that the others added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.format.manifest import decode_index_manifest, decode_manifest_lists, decode_outlines
from morrow.engine.format.manifest_columns import ADD, INDEX_COLUMNS, OUTLINE_COLUMNS
from morrow.engine.format.paths import check_segments
from morrow.engine.names import cols
from morrow.engine.plan.manifests import Stored, decoded_files
from morrow.engine.plan.roots import Root, RootKind

KEY = ("_PARTITION", "_BUCKET", "_FILE_NAME")
"""The columns that identify data files. Names are unique, but hand-made tables may repeat them in another bucket."""

WRITTEN = 0
"""``_FILE_SOURCE`` of a file that a writer made; 1 is a file that compaction made."""

_NAMES = {"_PARTITION": pl.Binary, "_BUCKET": pl.Int32, "_FILE_NAME": pl.String, "_EXTERNAL_PATH": pl.String}
_ENTRIES = {**_NAMES, "_KIND": pl.Int32, "_FILE_SOURCE": pl.Int32}


@dataclass(frozen=True)
class MetadataFiles:
    """Names in the folder ``manifest`` and in ``statistics``; `indexes` has the columns of `INDEX_COLUMNS`."""

    lists: frozenset[str]
    manifests: frozenset[str]
    index_manifests: frozenset[str]
    statistics: frozenset[str]
    indexes: pl.DataFrame

    @property
    def names(self) -> frozenset[str]:
        """All names in ``manifest``."""
        return self.lists | self.manifests | self.index_manifests


def metadata_files(roots: Sequence[Root], *, gone: bool = False) -> MetadataFiles:
    """Returns the files besides data files that roots need.

    Args:
        gone: the roots are being removed, and some of their files may already be missing.

    Raises:
        FileMissing: a file of a root does not exist, unless `gone`. CorruptFile: it cannot be read.
    """
    lists = {stored for root in roots for stored in (*data_lists(root), *changelog_lists(root))}
    frames = read_lists(roots, sorted(lists), gone=gone)
    manifests = pl.concat([pl.Series(dtype=pl.String), *(frame["_FILE_NAME"] for frame in frames.values())]).unique()
    whole = [root.snapshot for root in roots if root.kind != RootKind.CHANGELOG]
    index_manifests = sorted({snapshot.index_manifest for snapshot in whole if snapshot.index_manifest is not None})
    return MetadataFiles(
        lists=frozenset(name for name, _ in lists),
        manifests=frozenset(manifests.to_list()),
        index_manifests=frozenset(index_manifests),
        statistics=frozenset(snapshot.statistics for snapshot in whole if snapshot.statistics is not None),
        indexes=_index_files(roots, index_manifests, gone=gone),
    )


def _index_files(roots: Sequence[Root], index_manifests: Sequence[str], *, gone: bool) -> pl.DataFrame:
    none = pl.DataFrame(schema=INDEX_COLUMNS)
    if not index_manifests:
        return none
    metadata = roots[0].metadata
    files = [(metadata.paths.manifest(name), None) for name in index_manifests]
    frames = decoded_files(
        metadata, files, lambda found: [decode_index_manifest(*file) for file in found], missing_ok=gone
    )
    found = pl.concat([none, *frames.values()])
    return found.filter(pl.col("_KIND") == ADD).unique("_FILE_NAME", maintain_order=True)


def data_lists(root: Root) -> tuple[Stored, ...]:
    """Returns the names and sizes of base and delta list, if the root needs them."""
    snapshot = root.snapshot
    base = (snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    return (base, delta_list(root)) if root.keeps_data else ()


def delta_list(root: Root) -> Stored:
    return root.snapshot.delta_manifest_list, root.snapshot.delta_manifest_list_size


def changelog_lists(root: Root) -> tuple[Stored, ...]:
    """Returns the name and size of the changelog list, if the root has one and needs it."""
    snapshot = root.snapshot
    if root.kind == RootKind.TAG or snapshot.changelog_manifest_list is None:
        return ()
    return ((snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),)


def read_lists(roots: Sequence[Root], lists: Iterable[Stored], *, gone: bool = False) -> dict[Stored, pl.DataFrame]:
    """Returns the manifests of each list, by its name and size; missing lists are left out if the roots are `gone`."""
    stored = dict.fromkeys(lists)
    if not stored:
        return {}
    metadata = roots[0].metadata
    by_path = {(metadata.paths.manifest(name), size): (name, size) for name, size in stored}
    frames = decoded_files(metadata, [*by_path], decode_manifest_lists, missing_ok=gone)
    return {by_path[path]: frame for path, frame in frames.items()}


def read_entries(
    roots: Sequence[Root], manifests: Sequence[pl.DataFrame], *, gone: bool = False
) -> list[pl.DataFrame | None]:
    """Returns `named` of the entries of each manifest frame, in order; None where a manifest is missing, when `gone`.

    Some manifests of a root are missing when their removal was interrupted. The others are then incomplete (they may
    have the removal of a file without its addition), and were acted upon before any manifest was removed.
    """
    return [None if found is None else named(found) for found in entries_of(roots, manifests, gone=gone)]


def entries_of(
    roots: Sequence[Root], manifests: Sequence[pl.DataFrame], *, gone: bool = False
) -> list[pl.DataFrame | None]:
    """Returns the entries of each frame of manifests, columns `OUTLINE_COLUMNS`; all manifests are read together."""
    if not manifests:
        return []
    metadata = roots[0].metadata
    files = [
        [(metadata.paths.manifest(name), size) for name, size in frame.select("_FILE_NAME", "_FILE_SIZE").iter_rows()]
        for frame in manifests
    ]
    distinct = list(dict.fromkeys(file for group in files for file in group))
    found = decoded_files(metadata, distinct, decode_outlines, missing_ok=gone)
    frames = {file: frame.select(*OUTLINE_COLUMNS) for file, frame in found.items()}
    none = pl.DataFrame(schema=OUTLINE_COLUMNS)
    return [
        pl.concat([none, *(frames[file] for file in group)]) if all(file in frames for file in group) else None
        for group in files
    ]


def changed_entries(roots: Sequence[Root]) -> list[pl.DataFrame | None]:
    """Returns the entries that each snapshot added to its predecessor's; None where a list or manifest is gone."""
    frames = read_lists(roots, map(delta_list, roots), gone=True)
    listed = [frames.get(delta_list(root)) for root in roots]
    entries = iter(entries_of(roots, [frame for frame in listed if frame is not None], gone=True))
    return [None if frame is None else next(entries) for frame in listed]


def no_names() -> pl.DataFrame:
    """Returns the result of `named` for no entries."""
    return pl.DataFrame(schema=_ENTRIES)


def named(entries: pl.DataFrame) -> pl.DataFrame:
    """Returns the names of the files of entries and of their extra files, one row each, with the kind of the entry."""
    files = entries.select(*_ENTRIES)
    beside = entries.filter(pl.col("_EXTRA_FILES").list.len() > 0)
    if not beside.height:
        return files
    return pl.concat([files, extra_files(beside, _ENTRIES)])


def extra_files(entries: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """Returns the extra files of entries, one row each, with these columns of them, the external path among them."""
    columns, folder = [*columns], pl.col("_EXTERNAL_PATH").str.replace(r"[^/]*$", "")
    return (
        entries.select(*(name for name in columns if name != "_FILE_NAME"), _FILE_NAME=pl.col("_EXTRA_FILES"))
        .explode("_FILE_NAME")
        .with_columns((folder + pl.col("_FILE_NAME")).alias("_EXTERNAL_PATH"))
        .select(cols(columns))
    )


def changelog_names(roots: Sequence[Root], *, gone: bool = False) -> pl.DataFrame:
    """Returns `KEY` and external path of the changelog files that roots added, their extra files included."""
    frames = read_lists(roots, [stored for root in roots for stored in changelog_lists(root)], gone=gone)
    none = no_names()
    parts = read_entries(roots, [*frames.values()], gone=gone) if frames else []
    found = pl.concat([none, *(part for part in parts if part is not None)])
    names = found.filter(pl.col("_KIND") == ADD).unique(KEY, maintain_order=True)
    check_segments(names["_FILE_NAME"], roots[0].metadata.where if roots else "")
    return names
