"""The files that the roots of a table reference: metadata files, live data files, changelog files.

Code that removes files looks up here which files the remaining roots (see `roots`) need. Files that snapshots share are
never copied, and are identified by name. A snapshot needs its live data files, manifest lists, manifests, index
manifest, index files, statistics, and the changelog files that it added. A tag needs the same files without changelog
files, which are removed with the snapshot, as in Java. A changelog needs the changelog files that it added. With
``changelog-producer = none`` such files do not exist. The changelog then needs its manifests and the files of its delta
that were not made by compaction.

The entry of a data file does not record which snapshot committed it. So entries decide whether a root needs a file.
Only entries of the partitions in question are read. For consecutive snapshots, only the entries of the first are read,
plus the files that the others added.

`StateWalk` gives the live files of many snapshots, one after another. Neighbouring snapshots share nearly all entries,
so each manifest is read once and its files are numbered. A snapshot is then a list of numbers, the files that its
manifests add and delete. If the numbers contradict each other, `read_live_entries` finds and reports the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile, MorrowError, StorageError, Unsupported
from morrow.engine.format.binary_row import decode_columns, read_arities
from morrow.engine.format.manifest import decode_index_manifest, decode_manifest_lists, decode_outlines
from morrow.engine.format.manifest_entries import ADD, INDEX_COLUMNS, OUTLINE_COLUMNS
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import cols
from morrow.engine.plan.entries import mask_manifests, read_live_entries, resolve_entries
from morrow.engine.plan.manifests import Stored, decode_files, list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Or, Predicate, combine_predicates
from morrow.engine.plan.roots import Root, RootKind
from morrow.engine.polars_threads import deduplicate_values

KEY = ("_PARTITION", "_BUCKET", "_FILE_NAME")
"""The columns that identify data files. Names are unique, but hand-made tables may repeat names in another bucket."""

WRITTEN = 0
"""``_FILE_SOURCE`` of a file that a writer made; the value of a compacted file is 1."""

_NAMES = {"_PARTITION": pl.Binary, "_BUCKET": pl.Int32, "_FILE_NAME": pl.String, "_EXTERNAL_PATH": pl.String}
_ENTRIES = {**_NAMES, "_KIND": pl.Int32, "_FILE_SOURCE": pl.Int32}


@dataclass(frozen=True)
class ReferencedMetadata:
    """Names in the folders ``manifest`` and ``statistics``; `indexes` has the columns of `INDEX_COLUMNS`."""

    lists: frozenset[str]
    manifests: frozenset[str]
    index_manifests: frozenset[str]
    statistics: frozenset[str]
    indexes: pl.DataFrame

    @property
    def names(self) -> frozenset[str]:
        """All names in ``manifest``."""
        return self.lists | self.manifests | self.index_manifests


def find_metadata_files(roots: Sequence[Root], *, gone: bool = False) -> ReferencedMetadata:
    """Return the files besides data files that roots need.

    `gone`: the roots are being removed, and some of their files may already be missing.

    Raises `FileMissing`: a file of a root does not exist, unless `gone`. `CorruptFile`: it cannot be read.
    """
    lists = {stored for root in roots for stored in (*get_data_lists(root), *get_changelog_lists(root))}
    frames = read_lists(roots, sorted(lists), gone=gone)
    manifests = pl.concat([pl.Series(dtype=pl.String), *(frame["_FILE_NAME"] for frame in frames.values())]).unique()
    whole = [root.snapshot for root in roots if root.kind != RootKind.CHANGELOG]
    index_manifests = sorted({snapshot.index_manifest for snapshot in whole if snapshot.index_manifest is not None})
    return ReferencedMetadata(
        lists=frozenset(name for name, _ in lists),
        manifests=frozenset(manifests.to_list()),
        index_manifests=frozenset(index_manifests),
        statistics=frozenset(snapshot.statistics for snapshot in whole if snapshot.statistics is not None),
        indexes=_list_index_files(roots, index_manifests, gone=gone),
    )


def _list_index_files(roots: Sequence[Root], index_manifests: Sequence[str], *, gone: bool) -> pl.DataFrame:
    none = pl.DataFrame(schema=INDEX_COLUMNS)
    if not index_manifests:
        return none
    metadata = roots[0].metadata
    files = [(metadata.paths.manifest(name), None) for name in index_manifests]
    frames = decode_files(
        metadata, files, lambda found: [decode_index_manifest(*file) for file in found], missing_ok=gone
    )
    found = pl.concat([none, *frames.values()])
    return found.filter(pl.col("_KIND") == ADD).unique("_FILE_NAME", maintain_order=True)


def get_data_lists(root: Root) -> tuple[Stored, ...]:
    """Return the names and sizes of the base and delta lists, if the root needs them."""
    snapshot = root.snapshot
    base = (snapshot.base_manifest_list, snapshot.base_manifest_list_size)
    return (base, get_delta_list(root)) if root.keeps_data else ()


def get_delta_list(root: Root) -> Stored:
    return root.snapshot.delta_manifest_list, root.snapshot.delta_manifest_list_size


def get_changelog_lists(root: Root) -> tuple[Stored, ...]:
    """Return the name and size of the changelog list, if the root has one and needs it."""
    snapshot = root.snapshot
    if root.kind == RootKind.TAG or snapshot.changelog_manifest_list is None:
        return ()
    return ((snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),)


def read_lists(roots: Sequence[Root], lists: Iterable[Stored], *, gone: bool = False) -> dict[Stored, pl.DataFrame]:
    """Return the manifests of each list, by its name and size; missing lists are left out if the roots are `gone`."""
    stored = dict.fromkeys(lists)
    if not stored:
        return {}
    metadata = roots[0].metadata
    by_path = {(metadata.paths.manifest(name), size): (name, size) for name, size in stored}
    frames = decode_files(metadata, [*by_path], decode_manifest_lists, missing_ok=gone)
    return {by_path[path]: frame for path, frame in frames.items()}


def read_file_names(
    roots: Sequence[Root], manifests: Sequence[pl.DataFrame], *, gone: bool = False
) -> list[pl.DataFrame | None]:
    """Return `list_file_names` of the entries of each manifest frame, in order; None if a manifest is `gone`.

    Some manifests of a root are missing if their removal was interrupted. The remaining manifests are then incomplete
    (they may have the removal of a file without its addition). They were handled before any manifest was removed.
    """
    return [None if found is None else list_file_names(found) for found in read_outlines(roots, manifests, gone=gone)]


def read_outlines(
    roots: Sequence[Root], manifests: Sequence[pl.DataFrame], *, gone: bool = False
) -> list[pl.DataFrame | None]:
    """Return the entries of each frame of manifests, columns `OUTLINE_COLUMNS`; all manifests are read together."""
    if not manifests:
        return []
    metadata = roots[0].metadata
    files = [
        [(metadata.paths.manifest(name), size) for name, size in frame.select("_FILE_NAME", "_FILE_SIZE").iter_rows()]
        for frame in manifests
    ]
    distinct = list(dict.fromkeys(file for group in files for file in group))
    found = decode_files(metadata, distinct, decode_outlines, missing_ok=gone)
    frames = {file: frame.select(*OUTLINE_COLUMNS) for file, frame in found.items()}
    none = pl.DataFrame(schema=OUTLINE_COLUMNS)
    return [
        pl.concat([none, *(frames[file] for file in group)]) if all(file in frames for file in group) else None
        for group in files
    ]


def read_changed_entries(roots: Sequence[Root]) -> list[pl.DataFrame | None]:
    """Return the entries that each snapshot added to its predecessor's; None if a list or manifest is missing."""
    frames = read_lists(roots, map(get_delta_list, roots), gone=True)
    listed = [frames.get(get_delta_list(root)) for root in roots]
    entries = iter(read_outlines(roots, [frame for frame in listed if frame is not None], gone=True))
    return [None if frame is None else next(entries) for frame in listed]


