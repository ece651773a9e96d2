"""Row-level deletes and updates of append tables.

With ``deletion-vectors.enabled`` a row is deleted by its position: the data file stays and its deletion vector grows.
Without it, a file with deleted rows is replaced by a file with the remaining rows. An update is a delete followed by an
append. The matching live rows are found file by file, with their positions.

With ``row-tracking.enabled`` the files that replace others hold the ids of their rows, and the snapshots that wrote
them (null: this one). With ``data-evolution.enabled`` files share row ids, and a group of such files is one file here:
its oldest data file, the *anchor*, holds the deletion vector. An update of columns adds a file with these columns of
all rows of the group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.schema import ROW_ID, ROW_ID_FIELD, SEQUENCE_NUMBER
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, cols, get_series
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind, list_tracked_fields
from morrow.engine.structs import replace
from morrow.readers.execution.blob_columns import ask_descriptors, resolve_lazily
from morrow.readers.execution.execute import DEFAULT_BATCH_ROWS, filter_resolving, list_compared_columns
from morrow.readers.execution.section_frames import filter_frame, find_anchor, stitch_columns
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import collect_batches, scan_files, translate_file_errors
from morrow.readers.masks import Mask, compute_live_masks
from morrow.writers.append.bucket_compaction import AppendFiles, list_carried_fields
from morrow.writers.append.column_files import GroupUpdate, write_updated_columns
from morrow.writers.append.writer import UNAWARE, AppendWriter
from morrow.writers.buckets.modes import make_router
from morrow.writers.buckets.routers import BucketState, restore_buckets, restore_partitions
from morrow.writers.commit.conflicts import find_stale_indexes
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.premise import guard_read, make_request
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer, IndexChanges
from morrow.writers.target import WriteTarget

Assign = Callable[[pl.DataFrame], pl.DataFrame]
"""A function that returns new rows for old ones: checked frames of the table's columns with equal heights.

