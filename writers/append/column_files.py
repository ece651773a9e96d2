"""Files of some columns of a data-evolution table: updates of columns, and compaction.

A group is the set of files with the same row ids. An update reads the current values of the columns of all its rows,
deleted ones too, puts the new values in their places, and writes one file. Its larger sequence number makes it the
source of these columns.

A compaction joins the files of a group, and groups whose row ids follow each other, to one file with the same row ids.
Deleted rows stay, since positions are row ids; their deletion vector moves to the new file. Files of BLOBs and vectors
stay as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.deletion_vectors import INDEX_TYPE, DeletionVector
from morrow.engine.format.file_formats import is_dedicated_file
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource, IndexFileMeta
from morrow.engine.format.types import DataField
from morrow.engine.names import get_series
from morrow.engine.options import WriteOptions
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.execution.blob_columns import ask_descriptors, is_dedicated, resolve_lazily
from morrow.readers.execution.section_frames import stitch_columns
from morrow.readers.files.file_frames import collect_batches, list_written_fields, translate_file_errors
from morrow.readers.masks import Mask
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets.routers import BucketState
from morrow.writers.files.blob_files import list_filed_vectors, write_blob_update, write_vectors
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

Positions = npt.NDArray[np.int64]
WHOLE_FILE = 1 << 62
"""Target size of a file that holds all rows of its group."""


@dataclass
class GroupUpdate:
    """New values of columns in rows of a group, by position; `file` is one of its data files."""

    place: Placement
    file: DataFileMeta
    section: Section
    parts: list[tuple[Positions, pl.DataFrame]] = field(default_factory=list)

    def add(self, positions: Positions, rows: pl.DataFrame) -> None:
        """Set columns of rows; a row may be set several times, with different columns."""
        self.parts.append((positions, rows))

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(name for _, rows in self.parts for name in rows.columns)


def write_updated_columns(target: WriteTarget, group: GroupUpdate, plan: ScanPlan) -> list[DataFileMeta]:
    """Write the updated columns of a group to one file, and BLOB columns to blob files with placeholders.

    VECTOR columns that have files of their own get a new file of vectors: Paimon's readers would prefer the old file of
    vectors to new vectors in a data file. `plan` is a plan that has the section of the group.

    Raises: as reading and writing files.
    """
    blobs = [each for each in target.filed_blobs if each.name in group.columns]
    fields = tuple(each for each in target.schema.fields if each.name in group.columns and each not in blobs)
    held = {
        each.id for file in group.section.files if not is_dedicated(file) for each in list_written_fields(plan, file)
    }
    vectors = tuple(each for each in list_filed_vectors(target, fields) if each.id not in held)
    written: list[DataFileMeta] = []
    for columns in (tuple(each for each in fields if each not in vectors), vectors):
        if columns:
            written += _write_whole_columns(target, group, plan, columns, filed=columns is vectors)
    for each in blobs:
        parts = [(positions, rows[each.name]) for positions, rows in group.parts if each.name in rows.columns]
        written += write_blob_update(target, group.place, each, parts, group.file.first_row_id or 0)
    return written


def _write_whole_columns(
    target: WriteTarget, group: GroupUpdate, plan: ScanPlan, fields: tuple[DataField, ...], *, filed: bool
) -> list[DataFileMeta]:
    """Write the columns of all rows of a group to one file, or to one file of vectors if they are `filed`."""
    with translate_file_errors(plan, [group.section], fields, target.store):
        old = stitch_columns(plan, group.section, fields, (), target.store).collect()
    if old.height != group.file.row_count:
        problem = f"{old.height} rows in the files of a group, not the {group.file.row_count} of its metadata"
        raise CorruptFile(group.section.files[0].path, problem)
    new = pl.DataFrame([_set_values(old, each.name, group) for each in fields])
    source, first = FileSource.APPEND, group.file.first_row_id
    if filed:
        files = write_vectors(target, group.place, iter([new]), fields, WHOLE_FILE)
    else:
        files = write_files(write_whole(target), group.place, [new], level=0, source=source, columns=fields)
    return [msgspec.structs.replace(file, first_row_id=first) for file in files]


def write_whole(target: WriteTarget) -> WriteTarget:
    """Return the table with files of any size."""
    return replace(target, write=replace(target.write, target_file_size=WHOLE_FILE))


def _set_values(old: pl.DataFrame, name: str, group: GroupUpdate) -> pl.Series:
    """Return a column with the new values."""
    stored = get_series(old, name)
    parts = [(positions, get_series(rows, name)) for positions, rows in group.parts if name in rows.columns]
    values = pl.concat([stored, *(each.cast(stored.dtype) for _, each in parts)])
    places = np.arange(old.height, dtype=np.int64)
    places[np.concatenate([positions for positions, _ in parts])] = np.arange(old.height, len(values))
    return values.gather(places).alias(name)


# --- compaction ---

BATCH_ROWS = 1 << 17
"""Rows read at once."""


@dataclass(frozen=True)
class FileGroup:
    """Data files with the same row ids. `beside` are the files of BLOBs and vectors of these rows."""

    files: tuple[DataFileMeta, ...]
    beside: tuple[DataFileMeta, ...] = ()

    @property
    def first(self) -> int:
        return self.files[0].first_row_id or 0

    @property
    def end(self) -> int:
        """The row id after the last one."""
        return self.first + self.files[0].row_count

    @cached_property
    def size(self) -> int:
        return sum(file.file_size for file in self.files)


def group_files(files: Sequence[DataFileMeta]) -> list[FileGroup]:
    """Return the groups of data files, in the order of their row ids."""
    normal = [file for file in files if not is_dedicated_file(file.file_name) and file.first_row_id is not None]
    ordered = sorted(normal, key=lambda file: (file.first_row_id, file.row_count))
    groups = [tuple(group) for _, group in groupby(ordered, key=lambda file: (file.first_row_id, file.row_count))]
    starts = [group[0].first_row_id or 0 for group in groups]
    beside: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        if is_dedicated_file(file.file_name):
            beside[bisect_right(starts, file.first_row_id or 0) - 1].append(file)
    return [FileGroup(group, tuple(beside[number])) for number, group in enumerate(groups)]


def split_runs(groups: Sequence[FileGroup], options: WriteOptions) -> list[list[FileGroup]]:
    """Return runs of groups that become one file each: with consecutive row ids, up to the target size."""
    runs: list[list[FileGroup]] = []
    size = 0
    for group in groups:
        if not runs or runs[-1][-1].end != group.first or size >= options.target_file_size:
            runs.append([])
            size = 0
        runs[-1].append(group)
        size += group.size
    return runs


def pick_group_packs(
    target: WriteTarget, files: Sequence[DataFileMeta], index_files: Sequence[IndexFileMeta], small: int, *, full: bool
) -> list[tuple[DataFileMeta, ...]]:
    """Return the files of each rewrite of a partition; no two share an index file.

    Groups of several files are joined, and small groups beside each other. Without `full`, a rewrite has
    ``compaction.min.file-num`` files, or as many bytes as the target size.

    Args:
        small: the size in bytes below which a file is small.
    """
    options = target.write
    everything = full and options.force_rewrite_all
    wanted = [g for g in group_files(files) if everything or len(g.files) > 1 or g.size < small]
    packs: list[tuple[DataFileMeta, ...]] = []
    for run in split_runs(wanted, options):
        found = tuple(file for group in run for file in group.files)
        enough = len(found) >= options.append_min_files or sum(g.size for g in run) >= options.target_file_size
        if everything or (len(found) > 1 and (full or enough)):
            packs.append(found)
    return _join_by_index_file(packs, index_files)


def _join_by_index_file(
    packs: Sequence[tuple[DataFileMeta, ...]], index_files: Sequence[IndexFileMeta]
) -> list[tuple[DataFileMeta, ...]]:
    """Join packs whose deletion vectors are in one index file."""
    vectors = (file for file in index_files if file.index_type == INDEX_TYPE)
    holder = {entry.data_file: file.file_name for file in vectors for entry in file.deletion_ranges or ()}
    joined: list[tuple[set[str], tuple[DataFileMeta, ...]]] = []
    for pack in packs:
        held = {holder[file.file_name] for file in pack if file.file_name in holder}
        same = [each for each in joined if each[0] & held]
        joined = [each for each in joined if not each[0] & held]
        joined.append((held.union(*(each[0] for each in same)), (*(f for each in same for f in each[1]), *pack)))
    return [pack for _, pack in joined]


def rewrite_groups(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], vectors: DeletionMaintainer | None
) -> Iterator[DataFileMeta]:
    """Yield new files for all groups of these files, durable; move their deletion vectors.

    Raises:
        CorruptFile, FileMissing: a file cannot be read. StorageError.
    """
    for run in split_runs(group_files(files), target.write):
        yield (written := _rewrite_run(target, place, run))
        for group in run if vectors is not None else ():
            assert vectors is not None
            for file in group.files:
                dead = vectors.vector(file.file_name)
                vectors.remove(file.file_name)
                if dead is not None:
                    moved = dead.positions() + (group.first - run[0].first)
                    vectors.merge(written.file_name, DeletionVector.from_positions(moved))


def _rewrite_run(target: WriteTarget, place: Placement, run: Sequence[FileGroup]) -> DataFileMeta:
    files = tuple(file for group in run for file in group.files)
    stored = GroupedFiles(target, place, files)
    rows = sum(group.end - group.first for group in run)
    sequences = min(file.min_sequence_number for file in files), max(file.max_sequence_number for file in files)
    frames = (rows for group in run for rows in stored.frames(group))
    (written,) = write_files(
        write_whole(target),
        place,
        frames,
        level=0,
        source=FileSource.COMPACT,
        sequences=sequences,
        columns=stored.fields,
    )
    if written.row_count != rows:
        raise CorruptFile(target.where, f"{written.row_count} rows in {files[0].file_name} and others, not {rows}")
    return msgspec.structs.replace(written, first_row_id=run[0].first)


def rewrite_live_rows(
    target: WriteTarget,
    place: Placement,
    groups: Sequence[FileGroup],
    vectors: DeletionMaintainer,
    choose: Callable[[Iterable[pl.DataFrame]], Iterable[pl.DataFrame]] = iter,
    compared: Collection[str] = (),
) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
    """Write the live rows of groups to new files, whose rows get new ids; drop the vectors.

    BLOBs are copied from file to file.

    Args:
        choose: returns the rows to write among frames of rows, which hold descriptors instead of BLOBs.
        compared: columns whose BLOBs `choose` needs.

    Returns: the files of the groups, and the new files, durable.

    Raises:
        CorruptFile, FileMissing: a file cannot be read. StorageError. After any error, no new file is left.
    """
    before = [file for group in groups for file in (*group.files, *group.beside)]
    whole = replace(target.write, write_only=True, null_on_missing_blob=False, null_on_failing_blob=False)
    stored = GroupedFiles(target, place, tuple(before))
    writer = AppendWriter(replace(target, write=whole), place, BucketState(), None)
    try:
        for rows in choose(rows for group in groups for rows in stored.live_frames(group, vectors, compared)):
            writer.write(rows)
            if writer.buffered_bytes > target.write.write_buffer:
                writer.spill()
        after = writer.prepare_commit().new_files
    finally:
        writer.close()
    for file in before:
        vectors.remove(file.file_name)
    return before, [*after]


class GroupedFiles(StoredFiles):
    """Reader of the rows of groups, deleted ones too, in the columns that any of the files holds."""

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        held = {each.id for file in self._by_name.values() for each in list_written_fields(self.plan, file)}
        return tuple(field for field in self.target.schema.fields if field.id in held)

    def frames(self, group: FileGroup) -> Iterator[pl.DataFrame]:
        """Yield the rows of a group without the files beside it, one batch in memory at a time."""
        yield from self._read(self.stitch(group.files, self.fields))

    def stitch(
        self, files: Sequence[DataFileMeta], fields: tuple[DataField, ...], masks: Sequence[Mask] = ()
    ) -> pl.LazyFrame:
        """Return the rows of these files of a group, with references in BLOB columns."""
        held = tuple(self._by_name[file.file_name] for file in files)
        section = msgspec.structs.replace(self.section, kind=SectionKind.STITCH, files=held)
        return stitch_columns(self.plan, section, fields, masks, self.target.store)

    def _read(self, frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        with translate_file_errors(self.plan, [self.section], self.fields, self.target.store):
            yield from collect_batches(frame, BATCH_ROWS)

    def live_frames(
        self, group: FileGroup, vectors: DeletionMaintainer, values: Collection[str]
    ) -> Iterator[pl.DataFrame]:
        """Yield the live rows of a group in the table's columns. BLOB columns other than `values` have descriptors."""
        live = np.ones(group.end - group.first, bool)
        for file in group.files:
            dead = vectors.vector(file.file_name)
            if dead is not None:
                live &= np.asarray(dead.live(len(live)))
        store, filed = self.target.store, [each.name for each in self.target.filed_blobs]
        masks = () if live.all() else (pl.Series(live),)
        frame = self.stitch((*group.files, *group.beside), self.target.schema.fields, masks)
        frame = resolve_lazily(self.plan, frame, [name for name in filed if name in values], store)
        frame = resolve_lazily(ask_descriptors(self.plan), frame, [name for name in filed if name not in values], store)
        count = 0
        for rows in self._read(frame):
            count += rows.height
            yield rows
        if count != (wanted := int(live.sum())):
            raise CorruptFile(self._by_name[group.files[0].file_name].path, f"{count} live rows, not {wanted}")