def make_empty_names() -> pl.DataFrame:
    """Return the result of `list_file_names` for an empty frame."""
    return pl.DataFrame(schema=_ENTRIES)


def list_file_names(entries: pl.DataFrame) -> pl.DataFrame:
    """Return the names of the files of entries and of their extra files, one row each, with the kind of the entry."""
    files = entries.select(*_ENTRIES)
    beside = entries.filter(pl.col("_EXTRA_FILES").list.len() > 0)
    if not beside.height:
        return files
    return pl.concat([files, list_extra_files(beside, _ENTRIES)])


def list_extra_files(entries: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """Return the extra files of entries, one row each, with these columns of the entries and the external path."""
    columns, folder = [*columns], pl.col("_EXTERNAL_PATH").str.replace(r"[^/]*$", "")
    return (
        entries.select(*(name for name in columns if name != "_FILE_NAME"), _FILE_NAME=pl.col("_EXTRA_FILES"))
        .explode("_FILE_NAME", empty_as_null=False)
        .with_columns((folder + pl.col("_FILE_NAME")).alias("_EXTERNAL_PATH"))
        .select(cols(columns))
    )


def list_changelog_files(roots: Sequence[Root], *, gone: bool = False) -> pl.DataFrame:
    """Return `KEY` and external path of the changelog files that roots added, including their extra files."""
    frames = read_lists(roots, [stored for root in roots for stored in get_changelog_lists(root)], gone=gone)
    none = make_empty_names()
    parts = read_file_names(roots, [*frames.values()], gone=gone) if frames else []
    found = pl.concat([none, *(part for part in parts if part is not None)])
    names = found.filter(pl.col("_KIND") == ADD).unique(KEY, maintain_order=True)
    check_segments(names["_FILE_NAME"], roots[0].metadata.where if roots else "")
    return names


MAX_FILTERED_PARTITIONS = 1000
"""The limit of partitions to filter manifests by; beyond it, every manifest is read."""


@dataclass(frozen=True)
class _Among:
    """A filter of manifests by partition, and of entries by the files in question."""

    files: pl.DataFrame
    schema: TableSchema
    predicate: Predicate
    where: str

    @classmethod
    def of(cls, metadata: TableMetadata, files: pl.DataFrame) -> _Among:
        schema = metadata.latest_schema()
        return cls(
            files, schema, _match_partitions(files["_PARTITION"].unique(), schema, metadata.where), metadata.where
        )

    def manifests(self, listed: pl.DataFrame) -> pl.DataFrame:
        if self.predicate == ALWAYS or not listed.height:
            return listed
        return listed.filter(mask_manifests(listed, self.schema, self.predicate, self.where))

    def entries(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Return the entries of the files, and all entries with extra files, which may also be in question."""
        named = entries["_FILE_NAME"].is_in(self.files["_FILE_NAME"].implode())
        return entries.filter(named | (entries["_EXTRA_FILES"].list.len() > 0))


def find_live_names(roots: Sequence[Root], among: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return `KEY` of the data files that roots need, including their extra files, without changelog files.

    Args:
        among: the files in question, with the columns `KEY`; others are not considered. None: all files.

    Raises `FileMissing`, `CorruptFile`: a manifest cannot be read.
    """
    keeping = _deduplicate_roots(root for root in roots if root.keeps_data)
    if not keeping:
        return make_empty_names().select(*KEY)
    wanted = None if among is None else _Among.of(keeping[0].metadata, among)
    following = _find_delta_roots(keeping)
    parts = [_list_delta_names(following, wanted)] if following else []
    parts += [_list_all_names(root, wanted) for root in keeping if root not in following]
    return pl.concat([part.select(*KEY) for part in parts]).unique()


def _deduplicate_roots(roots: Iterable[Root]) -> list[Root]:
    """Return one root for each distinct snapshot and set of needed lists."""
    return list({(root.kind == RootKind.CHANGELOG, root.snapshot.delta_manifest_list): root for root in roots}.values())


def _find_delta_roots(roots: Sequence[Root]) -> list[Root]:
    """Return the roots whose delta alone counts: changelogs, and snapshots whose predecessor is a root too."""
    ids = {(root.metadata.branch, root.id) for root in roots if root.kind == RootKind.SNAPSHOT}
    return [
        root
        for root in roots
        if root.kind == RootKind.CHANGELOG
        or (root.kind == RootKind.SNAPSHOT and (root.metadata.branch, root.id - 1) in ids)
    ]


def _list_delta_names(roots: Sequence[Root], among: _Among | None) -> pl.DataFrame:
    """Return files that snapshots added, and files that writers changed in changelogs without files of their own."""
    frames = read_lists(roots, map(get_delta_list, roots))
    listed = [frames[get_delta_list(root)] for root in roots]
    parts = read_file_names(roots, [frame if among is None else among.manifests(frame) for frame in listed])
    needed = (part.filter(_select_needed(root)) for root, part in zip(roots, parts) if part is not None)
    return pl.concat([make_empty_names(), *needed])


def _select_needed(root: Root) -> pl.Expr:
    written = pl.col("_FILE_SOURCE").fill_null(WRITTEN) == WRITTEN
    return written if root.kind == RootKind.CHANGELOG else pl.col("_KIND") == ADD


def list_names_of_removed(root: Root) -> pl.DataFrame:
    """Return `list_file_names` of the live files of a removed root; none if some of its manifests are already gone."""
    lists = set(get_data_lists(root))
    frames = read_lists([root], lists, gone=True)
    if len(frames) < len(lists):
        return make_empty_names()
    (entries,) = read_outlines([root], [pl.concat([frames[stored] for stored in get_data_lists(root)])], gone=True)
    return make_empty_names() if entries is None else list_file_names(resolve_entries(entries))


def _list_all_names(root: Root, among: _Among | None) -> pl.DataFrame:
    """Return `list_file_names` of the live files of a root."""
    frames = read_lists([root], get_data_lists(root))
    listed = pl.concat([frames[stored] for stored in get_data_lists(root)])
    listed = listed if among is None else among.manifests(listed)
    (entries,) = read_outlines([root], [listed])
    assert entries is not None
    entries = entries if among is None else among.entries(entries)
    return list_file_names(resolve_entries(entries) if listed["_NUM_DELETED_FILES"].sum() else entries)


def _match_partitions(partitions: pl.Series, schema: TableSchema, where: str) -> Predicate:
    """Match these partitions, and other partitions whose every value occurs in one of them."""
    if not schema.partition_keys or len(partitions) > MAX_FILTERED_PARTITIONS:
        return ALWAYS
    columns = decode_columns(partitions, [schema.by_name[name].type for name in schema.partition_keys], where=where)
    if any(column.dtype.is_float() for column in columns):  # NaN is not equal to itself
        return ALWAYS
    return combine_predicates(*(_match_value(name, column) for name, column in zip(schema.partition_keys, columns)))


def _match_value(name: str, column: pl.Series) -> Predicate:
    known = Leaf(name, Op.IN, tuple(column.drop_nulls().unique().to_list()))
    return Or((known, Leaf(name, Op.IS_NULL))) if column.null_count() else known


NAME = ("_PARTITION", "_BUCKET", "_FILE_NAME")
"""Columns of entries that identify a live file."""
KEPT = (*NAME, "_EXTERNAL_PATH", "_FILE_SIZE", "_EXTRA_FILES")

Numbers = npt.NDArray[np.int64]


@dataclass
class _Manifest:
    """A manifest as numbers: for each entry the number of its file and name, and whether it adds the file.

    `entries` are dropped once each of its files has been returned.
    """

    files: Numbers
    names: Numbers
    adds: npt.NDArray[np.bool_]
    rows: int
    arities: frozenset[int]
    entries: pl.DataFrame | None


@dataclass
class StateWalk:
    """The snapshots of one branch, or of several branches with the same files; see `unseen`."""

    _files: dict[tuple[object, ...], int] = field(default_factory=dict)
    _names: dict[tuple[object, ...], int] = field(default_factory=dict)
    _manifests: dict[tuple[str, int], _Manifest] = field(default_factory=dict)
    _seen: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def unseen(self, metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema) -> pl.DataFrame:
        """Return the entries of live files, columns `KEPT`, whose names no earlier call returned.

        If the manifests contradict each other, all live files are read.

        Raises `CorruptFile`, `FileMissing`: as `read_live_entries`.
        """
        try:
            manifests = self._of(metadata, snapshot)
        except StorageError:
            raise
        except MorrowError:
            manifests = None
        live = None if manifests is None else _find_live(manifests, snapshot, len(schema.partition_keys))
        if manifests is None or live is None:
            return read_live_entries(metadata, snapshot, schema, columns=KEPT).frame.select(*KEPT)
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
        """Return the manifests of a snapshot; None if a manifest does not match its list."""
        listed = list_manifests(metadata, snapshot)
        columns = ("_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")
        rows = list(zip(*(listed[name].to_list() for name in columns)))
        keys = [(metadata.paths.manifest(name), size) for name, size, _, _ in rows]
        missing = [number for number, key in enumerate(keys) if key not in self._manifests]
        if missing:
            for number, entries in zip(missing, read_manifest_entries(metadata, listed[missing], outlines=True)):
                self._manifests[keys[number]] = self._number(entries, metadata.where)
        found = [self._manifests[key] for key in keys]
        for each, (_, _, added, deleted) in zip(found, rows):
            if (int(each.adds.sum()), len(each.adds) - int(each.adds.sum())) != (added, deleted):
                return None
        return found

    def _number(self, entries: pl.DataFrame, where: str) -> _Manifest:
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
            frozenset(read_arities(deduplicate_values(entries["_PARTITION"]), where=where).tolist())
            if entries.height
            else frozenset(),
            entries.select(*KEPT),
        )


def _find_live(manifests: Sequence[_Manifest], snapshot: Snapshot, arity: int) -> list[npt.NDArray[np.bool_]] | None:
    """Return which entries of each manifest are live files; None if they contradict each other or the snapshot."""
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
        last[files] = np.arange(len(files))  # of equal numbers, the last one stays
        live &= last[files] == np.arange(len(files))
        if live.sum() != len(files) - 2 * deleted:
            return None
    if (np.bincount(names[live]) > 1).any():
        return None
    return np.split(live, np.cumsum([len(each.files) for each in manifests])[:-1])


def read_states_ahead(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> None:
    """Read lists and index manifests of snapshots together; errors are raised when a snapshot's files are requested."""
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
        decode_files(metadata, lists, decode_manifest_lists, missing_ok=True)
    with suppress(CorruptFile, Unsupported):
        decode_files(metadata, indexes, _decode_indexes, missing_ok=True)


def _decode_indexes(files: Sequence[tuple[bytes, str]]) -> list[pl.DataFrame]:
    return [decode_index_manifest(*file) for file in files]