The old rows also have the columns of row tracking.
"""


def delete_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, tell: Callable[[int], None] = lambda _rows: None
) -> list[CommitMessage]:
    """Delete the rows for which the filter is true; call `tell` with the number of rows of each batch.

    Returns: messages to commit, empty if no row matches. All new files are durable.

    Raises:
        Unsupported: a table whose rows have ids.
        CorruptFile, FileMissing: a file that cannot be read. StorageError: after any error nothing new stays.
        CommitConflict: others have changed the table, and the snapshot has expired.
    """
    with RowChanges(target, snapshot) as changes:
        for found in changes.matching(filter):
            changes.delete(found)
            tell(found.rows.height)
        return changes.messages()


def update_where(
    target: WriteTarget,
    snapshot: Snapshot | None,
    assign: Assign,
    filter: Filter,
    columns: Collection[str],
    read: Collection[str] | None = None,
) -> list[CommitMessage]:
    """Replace the rows for which the filter is true by the result of `assign`; otherwise as `delete_where`.

    `assign` changes `columns`, and looks at the blobs of the columns `read` (None: all).
    """
    with RowChanges(target, snapshot) as changes:
        for found in changes.matching(filter, tuple(target.schema.by_name), read):
            changes.replace(found, assign(found.rows.drop(POSITION)), columns)
        return changes.messages()


class RowChanges:
    """Changes to single rows of one snapshot: find rows, delete and append some, then take the messages.

    A context manager that, on exit, removes files that no message names. Not thread-safe.
    """

    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        # Without compaction, which could pick files that these changes replace.
        self._target = replace(target, write=replace(target.write, write_only=True))
        self._snapshot = snapshot
        self._router = make_router(self._target, snapshot)
        self._states: dict[Placement, BucketState] = {}
        self._dead: dict[Placement, dict[str, list[Positions]]] = defaultdict(dict)
        self._writers: dict[tuple[Placement, bool], AppendWriter] = {}
        self._updates: dict[str, GroupUpdate] = {}
        self._prepared: dict[Placement, CommitMessage] = {}

    def __enter__(self) -> RowChanges:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def matching(
        self, filter: Filter, columns: Sequence[str] = (), read: Collection[str] | None = None
    ) -> Iterator[MatchingRows]:
        """Yield the live rows for which the filter is true, file by file in batches, without files that have no
        match.

        With `columns`, tracked rows have ``_ROW_ID`` and ``_SEQUENCE_NUMBER``, too. BLOB columns other than those that
        are `read` (None: all) have descriptors instead of values.
        """
        target = self._target
        tracked = tuple(field.name for field in list_tracked_fields(target.schema, target.options))
        names = (*columns, *tracked) if columns else ()
        with self._reading():
            plan = make_plan(target.metadata, make_request(target, self._snapshot, names, filter))
            known = self._restored(plan)
            for section in plan.sections:
                masks = compute_live_masks(plan, section, target.store)
                for file, rows in find_matching_rows(plan, section, masks, target.store, read):
                    place, meta = known[_name(file)]
                    yield MatchingRows(place, meta, rows, section)
                self._write_updates(plan, section)

    def delete_at(self, positions: Mapping[str, Positions], filter: Filter) -> None:
        """Delete rows by file path and position. The files must be in the plan of the filter.

        A position may be given several times. Raises `InvalidArgument` for a file that is not in the plan.
        """
        target = self._target
        with self._reading():
            plan = make_plan(target.metadata, make_request(target, self._snapshot, (), filter))
        self._delete_in(plan, positions)

    def _delete_in(self, plan: ScanPlan, positions: Mapping[str, Positions]) -> None:
        with self._reading():
            known = self._restored(plan)
        planned = {file.path for section in plan.sections for file in section.files}
        for path, dead in positions.items():
            if path not in planned:
                raise InvalidArgument(f"{self._target.where}: rows of {path}, which is none of its files")
            place, file = known[path.rpartition("/")[2]]
            self._dead[place].setdefault(file.file_name, []).append(np.unique(dead))

    def delete_ids(self, ids: Positions, filter: Filter) -> None:
        """Delete rows of a table with data evolution by their ids. Their files must be in the plan of the filter.

        Raises `InvalidArgument` for an id of no file.
        """
        self._check_deletable()
        with self._reading():
            plan = make_plan(self._target.metadata, make_request(self._target, self._snapshot, (), filter))
        ordered, positions = np.unique(ids), dict[str, Positions]()
        for file in list_anchors(plan):
            start = file.first_row_id or 0
            found = ordered[slice(*np.searchsorted(ordered, (start, start + file.row_count)))]
            if len(found):
                positions[file.path] = found - start
        if sum(map(len, positions.values())) < len(ordered):
            raise InvalidArgument(f"{self._target.where}: a row with an id that is in none of its files")
        self._delete_in(plan, positions)

    def delete(self, rows: MatchingRows) -> None:
        """Delete these rows. A row may be deleted only once."""
        if rows.rows.height:
            self._check_deletable()
            self._dead[rows.place].setdefault(rows.file.file_name, []).append(rows.positions)

    def replace(self, old: MatchingRows, rows: pl.DataFrame, columns: Collection[str]) -> None:
        """Replace rows by new versions, in their order, in which only these `columns` differ.

        Raises `Unsupported`: data evolution, and a row that would move to another partition.
        """
        if not old.rows.height:
            return
        if self._target.options.data_evolution:
            self._update_columns(old, rows, columns)
            return
        self.delete(old)
        if self._target.options.row_tracking:
            self.append_versions(rows, old.rows[ROW_ID])
        else:
            self.append(rows)

    def append_versions(self, rows: pl.DataFrame, ids: pl.Series) -> None:
        """Add new versions of tracked rows with these ids (Int64)."""
        self.append(rows.select(pl.all(), ids.alias(ROW_ID), pl.lit(None, pl.Int64).alias(SEQUENCE_NUMBER)))

    def _update_columns(self, old: MatchingRows, rows: pl.DataFrame, columns: Collection[str]) -> None:
        moved = [name for name in self._target.schema.partition_keys if name in columns]
        for name in moved:
            if get_series(rows, name).ne_missing(get_series(old.rows, name)).any():
                raise Unsupported(
                    f"an update of the partition column {name!r} with data evolution",
                    where=self._target.where,
                    hint="delete the row and insert another",
                )
        changed = [name for name in self._target.schema.by_name if name in columns and name not in moved]
        if changed:
            assert old.section is not None
            group = self._updates.setdefault(old.file.file_name, GroupUpdate(old.place, old.file, old.section))
            group.add(old.positions, rows.select(cols(changed)))

    def _write_updates(self, plan: ScanPlan, section: Section) -> None:
        """Write the updated columns of a section whose rows have all been found."""
        for name in [name for name, group in self._updates.items() if group.section is section]:
            group = self._updates.pop(name)
            written = write_updated_columns(self._target, group, plan)
            known = self._prepared.get(group.place) or self._make_message(group.place)
            added = [(group.place.partition, file) for file in written]
            stale = [each.file for each in find_stale_indexes(self._target, self._snapshot, added)]
            gone = (*known.deleted_index_files, *(file for file in stale if file not in known.deleted_index_files))
            self._prepared[group.place] = msgspec.structs.replace(
                known, new_files=(*known.new_files, *written), deleted_index_files=gone
            )

    def _check_deletable(self) -> None:
        if self._target.options.data_evolution and not self._target.write.deletion_vectors:
            raise Unsupported(
                "deleting rows of a table with data evolution and without deletion vectors",
                where=self._target.where,
                hint=f"set {DELETION_VECTORS_ENABLED} = true first",
            )

    def append(self, rows: pl.DataFrame) -> None:
        """Add rows: frames from `writers.ingest.conversion`. With `ROW_ID`, these are new versions of tracked rows."""
        with self._reading():
            for place, part in self._router.route(rows):
                self._check_buckets(place)
                self._writer(place, carried=ROW_ID in part.columns).write(part)
        self._bound_memory()

    def messages(self) -> list[CommitMessage]:
        """Return the changes as messages, durable; only `close` may follow."""
        with self._reading():
            return self._messages()

    def _messages(self) -> list[CommitMessage]:
        dead = {place: files for place, files in self._dead.items() if files}
        if not self._target.write.deletion_vectors:
            for place, files in dead.items():
                self._keep_others(place, files)
        for (place, _), writer in self._writers.items():
            message = writer.prepare_commit()
            known = self._prepared.get(place) or message
            if known is not message:
                message = msgspec.structs.replace(known, new_files=(*known.new_files, *message.new_files))
            self._prepared[place] = message
        for place, files in dead.items():
            message = self._prepared.get(place) or self._make_message(place)
            self._prepared[place] = self._with_deletes(message, place, files)
        messages = [message for message in self._prepared.values() if not message.is_empty]
        self._prepared.clear()
        return messages

    def _make_message(self, place: Placement) -> CommitMessage:
        return CommitMessage(partition=place.partition, bucket=place.bucket, total_buckets=self._total_buckets(place))

    def close(self) -> None:
        """Remove files that no message names."""
        for writer in self._writers.values():
            with suppress(MorrowError):  # an undeletable file becomes an orphan; the original error matters more
                writer.close()
        TableCommit(self._target).abort(list(self._prepared.values()))
        self._writers.clear()
        self._prepared.clear()

    def _reading(self) -> AbstractContextManager[None]:
        return guard_read(self._target.metadata, self._snapshot)

    def _restored(self, plan: ScanPlan) -> dict[str, tuple[Placement, DataFileMeta]]:
        """Return the metadata of the files of a plan by their name."""
        stored = list(dict.fromkeys(section.partition_row for section in plan.sections))
        self._states |= restore_partitions(self._target, self._snapshot, stored)
        return {file.file_name: (place, file) for place, state in self._states.items() for file in state.files}

    def _writer(self, place: Placement, *, carried: bool) -> AppendWriter:
        """Return the writer of new rows of a bucket, or of rows that are `carried` over from other files."""
        if (place, carried) not in self._writers:
            columns = list_carried_fields(self._target) if carried else None
            self._writers[place, carried] = AppendWriter(self._target, place, self._state(place), columns)
        return self._writers[place, carried]

    def _check_buckets(self, place: Placement) -> None:
        """Check that the partition has the table's number of buckets. Otherwise rows cannot be routed."""
        known, wanted = self._state(place).total_buckets, self._target.options.bucket
        if known not in (None, wanted):
            raise InvalidArgument(
                f"{self._target.where}: a partition was written with {known} buckets and the option 'bucket' is "
                f"{wanted} now; rescale it first with Table.rescale"
            )

    def _state(self, place: Placement) -> BucketState:
        if place not in self._states:
            self._states |= restore_buckets(self._target, self._snapshot, [place])
        return self._states[place]

    def _total_buckets(self, place: Placement) -> int:
        return self._state(place).total_buckets or self._target.options.bucket

    def _bound_memory(self) -> None:
        while sum(writer.buffered_bytes for writer in self._writers.values()) > self._target.write.write_buffer:
            max(self._writers.values(), key=lambda writer: writer.buffered_bytes).spill()

    def _keep_others(self, place: Placement, dead: dict[str, list[Positions]]) -> None:
        """Write the surviving rows of these files to new files."""
        files = tuple(file for file in self._state(place).files if file.file_name in dead)
        gone = DeletionMaintainer(self._target, place.partition, place.bucket)
        for name, positions in dead.items():
            gone.mark(name, np.concatenate(positions))
        for rows in AppendFiles(self._target, place, files, gone).frames():
            self._writer(place, carried=self._target.options.row_tracking).write(rows)
            self._bound_memory()

    def _with_deletes(
        self, message: CommitMessage, place: Placement, dead: dict[str, list[Positions]]
    ) -> CommitMessage:
        state = self._state(place)
        if not self._target.write.deletion_vectors:
            files = tuple(file for file in state.files if file.file_name in dead)
            return msgspec.structs.replace(message, deleted_files=files)
        changes = self._marked(place, state, dead)
        gone = (*message.deleted_index_files, *changes.replaced)
        return msgspec.structs.replace(message, new_index_files=changes.new, deleted_index_files=gone)

    def _marked(self, place: Placement, state: BucketState, dead: dict[str, list[Positions]]) -> IndexChanges:
        rolling = self._target.options.bucket == UNAWARE
        vectors = DeletionMaintainer(self._target, place.partition, place.bucket, state.index_files, rolling=rolling)
        for name, positions in dead.items():
            vectors.mark(name, np.concatenate(positions))
        return vectors.write()


