"""Search for stored rows in all files that the roots of a branch need: live, deleted and superseded rows.

With data evolution, the files of a group hold a row together. Every version of the row is tested, as the files up to a
sequence number hold it. A global index holds such rows if the files of its partition do, or if it has row ids of files
that are not live.

A root is a snapshot, a tag or a changelog (see `engine.plan.roots`). Values are also in the bounds of manifests, in
entries of files that are no longer live, and in the statistics of ANALYZE. Indexes of data files need no search:
they belong to data files that are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.file_formats import is_dedicated_file
from morrow.engine.format.manifest_entries import (
    ADD,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    DataFileMeta,
    IndexEntry,
    decode_column_stats,
    index_entries_of,
    to_data_files,
)
from morrow.engine.format.metadata_json import parse_object
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.names import ROW
from morrow.engine.plan.data_files import resolve_external_path
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.manifests import (
    list_changelog_manifests,
    list_delta_manifests,
    list_manifests,
    read_index_entries,
    read_manifest_entries,
)
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import mask_by_key, mask_by_value
from morrow.engine.plan.references import WRITTEN
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.engine.progress import advance
from morrow.engine.redaction import escape_to_line
from morrow.engine.units import format_count
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution import execute
from morrow.readers.execution.blob_columns import resolve_lazily
from morrow.readers.expressions.polars import filter_rows
from morrow.writers.append.column_files import FileGroup, GroupedFiles, group_files
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement
from morrow.writers.operations.write_session import plan_where
from morrow.writers.target import WriteTarget

MAX_FILES_AT_ONCE = 64
"""Maximum data files of a bucket that are searched together."""


class Holder(StrEnum):
    """The kinds of things that keep a file."""

    LIVE = "newest snapshot"
    TAG = "tag"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    UNREFERENCED = "unreferenced files"


@dataclass(frozen=True)
class Holding:
    """A snapshot, tag or changelog of a branch with rows for which a condition is true.

    `name` is the id of the snapshot or changelog, or the name of the tag. `rows` counts stored rows, including deleted
    and superseded ones, in `files`. `bounds` counts removed files whose statistics in manifests name such a value.
    Unreferenced files are listed without being read. `reason` says why the holding remains.
    """

    kind: Holder
    branch: str
    name: str
    files: tuple[str, ...] = ()
    rows: int = 0
    bounds: int = 0
    reason: str = ""

    def __str__(self) -> str:
        held = [format_count(len(self.files), "file")]
        held += [format_count(self.rows, "stored row")] if self.kind != Holder.UNREFERENCED else []
        held += [f"statistics of {format_count(self.bounds, 'removed file')}"] if self.bounds else []
        where = f"branch {self.branch}, " if self.branch else ""
        named = f"{self.kind} {self.name}".strip()
        return escape_to_line(f"{where}{named}: {', '.join(held)}" + (f" ({self.reason})" if self.reason else ""))


@dataclass(frozen=True)
class FilteredFiles(StoredFiles):
    """Reader of the columns of a condition, of all rows that are stored in files of a bucket."""

    filter: Filter = NO_FILTER

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        read = tuple(field for field in self.target.schema.fields if field.name in self.filter.columns)
        return read or self.target.schema.fields[:1]

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the number of matching rows of each file."""
        for start in range(0, len(self.files), MAX_FILES_AT_ONCE):
            group = self.files[start : start + MAX_FILES_AT_ONCE]
            frames = [filter_rows(self.filter, self.fields, self.lazy(file)).select(pl.len()) for file in group]
            for file, count in zip(group, self.collect(frames), strict=True):
                advance(files=1, rows=file.row_count)
                yield self._by_name[file.file_name].path, int(count.item())


@dataclass(frozen=True)
class FilteredGroups(GroupedFiles):
    """Reader of the columns of a condition, of all versions of the rows of groups."""

    filter: Filter = NO_FILTER

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        read = tuple(field for field in self.target.schema.fields if field.name in self.filter.columns)
        return read or self.target.schema.fields[:1]

    def count(self, group: FileGroup) -> tuple[list[str], int]:
        """Return the paths of the files of a group, and the number of its rows of which a version matches."""
        files, names = (*group.files, *group.beside), [each.name for each in self.fields]
        oldest = min(file.max_sequence_number for file in group.files)
        matching = []
        for last in sorted({max(file.max_sequence_number, oldest) for file in files}):
            held = [file for file in files if file.max_sequence_number <= last]
            frame = resolve_lazily(self.plan, self.stitch(held, self.fields), names, self.target.store)
            numbered = frame.with_row_index(ROW)
            matching += self.collect([filter_rows(self.filter, self.fields, numbered).select(ROW)])
        return [self._by_name[file.file_name].path for file in files], pl.concat(matching)[ROW].n_unique()


