"""Files of some columns of a data-evolution table: updates of columns, and compaction.

A group is the set of files with the same row ids. An update reads the current values of the columns of all its rows,
deleted ones too, puts the new values in their places, and writes one file. Its larger sequence number makes it the
source of these columns.

A compaction joins the files of a group, and groups whose row ids follow each other, to one file with the same row ids.
Deleted rows stay, since positions are row ids; their deletion vector moves to the new file. Files of vectors are
joined, too, since pypaimon reads only one of them beside a data file. Files of BLOBs stay without
``blob-compaction.enabled``.
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
from morrow.engine.format.file_formats import VECTOR_INFIX, is_dedicated_file
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
from morrow.writers.files.blob_files import list_filed_vectors, write_blob_column, write_blob_update, write_vectors
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

    VECTOR columns that have files of their own get a new file of vectors, unless a data file of the group holds them:
    readers prefer data files to files of vectors. `plan` is a plan that has the section of the group.

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

    `small`: the size in bytes below which a file is small.
    """
    options = target.write
    everything = full and options.force_rewrite_all
    groups = group_files(files)
    wanted = [g for g in groups if everything or g.size < small or len(_list_joinable(target, [g])) > 1]
    packs: list[tuple[DataFileMeta, ...]] = []
    for run in split_runs(wanted, options):
        joined = _list_joinable(target, run)
        enough = len(joined) >= options.append_min_files or sum(g.size for g in run) >= options.target_file_size
        if everything or (len(joined) > 1 and (full or enough)):
            packs.append(tuple(dict.fromkeys((*joined, *list_vectors(run)))))
    return _join_by_index_file(packs, index_files)


def _list_joinable(target: WriteTarget, run: Sequence[FileGroup]) -> list[DataFileMeta]:
    """Return the files of groups that are worth a rewrite if there are several."""
    vectors = list_vectors(run)
    files = [file for group in run for file in group.files]
    return [*files, *(vectors if len(vectors) > len(run) else ()), *_pick_blobs(target, run)]


def list_vectors(run: Sequence[FileGroup]) -> list[DataFileMeta]:
    """Return the files of vectors beside groups."""
    return [file for group in run for file in group.beside if VECTOR_INFIX in file.file_name]