def list_anchors(plan: ScanPlan) -> list[DataFile]:
    """Return the file of each group of row ids that holds its deletion vector."""
    stitched = SectionKind.STITCH
    anchors = [[find_anchor(s)] if s.kind is stitched else s.files for s in plan.sections]
    return [file for files in anchors for file in files]


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


MAX_SEARCH_ROWS, MAX_SEARCH_FILES = 1 << 20, 64
"""Maximum rows, and maximum number, of files that are searched together."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MatchingRows:
    """Matching live rows of a data file: the requested columns, then the `POSITION` in the file (Int64).

    With data evolution, `section` is the group of files that hold columns of the rows, and `file` its anchor.
    """

    place: Placement
    file: DataFileMeta
    rows: pl.DataFrame
    section: Section | None = None

    def where(self, chosen: pl.Series | pl.Expr) -> MatchingRows:
        """Return the rows for which a boolean is true."""
        return replace(self, rows=self.rows.filter(chosen))

    @property
    def positions(self) -> Positions:
        """The positions of the rows in their file."""
        return self.rows[POSITION].cast(pl.Int64).to_numpy()


def find_matching_rows(
    plan: ScanPlan,
    section: Section,
    masks: Sequence[Mask],
    store: FileStore,
    values: Collection[str] | None = None,
) -> Iterator[tuple[DataFile, pl.DataFrame]]:
    """Yield the live rows that match, file by file: the columns of the plan, then `POSITION`.

    BLOB columns other than `values` (None: all) have descriptors.
    """
    read = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    if section.kind is SectionKind.STITCH:
        yield from _find_stitched_rows(plan, section, masks, read, store, values)
        return
    frames = [_build_matching_frame(plan, section, file, mask, read, store) for file, mask in zip(section.files, masks)]
    with translate_file_errors(plan, [section], read, store):
        for group in _group_files(section.files):
            for number, rows in _collect_rows(group, frames, section.files):
                if rows.height:
                    yield section.files[number], rows


def _build_matching_frame(
    plan: ScanPlan, section: Section, file: DataFile, mask: Mask, read: tuple[DataField, ...], store: FileStore
) -> pl.LazyFrame:
    # The filter comes before the mask: only then does Polars push it into the file scan and skip row groups.
    frame = filter_frame(plan, scan_files(plan, section, [file], read, store, position=True, live=mask))
    if mask is not None:
        frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
    # Residuals may fail on a row: they are evaluated on live rows only.
    frame = expressions.filter_by_residuals(plan.filter.residuals, read, frame)
    return frame.select(*cols(plan.columns), POSITION)


def _find_stitched_rows(
    plan: ScanPlan,
    section: Section,
    masks: Sequence[Mask],
    read: tuple[DataField, ...],
    store: FileStore,
    values: Collection[str] | None,
) -> Iterator[tuple[DataFile, pl.DataFrame]]:
    """Yield the matching live rows of a group with their positions in its anchor file, and that file."""
    anchor = find_anchor(section)
    fields = tuple(dict.fromkeys((*read, ROW_ID_FIELD)))
    frame = filter_frame(plan, stitch_columns(plan, section, fields, masks, store))
    frame = filter_resolving(plan, frame, store)
    left = [name for name in plan.columns if name not in list_compared_columns(plan)]
    wanted = [name for name in left if values is None or name in values]
    frame = resolve_lazily(plan, frame, wanted, store)
    described = [name for name in left if name not in wanted]
    frame = resolve_lazily(ask_descriptors(plan), frame, described, store)
    position = (pl.col(ROW_ID) - (anchor.first_row_id or 0)).alias(POSITION)
    frame = frame.select(*cols(plan.columns), position)
    with translate_file_errors(plan, [section], read, store):
        for _, rows in _collect_rows([0], [frame], [anchor]):
            if rows.height:
                yield anchor, rows


def _group_files(files: Sequence[DataFile]) -> Iterator[list[int]]:
    """Yield the indexes of neighbouring files: small files are read together, large ones alone."""
    group: list[int] = []
    rows = 0
    for number, file in enumerate(files):
        if group and (rows + file.row_count > MAX_SEARCH_ROWS or len(group) == MAX_SEARCH_FILES):
            yield group
            group, rows = [], 0
        group.append(number)
        rows += file.row_count
    if group:
        yield group


def _collect_rows(
    group: Sequence[int], frames: Sequence[pl.LazyFrame], files: Sequence[DataFile]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of these files, large files in batches."""
    if len(group) > 1 or files[group[0]].row_count <= MAX_SEARCH_ROWS:
        yield from zip(group, pl.collect_all([frames[number] for number in group]))
        return
    for number in group:
        yield from ((number, rows) for rows in collect_batches(frames[number], DEFAULT_BATCH_ROWS))