@dataclass
class RowSearch:
    """Search for stored rows in all roots of a branch; `files_read` and `rows_read` count what was read.

    `prunes`: whether files are skipped whose statistics exclude such rows.
    """

    target: WriteTarget
    filter: Filter
    prunes: bool = True
    files_read: int = 0
    rows_read: int = 0
    _found: dict[str, tuple[str, int]] = field(default_factory=dict)
    """File name -> path and number of matching rows."""
    _groups: dict[tuple[str, ...], tuple[list[str], int]] = field(default_factory=dict)
    """Names of the files of a group -> their paths, and the number of its rows that match."""

    @property
    def branch(self) -> str:
        return self.target.metadata.branch

    def holdings(self) -> Iterator[Holding]:
        """Yield the roots that hold such rows. Raises `FileMissing` if a root is removed meanwhile."""
        line = Line.of(self.target.metadata)
        newest = line.snapshot_ids[-1] if line.snapshot_ids else None
        for root in line.roots():
            own, changelog = self._list_entries(root)
            bounds = self._count_bounds(root, own)
            if root.kind == RootKind.SNAPSHOT and root.id == newest:
                yield from self._hold(Holder.LIVE, root, own)
                yield from self._hold(Holder.SNAPSHOT, root, changelog, bounds=bounds)
            else:
                yield from self._hold(Holder(root.kind), root, pl.concat([own, changelog]), bounds=bounds)

    def match(self, entries: pl.DataFrame) -> dict[str, tuple[str, int]]:
        """Return path and number of matching rows by name, of the files of entries that have any."""
        if self.target.options.data_evolution:
            return self._match_groups(entries)
        new = entries.filter(~entries["_FILE_NAME"].is_in(list(self._found))).unique("_FILE_NAME", maintain_order=True)
        self._found |= dict.fromkeys(new["_FILE_NAME"].to_list(), ("", 0))
        if self.prunes and new.height and self.filter.predicate != ALWAYS:
            new = new.filter(self._may_match(new))
        for (partition, bucket), group in _split_places(new):
            self._read(Placement(partition, bucket), to_data_files(group))
        names = entries["_FILE_NAME"].unique(maintain_order=True).to_list()
        return {name: self._found[name] for name in names if self._found[name][1]}

    def _match_groups(self, entries: pl.DataFrame) -> dict[str, tuple[str, int]]:
        """Return what `match` does, of the groups of entries; the first file of a group has the number of rows."""
        held: dict[str, tuple[str, int]] = {}
        for (partition, bucket), own in _split_places(entries):
            files = tuple(to_data_files(own))
            reader = FilteredGroups(self.target, Placement(partition, bucket), files, filter=self.filter)
            for group in group_files(files):
                names = tuple(file.file_name for file in (*group.files, *group.beside))
                if names not in self._groups:
                    self._groups[names] = reader.count(group)
                    self.files_read += len(names)
                    self.rows_read += group.end - group.first
                    advance(files=len(names), rows=group.end - group.first)
                paths, rows = self._groups[names]
                if rows:
                    held |= zip(names, zip(paths, (rows, *[0] * len(names))))
        self._found |= {name: (path, 1) for name, (path, _) in held.items()}
        return held

    def _read(self, place: Placement, files: Sequence[DataFileMeta]) -> None:
        """Count the matching rows of these files."""
        reader = FilteredFiles(self.target, place, tuple(files), filter=self.filter)
        for file, (path, rows) in zip(files, reader.counts(), strict=True):
            self._found[file.file_name] = path, rows
            self.files_read += 1
            self.rows_read += file.row_count

    def _may_match(self, entries: pl.DataFrame) -> pl.Series:
        target, predicate = self.target, self.filter.predicate
        mask = mask_by_key(target.metadata, target.schema, predicate, entries)
        values = mask_by_value(target.metadata, target.schema, target.options, predicate, entries)
        return mask if values is None else mask & values

    def _hold(self, kind: Holder, root: Root, entries: pl.DataFrame, *, bounds: int = 0) -> Iterator[Holding]:
        held = self.match(entries)
        rows = sum(rows for _, rows in held.values())
        if not rows and kind in (Holder.LIVE, Holder.TAG):
            rows = self._count_merged(root)
        paths = [path for path, _ in held.values()]
        if self.target.options.data_evolution and kind is not Holder.CHANGELOG:
            paths += self._list_index_paths(root.snapshot, entries, held)
        if rows or bounds or paths:
            yield Holding(kind, self.branch, root.name or str(root.id), tuple(paths), rows, bounds)

    def _count_merged(self, root: Root) -> int:
        """Return the number of merged rows that match although no stored row does, since a merge combines columns."""
        if not merges_columns(self.target, self.filter):
            return 0
        return execute.count(plan_where(self.target, root.snapshot, self.filter), self.target.store)

    def _list_entries(self, root: Root) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the entries of the files that a root needs: data files, then changelog files."""
        metadata, snapshot = self.target.metadata, root.snapshot
        own = changelog = _concat([])
        if root.keeps_data and root.kind == RootKind.CHANGELOG:
            delta = _concat(read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot)))
            own = delta.filter(delta["_FILE_SOURCE"].fill_null(WRITTEN) == WRITTEN)
        elif root.keeps_data:
            own = read_live_entries(metadata, snapshot, self.target.schema, None)
        if root.kind != RootKind.TAG and (listed := list_changelog_manifests(metadata, snapshot)) is not None:
            changelog = _concat(read_manifest_entries(metadata, listed))
            changelog = changelog.filter(changelog["_KIND"] == ADD)
        return own, changelog

    def _count_bounds(self, root: Root, live: pl.DataFrame) -> int:
        """Return the number of statistics that contain a matching value, of files that are not live."""
        metadata, snapshot = self.target.metadata, root.snapshot
        if not root.keeps_data or root.kind == RootKind.CHANGELOG:
            return 0
        entries = _concat(read_manifest_entries(metadata, list_manifests(metadata, snapshot)))
        gone = entries.filter(~entries["_FILE_NAME"].is_in(live["_FILE_NAME"].implode()))
        gone = gone.unique("_FILE_NAME", keep="first", maintain_order=True)
        known = sum(self._found.get(name, ("", 0))[1] > 0 for name in gone["_FILE_NAME"])
        gone = gone.filter(~gone["_FILE_NAME"].is_in([name for name, (_, rows) in self._found.items() if rows]))
        parts = [frame for _, group in gone.group_by(["_SCHEMA_ID"]) for frame in self._list_bounds(group)]
        parts += self._list_statistics(snapshot)
        return known + sum(self._count_named(frame) for frame in parts)

    @cached_property
    def _wanted(self) -> tuple[DataField, ...]:
        return tuple(field for field in self.target.schema.fields if field.name in self.filter.columns)

    def _count_named(self, values: Mapping[str, pl.Series]) -> int:
        """Return the number of rows of values for which the condition is true; unknown values are null."""
        known = {name: column for name, column in values.items() if column.null_count() < len(column)}
        if not known:
            return 0
        height = max(map(len, known.values()))
        columns = [
            (known[each.name] if each.name in known else pl.Series([None] * height))
            .cast(to_polars_dtype(each.type), strict=False)
            .alias(each.name)
            for each in self._wanted
        ]
        frame = pl.DataFrame(columns).filter(pl.any_horizontal(pl.all().is_not_null()))
        return int(filter_rows(self.filter, self._wanted, frame.lazy()).select(pl.len()).collect().item())

    def _list_bounds(self, entries: pl.DataFrame) -> Iterator[Mapping[str, pl.Series]]:
        """Yield the least, then the greatest values of the columns of the condition in files of one schema."""
        target, written = self.target, self.target.metadata.schema(entries["_SCHEMA_ID"][0])
        names = {field.id: field.name for field in written.fields}
        types = {field.name: field.type for field in written.fields}
        wanted = {each.name: names[each.id] for each in self._wanted if each.id in names}
        stats = entries["_VALUE_STATS"].struct
        found = decode_column_stats(
            stats.field("_MIN_VALUES"),
            stats.field("_MAX_VALUES"),
            stats.field("_NULL_COUNTS"),
            entries.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series(),
            types,
            list(wanted.values()),
            where=target.where,
        )
        fixed = self._decode(entries["_PARTITION"], written, written.partition_keys)
        for which, key in (("minimum", "_MIN_KEY"), ("maximum", "_MAX_KEY")):
            keys = self._decode(entries[key], written, written.trimmed_primary_keys)
            values = {name: getattr(each, which) for name, each in found.items()}
            bounds = {**{name: each for name, each in values.items() if each is not None}, **keys, **fixed}
            yield {name: bounds[stored] for name, stored in wanted.items() if stored in bounds}

    def _decode(self, rows: pl.Series, schema: TableSchema, names: Sequence[str]) -> Mapping[str, pl.Series]:
        if not names:
            return {}
        types = [schema.by_name[name].type for name in names]
        return dict(
            zip(names, decode_columns(rows, types, where=self.target.where, unrepresentable="null"), strict=True)
        )

    def _list_statistics(self, snapshot: Snapshot) -> Iterator[Mapping[str, pl.Series]]:
        """Yield the bounds in the statistics of ANALYZE."""
        if snapshot.statistics is None:
            return
        path = self.target.metadata.paths.statistics(snapshot.statistics)
        columns = parse_object(self.target.store.read(path), path).get("colStats")
        for which in ("min", "max"):
            known = {name: each.get(which) for name, each in (columns or {}).items()}
            yield {
                each.name: pl.Series([str(known[each.name])])
                for each in self._wanted
                if known.get(each.name) is not None
            }

    def find_held_indexes(self, snapshot: Snapshot, entries: pl.DataFrame, held: Collection[str]) -> list[IndexEntry]:
        """Return the global indexes that may hold such rows.

        `entries`, `held`: the live files of the snapshot, and the names of those with such rows.
        """
        index = read_index_entries(self.target.metadata, snapshot)
        if index is None or not self.target.options.data_evolution:
            return []
        touched = set(entries.filter(entries["_FILE_NAME"].is_in([*held]))["_PARTITION"])
        found = index_entries_of(index.filter(index["_GLOBAL_INDEX"].is_not_null()))
        return [each for each in found if each.partition in touched or _has_other_ids(each, entries)]

    def _list_index_paths(self, snapshot: Snapshot, entries: pl.DataFrame, held: Collection[str]) -> Iterator[str]:
        """Yield the paths of the files of such indexes."""
        metadata, options = self.target.metadata, self.target.options
        for each in self.find_held_indexes(snapshot, entries, held):
            name, outside = each.file.file_name, each.file.external_path
            yield metadata.paths.index(name) if outside is None else resolve_external_path(metadata, options, outside)


def _has_other_ids(index: IndexEntry, entries: pl.DataFrame) -> bool:
    """Return whether an index has row ids that the live files of its partition lack."""
    about = index.file.global_index
    assert about is not None
    own = entries.filter(entries["_PARTITION"] == pl.lit(index.partition, pl.Binary)).drop_nulls("_FIRST_ROW_ID")
    dedicated = pl.Series(map(is_dedicated_file, own["_FILE_NAME"]), dtype=pl.Boolean)
    first, stop = pl.col("_FIRST_ROW_ID"), pl.col("_FIRST_ROW_ID") + pl.col("_ROW_COUNT")
    low, end = about.row_range_start, about.row_range_end + 1
    shared = pl.min_horizontal(stop, pl.lit(end)) - pl.max_horizontal(first, pl.lit(low))
    ranges = own.filter(~dedicated).unique("_FIRST_ROW_ID")
    return int(ranges.select(shared.clip(lower_bound=0).sum()).item()) < end - low


def _split_places(entries: pl.DataFrame) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Return the entries by partition and bucket."""
    return entries.partition_by(["_PARTITION", "_BUCKET"], maintain_order=True, as_dict=True).items()


def merges_columns(target: WriteTarget, filter: Filter) -> bool:
    """Return whether a merged row may match a condition that none of its stored versions matches."""
    folds = target.merge is not None and target.merge.folds
    return folds and not filter.columns <= {*target.schema.primary_keys}


def _concat(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame(schema={**ENTRY_COLUMNS, **FILE_COLUMNS})