def _pick_blobs(target: WriteTarget, run: Sequence[FileGroup]) -> list[DataFileMeta]:
    """Return the blob files beside groups that fewer files of the target size can replace, all of a column or none."""
    if not target.write.blob_compaction:
        return []
    most = target.write.blob_target_file_size or target.write.target_file_size
    found = _split_by_column(target, run).values()
    several = (files for files in found if len(files) > 1 + sum(file.file_size for file in files) // most)
    return [file for files in several for file in files]


def _split_by_column(target: WriteTarget, run: Sequence[FileGroup]) -> dict[DataField, list[DataFileMeta]]:
    """Return the blob files beside groups by their column."""
    found: dict[DataField, list[DataFileMeta]] = defaultdict(list)
    for file in (file for group in run for file in group.beside):
        ids = {each.name: each.id for each in target.metadata.schema(file.schema_id).fields}
        written = {ids.get(name) for name in file.write_cols or ()}
        for blob in target.filed_blobs:
            if {blob.id} == written:
                found[blob].append(file)
    return found


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

    Raises `CorruptFile`, `FileMissing`: a file cannot be read. `StorageError`.
    """
    for run in split_runs(group_files(files), target.write):
        yield (written := _rewrite_run(target, place, run))
        yield from _rewrite_vectors(target, place, run)
        yield from _rewrite_blobs(target, place, run)
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
    vectors = GroupedFiles(target, place, tuple(list_vectors(run))).fields
    stored = GroupedFiles(target, place, files)
    fields = tuple(each for each in stored.fields if each not in vectors)
    rows = sum(group.end - group.first for group in run)
    sequences = min(file.min_sequence_number for file in files), max(file.max_sequence_number for file in files)
    frames = (rows for group in run for rows in stored.frames(group.files, fields))
    (written,) = write_files(
        write_whole(target),
        place,
        frames,
        level=0,
        source=FileSource.COMPACT,
        sequences=sequences,
        columns=fields,
    )
    if written.row_count != rows:
        raise CorruptFile(target.where, f"{written.row_count} rows in {files[0].file_name} and others, not {rows}")
    return msgspec.structs.replace(written, first_row_id=run[0].first)


def _rewrite_vectors(target: WriteTarget, place: Placement, run: Sequence[FileGroup]) -> list[DataFileMeta]:
    """Return one new file of the VECTOR columns that have files beside groups; its rows are those of the groups."""
    vectors = list_vectors(run)
    fields = GroupedFiles(target, place, tuple(vectors)).fields
    if not fields:  # none, or of dropped columns alone
        return []
    stored = GroupedFiles(target, place, tuple(file for group in run for file in (*group.files, *group.beside)))
    frames = (rows for group in run for rows in stored.frames((*group.files, *group.beside), fields))
    (written,) = write_vectors(target, place, frames, fields, WHOLE_FILE)
    return [_continue_rows(written, run[0].first, vectors)]


def _continue_rows(file: DataFileMeta, first_row_id: int, before: Sequence[DataFileMeta]) -> DataFileMeta:
    """Return a file as the one that replaces the files `before`."""
    return msgspec.structs.replace(
        file,
        first_row_id=first_row_id,
        file_source=FileSource.COMPACT,
        min_sequence_number=min(each.min_sequence_number for each in before),
        max_sequence_number=max(each.max_sequence_number for each in before),
    )


def _rewrite_blobs(target: WriteTarget, place: Placement, run: Sequence[FileGroup]) -> Iterator[DataFileMeta]:
    """Yield new files of the BLOB columns that have files beside groups; their rows are those of the groups."""
    files = tuple(file for group in run for file in (*group.files, *group.beside))
    stored = GroupedFiles(keep_failing_blobs(target), place, files)
    for blob, own in _split_by_column(target, run).items():
        values = (rows[blob.name] for group in run for rows in stored.described(group, (blob,)))
        for file in write_blob_column(stored.target, place, blob, values, run[0].first):
            yield _continue_rows(file, file.first_row_id or 0, own)


def keep_failing_blobs(target: WriteTarget) -> WriteTarget:
    """Return the table as a rewrite needs it: a BLOB that cannot be read is an error."""
    write = replace(target.write, write_only=True, null_on_missing_blob=False, null_on_failing_blob=False)
    return replace(target, write=write)


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

    Raises `CorruptFile`, `FileMissing`: a file cannot be read. `StorageError`. After any error, no new file is left.
    """
    before = [file for group in groups for file in (*group.files, *group.beside)]
    stored = GroupedFiles(target, place, tuple(before))
    writer = AppendWriter(keep_failing_blobs(target), place, BucketState(), None)
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

    def frames(self, files: Sequence[DataFileMeta], fields: tuple[DataField, ...]) -> Iterator[pl.DataFrame]:
        """Yield the rows of these files of a group, one batch in memory at a time."""
        yield from self._read(self.stitch(files, fields))

    def stitch(
        self, files: Sequence[DataFileMeta], fields: tuple[DataField, ...], masks: Sequence[Mask] = ()
    ) -> pl.LazyFrame:
        """Return the rows of these files of a group, with references in BLOB columns."""
        held = tuple(self._by_name[file.file_name] for file in files)
        section = msgspec.structs.replace(self.section, kind=SectionKind.STITCH, files=held)
        return stitch_columns(self.plan, section, fields, masks, self.target.store)

    def described(
        self,
        group: FileGroup,
        fields: tuple[DataField, ...],
        masks: Sequence[Mask] = (),
        values: Collection[str] = (),
    ) -> Iterator[pl.DataFrame]:
        """Yield rows of all files of a group, with descriptors in its BLOB columns other than `values`."""
        store, filed = self.target.store, [each.name for each in self.target.filed_blobs if each in fields]
        frame = self.stitch((*group.files, *group.beside), fields, masks)
        frame = resolve_lazily(self.plan, frame, [name for name in filed if name in values], store)
        frame = resolve_lazily(ask_descriptors(self.plan), frame, [name for name in filed if name not in values], store)
        yield from self._read(frame)

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
        masks = () if live.all() else (pl.Series(live),)
        count = 0
        for rows in self.described(group, self.target.schema.fields, masks, values):
            count += rows.height
            yield rows
        if count != (wanted := int(live.sum())):
            raise CorruptFile(self._by_name[group.files[0].file_name].path, f"{count} live rows, not {wanted}")
