"""Building and dropping of global indexes of tables with row ids: btree, bitmap, vectors and full-text.

An index is built from the rows of one snapshot, for the row ids that no file of the index covers yet. Files whose rows
were written since they were built are replaced. Each file is about at most ``sorted-index.records-per-range`` rows of
one partition (vectors and full-text: ``global-index.row-count-per-shard``), which are in memory while it is built. At
commit, the newest snapshot must still have these rows, with
the same values of the column. Java: `SortedGlobalIndexWriter`, `CreateGlobalIndexProcedure`,
`DropGlobalIndexProcedure`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import polars as pl

from morrow.engine.errors import CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import GlobalIndexMeta, IndexEntry, IndexFileMeta, index_entries_of
from morrow.engine.format.schema import ROW_ID
from morrow.engine.format.search_indexes import (
    SEARCH_INDEXES,
    TEXT_INDEX,
    VECTOR_INDEXES,
    is_search_indexable,
    write_text_index,
    write_vector_index,
)
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.sorted_indexes import BTREE, SORTED_INDEXES, is_indexable, write_index_file
from morrow.engine.format.types import DataField
from morrow.engine.options import Options
from morrow.engine.options.declared.features import (
    BITMAP_INDEX_COMPRESSION,
    BITMAP_INDEX_DICTIONARY_BLOCK_SIZE,
    BTREE_INDEX_BLOCK_SIZE,
    BTREE_INDEX_COMPRESSION,
    GLOBAL_INDEX_EXTERNAL_PATH,
    GLOBAL_INDEX_ROW_COUNT_PER_SHARD,
    SORTED_INDEX_RECORDS_PER_RANGE,
)
from morrow.engine.options.table_options import choose_text_options, choose_vector_options
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.global_indexes import (
    NOTHING,
    Ints,
    Ranges,
    combine_ranges,
    divide_ranges,
    find_fresh_ranges,
    invert_ranges,
    list_index_parts,
    list_row_ids,
    serialize_source,
)
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.execution import execute
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import Premise, guard_read
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.operations.partition_filters import AnyOf, build_partition_filter, filter_partitions
from morrow.writers.operations.write_session import commit_once, plan_where
from morrow.writers.target import WriteTarget

INDEX_TYPES = (*SORTED_INDEXES, *SEARCH_INDEXES)
FILE_PREFIXES = {index_type: f"vector-{index_type}" for index_type in VECTOR_INDEXES}
COLUMNS_OF = {
    **dict.fromkeys(SORTED_INDEXES, "numbers, text, booleans, dates or times"),
    TEXT_INDEX: "STRING, CHAR or VARCHAR",
}
ADVICE = "nothing was changed: build the index again"


@dataclass(frozen=True)
class ChangedIndex:
    """The number of index files that were added or dropped, and the snapshot; None if nothing was to be done."""

    files: int
    snapshot: Snapshot | None


@dataclass(frozen=True)
class _Unchanged(Premise):
    """The condition that the newest snapshot has the indexed rows, with the values that were read."""

    column: DataField | None = None
    index_type: str = BTREE
    built: Mapping[bytes, Ranges] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    def check(self, target: WriteTarget, latest: Snapshot | None) -> None:
        read, metadata, column = self.read, target.metadata, self.column
        if latest == read:
            return
        assert read is not None
        assert column is not None
        if latest is None or latest.id < read.id or metadata.snapshot_or_none(read.id) not in (None, read):
            raise CommitConflict(f"{target.where}: the table was rolled back while it was indexed; {ADVICE}")
        live = read_live_entries(metadata, latest, target.schema, set(self.built))
        others = list_index_parts(metadata, target.options, latest, INDEX_TYPES)
        for partition, ranges in self.built.items():
            files = live.filter(pl.col("_PARTITION") == pl.lit(partition, pl.Binary))
            fresh = find_fresh_ranges(metadata, column.id, files, read.id)
            if len(combine_ranges([ranges, invert_ranges(combine_ranges([fresh, list_row_ids(files)], 2))], 2)):
                raise CommitConflict(f"{target.where}: rows were changed while they were indexed; {ADVICE}")
            same = [each for each in others.get(partition, []) if (each.field_id, each.index_type) == self._kind]
            there = [[p.first, p.stop] for p in same if p.path.rpartition("/")[2] not in self.dropped]
            if len(combine_ranges([ranges, combine_ranges([np.array(there, np.int64).reshape(-1, 2)], 1)], 2)):
                raise CommitConflict(f"{target.where}: the column was indexed meanwhile; {ADVICE}")

    @property
    def _kind(self) -> tuple[int, str]:
        assert self.column is not None
        return self.column.id, self.index_type


def create_global_index(
    target: WriteTarget,
    column: str,
    index_type: str,
    partition: AnyOf,
    where: FilterLike | None,
    options: Mapping[str, str],
) -> ChangedIndex:
    """Build an index of a column; see `Table.create_global_index`."""
    index_type = index_type.strip().lower()
    indexed = _check_index(target, column, index_type)
    given = Options({**target.write.given.raw, **options}, target.where)
    _check_options(target, given, index_type, indexed)
    chosen = build_partition_filter(target, partition, where, "create_global_index")

    def attempt() -> ChangedIndex:
        snapshot = target.metadata.latest_snapshot()
        if snapshot is None:
            return ChangedIndex(0, None)
        plan = plan_where(target, snapshot, chosen, (indexed.name, ROW_ID))
        builder = _Builder(target, snapshot, plan, indexed, index_type, given)
        messages, premise = builder.build()
        if not messages:
            return ChangedIndex(0, None)
        commits = commit_with_maintenance(target)
        done = commit_once(commits, messages, BATCH_COMMIT_IDENTIFIER, premise=premise)
        return ChangedIndex(sum(len(message.new_index_files) for message in messages), done)

    return retry_on_conflict(target, attempt)


def _check_index(target: WriteTarget, column: str, index_type: str) -> DataField:
    if index_type not in INDEX_TYPES:
        raise Unsupported(
            f"building an index of the type {index_type!r}",
            where=target.where,
            hint=f"choose one of {', '.join(INDEX_TYPES)}",
        )
    if not target.options.row_tracking or target.keyed:
        raise Unsupported(
            "a global index of a table without row ids",
            where=target.where,
            hint="create an append table with row-tracking.enabled = true",
        )
    names = [name.strip() for name in column.split(",") if name.strip()]
    if len(names) != 1:
        raise Unsupported(f"an index of several columns ({column!r})", where=target.where, hint="index one column")
    found = target.schema.column(names[0])
    if found.name in target.schema.partition_keys:
        raise InvalidArgument(f"{target.where}: {found.name!r} is a partition column; partitions need no index")
    is_fit = is_indexable(found.type) if index_type in SORTED_INDEXES else is_search_indexable(index_type, found)
    if not is_fit:
        raise Unsupported(
            f"a {index_type} index of {found.name!r}, which is {found.type},",
            where=target.where,
            hint=f"index a column of {COLUMNS_OF.get(index_type, 'VECTOR<FLOAT, n> or ARRAY<FLOAT>')}",
        )
    return found


def _check_options(target: WriteTarget, options: Options, index_type: str, column: DataField) -> None:
    if index_type == TEXT_INDEX:
        choose_text_options(options)
    elif index_type in VECTOR_INDEXES:
        choose_vector_options(index_type, column.name, options)
    for option in (BTREE_INDEX_COMPRESSION, BITMAP_INDEX_COMPRESSION):
        if options.get(option) != "none":
            raise Unsupported(f"the compression of indexes by {option}", where=target.where, hint="set it to none")
    for number in (SORTED_INDEX_RECORDS_PER_RANGE, GLOBAL_INDEX_ROW_COUNT_PER_SHARD):
        if options.get(number) < 1:
            raise InvalidArgument(f"{target.where}: {number} is a number of 1 or more")
    if options.get(GLOBAL_INDEX_EXTERNAL_PATH) is not None or target.options.index_in_data_dir:
        raise Unsupported(
            "building global indexes in other folders than the table's folder of indexes",
            where=target.where,
            hint=f"remove {GLOBAL_INDEX_EXTERNAL_PATH} and index-file-in-data-file-dir",
        )


@dataclass(frozen=True)
class _Builder:
    """The building of an index from a snapshot. `plan` has the column and the row ids of the chosen partitions."""

    target: WriteTarget
    snapshot: Snapshot
    plan: ScanPlan
    column: DataField
    index_type: str
    options: Options

    def build(self) -> tuple[list[CommitMessage], Premise]:
        """Write the index files; return their messages and the condition of the commit. Errors leave no file."""
        target, messages = self.target, list[CommitMessage]()
        built: dict[bytes, Ranges] = {}
        stale = self._find_stale()
        try:
            with guard_read(target.metadata, self.snapshot):
                for partition, sections in self._group_sections().items():
                    wanted = combine_ranges([_span_ranges(sections), invert_ranges(self._find_covered(partition))], 2)
                    gone = tuple(entry.file for entry in stale if entry.partition == partition)
                    message = CommitMessage(partition=partition, bucket=0, total_buckets=target.options.bucket)
                    message = msgspec.structs.replace(message, deleted_index_files=gone)
                    messages.append(message)
                    if len(wanted):
                        built[partition] = wanted
                    is_sorted = self.index_type in SORTED_INDEXES
                    most = SORTED_INDEX_RECORDS_PER_RANGE if is_sorted else GLOBAL_INDEX_ROW_COUNT_PER_SHARD
                    for first, stop in divide_ranges(wanted, self.options.get(most)):
                        written = self._write(sections, first, stop)
                        files = (*messages[-1].new_index_files, *([] if written is None else [written]))
                        messages[-1] = msgspec.structs.replace(messages[-1], new_index_files=files)
        except BaseException:
            TableCommit(target).abort(messages)
            raise
        dropped = frozenset(entry.file.file_name for entry in stale)
        premise = _Unchanged(
            self.snapshot, column=self.column, index_type=self.index_type, built=built, dropped=dropped
        )
        return [message for message in messages if not message.is_empty], premise

    def _group_sections(self) -> dict[bytes, list[Section]]:
        """Return the sections of rows with ids, of one file or of stitched files each, by partition."""
        found: dict[bytes, list[Section]] = {}
        for section in self.plan.sections:
            for part in _split_files(section):
                if part.files[part.marked_file].first_row_id is not None:
                    found.setdefault(part.partition_row, []).append(part)
        return found

    def _list_parts(self, partition: bytes) -> list[tuple[int, int, int | None, str]]:
        found = list_index_parts(self.target.metadata, self.target.options, self.snapshot, INDEX_TYPES)
        parts = found.get(partition, [])
        own = (part for part in parts if (part.field_id, part.index_type) == (self.column.id, self.index_type))
        return [(part.first, part.stop, part.scanned, part.path.rpartition("/")[2]) for part in own]

    def _find_stale(self) -> list[IndexEntry]:
        """Return the files of the index whose rows were written since they were built."""
        entries = read_index_entries(self.target.metadata, self.snapshot)
        if entries is None:
            return []
        partitions = {section.partition_row for section in self.plan.sections}
        names = {name for partition in partitions for name, fresh in self._judge_parts(partition) if not len(fresh)}
        return index_entries_of(entries.filter(pl.col("_FILE_NAME").is_in(sorted(names))))

    def _find_covered(self, partition: bytes) -> Ranges:
        return combine_ranges([NOTHING, *(fresh for _, fresh in self._judge_parts(partition))], 1)

    def _judge_parts(self, partition: bytes) -> Iterator[tuple[str, Ranges]]:
        """Yield the name and the range of each file of the index; without a range if a row was written since."""
        live = read_live_entries(self.target.metadata, self.snapshot, self.target.schema, {partition})
        for first, stop, scanned, name in self._list_parts(partition):
            about = np.array([[first, stop]], np.int64)
            if scanned is not None:
                fresh = find_fresh_ranges(self.target.metadata, self.column.id, live, scanned)
                if len(combine_ranges([about, invert_ranges(fresh)], 2)):
                    about = NOTHING
            yield name, about

    def _write(self, sections: Sequence[Section], first: int, stop: int) -> IndexFileMeta | None:
        """Write the index file of a range of row ids; return None if no row has a vector."""
        rows = self._read(sections, first, stop)
        data, meta = self._encode(rows[self.column.name], rows[ROW_ID].to_numpy() - first)
        if data is None:
            return None
        about = GlobalIndexMeta(first, stop - 1, self.column.id, None, meta, serialize_source(self.snapshot.id))
        prefix = FILE_PREFIXES.get(self.index_type, self.index_type)
        file = IndexFileMeta(
            index_type=self.index_type,
            file_name=f"{prefix}-global-index-{uuid.uuid4()}.index",
            file_size=len(data),
            row_count=rows.height,
            global_index=about,
        )
        self.target.store.write(self.target.metadata.paths.index(file.file_name), data)
        return file

    def _encode(self, values: pl.Series, rows: Ints) -> tuple[bytes | None, bytes]:
        column, kind = self.column, self.index_type
        if kind == TEXT_INDEX:
            return write_text_index(values, rows, choose_text_options(self.options), self.target.where)
        if kind in VECTOR_INDEXES:
            native, ratio = choose_vector_options(kind, column.name, self.options)
            return write_vector_index(kind, values, rows, column, native, ratio, self.target.where), b"{}"
        option = BTREE_INDEX_BLOCK_SIZE if kind == BTREE else BITMAP_INDEX_DICTIONARY_BLOCK_SIZE
        return write_index_file(kind, values, rows, column.type, self.options.get(option))

    def _read(self, sections: Sequence[Section], first: int, stop: int) -> pl.DataFrame:
        """Return the column and the row ids of rows in this range of ids, in their order."""
        parts = []
        for section in sections:
            begin, end = section.read_rows
            start = section.files[section.marked_file].first_row_id or 0
            low, high = max(begin, first - start), min(end, stop - start)
            if low < high:
                parts.append(section.with_rows(low, high))
        found = execute.to_polars(replace(self.plan, sections=tuple(parts)), self.target.store)
        return found.sort(ROW_ID)


def _split_files(section: Section) -> Iterator[Section]:
    """Yield sections whose rows have adjacent ids: the files of a RAW section, or the whole section."""
    if section.kind is not SectionKind.RAW:
        yield section
        return
    yield from (msgspec.structs.replace(section, files=(file,)) for file in section.files)


def _span_ranges(sections: Sequence[Section]) -> Ranges:
    files = [section.files[section.marked_file] for section in sections]
    spans = [[file.first_row_id, (file.first_row_id or 0) + file.row_count] for file in files if file.row_count]
    return combine_ranges([np.array(spans, np.int64).reshape(-1, 2)], 1)


def drop_global_index(
    target: WriteTarget, column: str, index_type: str, partition: AnyOf, where: FilterLike | None, *, dry_run: bool
) -> ChangedIndex:
    """Drop the files of an index; see `Table.drop_global_index`."""
    names = [name.strip() for name in column.split(",") if name.strip()]
    if not names:
        raise InvalidArgument(f"{target.where}: drop_global_index needs the name of a column")
    ids = [target.schema.column(name).id for name in names]
    kind = index_type.strip().lower()
    chosen = build_partition_filter(target, partition, where, "drop_global_index")

    def attempt() -> ChangedIndex:
        snapshot = target.metadata.latest_snapshot()
        index = None if snapshot is None else read_index_entries(target.metadata, snapshot)
        if index is None:
            return ChangedIndex(0, None)
        own = index.filter(pl.col("_GLOBAL_INDEX").is_not_null(), pl.col("_INDEX_TYPE") == kind)
        partitions = set(filter_partitions(target, own["_PARTITION"].unique(), chosen))
        found = [
            entry
            for entry in index_entries_of(own)
            if entry.partition in partitions
            and entry.file.global_index is not None
            and entry.file.global_index.ids == ids
        ]
        if dry_run or not found:
            return ChangedIndex(len(found), None)
        messages = [
            CommitMessage(
                partition=entry.partition,
                bucket=entry.bucket,
                total_buckets=target.options.bucket,
                deleted_index_files=(entry.file,),
            )
            for entry in found
        ]
        done = commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER)
        return ChangedIndex(len(found), done)

    return retry_on_conflict(target, attempt)
