"""Execution of plans: as a lazy frame, a table, a stream of batches, a count.

Full reads of files that Arrow decodes go straight to an Arrow table: the rows never pass through Polars. Masks are
applied to each decoded batch in the thread that decoded it, so a table costs little more than its files. Only plans
without a filter, whose columns come unchanged from the files, are read this way; all others are read as frames.

`scan_lazily` returns the LazyFrames that users extend. A frame is planned when it is collected, by the columns, the
filter and the number of rows that Polars pushes down. Conditions that a predicate expresses exactly prune files and are
tested before the mask. Other conditions are tested on the rows, as part of the query over the files. If that query
fails, the files are read without these conditions, so that the error names a file or the filter. Filters that fail only
when pushed into a file still return their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Literal, TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND_FIELD
from morrow.engine.format.types import INTEGER_TYPES, DataField, to_arrow_schema, to_polars_schema
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import register_source
from morrow.engine.names import cols
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.predicate import ALWAYS, shorten_text
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.polars_threads import open_threads, refuse_in_fork
from morrow.engine.progress import advance, show_progress
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.readers.casts.dtypes import cast_layout, to_arrow_array, to_arrow_table
from morrow.readers.execution.blob_columns import list_blob_columns, resolve_lazily
from morrow.readers.execution.section_frames import (
    filter_frame,
    make_empty_frame,
    scan_section,
    scan_section_pieces,
    search_parts,
    split_by_answers,
)
from morrow.readers.execution.section_reads import (
    check_complete,
    count_rows,
    join_masks,
    look_up_sections,
    read_sections,
    scan_sections,
)
from morrow.readers.execution.strategy import (
    MAX_SCANNED_SECTION_ROWS,
    SCANS,
    Choice,
    Way,
    choose_ways,
    estimate_bytes,
    is_arrow_only,
    is_complete,
    is_fetched,
    is_maskable,
    limit_sections,
    scan_masks,
)
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import (
    collect_batches,
    list_written_fields,
    make_source,
    select_file_columns,
    to_constant,
    translate_section_errors,
)
from morrow.readers.files.registry import find_file_reader
from morrow.readers.files.source import FetchedStore, FileSource, check_rows, open_fetched_store, translate_errors
from morrow.readers.masks import Mask

MASK_WORKERS = 2
"""Number of sections whose masks are computed, or that are read whole, at once."""

DEFAULT_BATCH_ROWS = 131_072
"""Maximum rows of a batch unless the caller gives another number."""

MIN_SHOWN_ROWS = 1 << 22
"""Minimum stored rows to show progress of a read; smaller reads end before it would be shown."""

MIN_PIECEWISE_ROWS = 1 << 22
"""Minimum stored rows to build an Arrow table piece by piece; reading fewer rows as a whole is faster."""

MAX_GROUP_ROWS = 1 << 24
MAX_GROUP_SECTIONS = 64
"""Maximum sections that a stream reads as one query (the number of stored rows is limited too)."""

MAX_SEARCHED_FILES = 256
"""Maximum files that are searched one by one for parts of variants, unless they are large."""
MAX_STREAM_BYTES = 160 << 20
"""Approximate maximum of bytes (of the requested columns) that a stream reads at once from sections that merge."""
MAX_SINGLE_BATCH_BYTES = 64 << 20
"""Approximate size up to which a read is one batch, since a stream of batches takes more time."""


def to_lazy(plan: ScanPlan, store: FileStore, *, held: float = 0) -> pl.LazyFrame:
    """Return the plan as a Polars LazyFrame; masks are computed now, data is read on collect.

    Sections that merge may be read immediately, in one pass, up to about `held` bytes together. `held` is infinite if
    the frame is collected whole, and 0 if users extend it.
    """
    return _read(plan, store, held).lazy()


def _read(plan: ScanPlan, store: FileStore, held: float) -> pl.DataFrame | pl.LazyFrame:
    """Return the plan as `to_lazy`, or its rows if all of them were read."""
    if not plan.columns:
        return pl.DataFrame(height=count(plan, store))
    with guard_read(plan, store):
        parts = [_split_read(part, part.sections, store, held) for part in plan.parts]
    if all(scanned is None for _, scanned in parts):
        rows = pl.concat([frame for read, _ in parts for frame in read])
        return rows if plan.limit is None else rows.head(plan.limit)
    frames = [_concat_read(*part) for part in parts]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    return frame if plan.limit is None else frame.head(plan.limit)


def translate_plan_errors(plan: ScanPlan, store: FileStore) -> AbstractContextManager[None]:
    """Wrap reads of the whole plan: errors of files become Morrow's and name the file."""
    return translate_section_errors(plan, plan.sections, store)


def read_frames(plan: ScanPlan, store: FileStore, batch_rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield all rows of the plan in bounded memory: frames already read as they are, the remaining rows in batches."""
    if not plan.columns:
        yield pl.DataFrame(height=count(plan, store))
        return
    if plan.limit is not None:
        yield from collect_batches(to_lazy(plan, store), batch_rows)
        return
    for part in plan.parts:
        with guard_read(part, store):
            read, scanned = _split_read(part, part.sections, store, MAX_STREAM_BYTES)
        yield from read
        del read
        if (
            scanned is not None
            and sum(estimate_bytes(part, section, keys=False) for section in part.sections) <= MAX_SINGLE_BATCH_BYTES
        ):
            yield scanned.collect()
        elif scanned is not None:
            yield from collect_batches(scanned, batch_rows)


def _concat_read(read: Sequence[pl.DataFrame], scanned: pl.LazyFrame | None) -> pl.LazyFrame:
    frames = [*(frame.lazy() for frame in read), *([] if scanned is None else [scanned])]
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _split_read(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], pl.LazyFrame | None]:
    """Split the read into frames in memory (see `to_lazy`) and a lazy frame of the remaining sections.

    The lazy frame is None if no sections remain.
    """
    return _run_choices(plan, choose_ways(plan, limit_sections(plan, sections), store, held), store, held)


def _run_choices(
    plan: ScanPlan, choices: Sequence[Choice], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], pl.LazyFrame | None]:
    if choices and choices[0].way is Way.FILTER:
        found = _filter_before_masks(plan, [choice.section for choice in choices], store, held)
        if found is not None:
            return found, None
        choices = [replace(choice, way=Way.SCAN) for choice in choices]
    if plan.filter.parts is not None and all(choice.way in SCANS for choice in choices):
        answered = _scan_by_parts(plan, [choice.section for choice in choices], store)
        if answered is not None:
            return [], answered
    found, choices = look_up_sections(plan, choices, store)
    read = [*found, *read_sections(plan, [choice for choice in choices if choice.way not in SCANS], store)]
    left = [choice for choice in choices if choice.way in SCANS]
    # Polars copies frames of several chunks to select from them.
    rows = [frame if frame.columns == [*plan.columns] else frame.select(cols(plan.columns)) for frame in read]
    scanned = None if read and not left else _scan_choices(plan, left, store)
    if not rows or not list_blob_columns(plan, plan.columns):
        return rows, scanned
    # The values are read as the rows are used.
    resolved = resolve_lazily(plan, pl.concat([frame.lazy() for frame in rows]), plan.columns, store)
    return [], resolved if scanned is None else pl.concat([resolved, scanned])


def _filter_before_masks(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, most_bytes: float
) -> list[pl.DataFrame] | None:
    """Return the rows of sections that DuckDB filters, and filtered rows of keys whose versions are combined.

    Returns None if DuckDB cannot filter them, or if they are more than `most_bytes`.
    """
    from morrow.readers.execution.plain_sql import read_filtered_rows

    found = read_filtered_rows(replace(plan, sections=tuple(sections), fallback=None), store, most_bytes)
    if found is None or not any(map(plan.folds, sections)):
        return found
    return [*found, _filter_residuals(plan, _list_merged(plan, sections, store), store).collect()]


def _scan_choices(plan: ScanPlan, choices: Sequence[Choice], store: FileStore) -> pl.LazyFrame:
    sections = [choice.section for choice in choices]
    frames = scan_sections(plan, zip(choices, _make_masks(plan, sections, store)), store)
    return _filter_residuals(plan, [*frames, *_list_merged(plan, sections, store)], store)


def _scan_by_parts(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame | None:
    """Return the rows that fulfil a condition on parts of variants, tested on shredded columns of the files.

    Variant columns are not read from files whose shredded columns decide all rows. Returns None if no file has such
    columns.
    """
    files = sum(len(section.files) for section in sections)
    few = files <= max(MAX_SEARCHED_FILES, plan.stored_rows // MAX_SCANNED_SECTION_ROWS)
    if not few or not all(is_maskable(plan, section) for section in sections):
        return None
    found = search_parts(plan, sections, store)
    if found is None:
        return None
    rest, frames = [], []
    narrowed = replace(plan, filter=plan.filter.without_parts(), fallback=None)
    for section, masks, answers in zip(sections, _make_masks(plan, sections, store), found):
        decided, others = split_by_answers(section, masks, answers)
        frames += [scan_section(narrowed, some, some_masks, store) for some, some_masks in decided]
        rest += [scan_section(plan, some, some_masks, store) for some, some_masks in others]
    rest += _list_merged(plan, sections, store)
    parts = [_filter_residuals(each, some, store) for each, some in ((narrowed, frames), (plan, rest)) if some]
    return pl.concat(parts) if parts else _filter_residuals(narrowed, [], store)


def _list_merged(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.LazyFrame]:
    """Return the rows of keys whose versions are combined: they are merged first and filtered after."""
    return [filter_frame(plan, merged) for s in sections for merged in _read_merged(plan, s, store)]


def _filter_residuals(plan: ScanPlan, frames: Sequence[pl.LazyFrame], store: FileStore) -> pl.LazyFrame:
    """Return the rows for which the residuals are true, with the columns of the plan."""
    read = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    frame = make_empty_frame(read) if not frames else frames[0] if len(frames) == 1 else pl.concat(frames)
    frame = filter_resolving(plan, frame, store)
    compared = list_compared_columns(plan)
    frame = frame if plan.read_columns == plan.columns else frame.select(cols(plan.columns))
    return resolve_lazily(plan, frame, [name for name in plan.columns if name not in compared], store)


def list_compared_columns(plan: ScanPlan) -> frozenset[str]:
    """Return the columns that conditions on rows look at."""
    return frozenset(name for residual in plan.filter.residuals for name in residual.columns)


def filter_resolving(plan: ScanPlan, frame: pl.LazyFrame, store: FileStore) -> pl.LazyFrame:
    """Return the rows of sections for which the remaining conditions of the plan's filter are true.

    Only blobs that conditions look at are read; their columns have values afterwards.
    """
    compared, read = list_compared_columns(plan), tuple(plan.schema.by_name[name] for name in plan.read_columns)
    frame = resolve_lazily(plan, frame, [name for name in plan.read_columns if name in compared], store)
    return expressions.filter_by_residuals(plan.filter.residuals, read, frame)


def _read_merged(plan: ScanPlan, section: Section, store: FileStore) -> list[pl.LazyFrame]:
    """Return the rows of keys whose versions are combined; empty if the section has none."""
    if not plan.folds(section):
        return []
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import scan_merged

    return [scan_merged(plan, section, plan.read_columns, store)]


def _make_masks(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[tuple[Mask, ...]]:
    """Return masks of the sections, computing several at a time."""
    if len(sections) <= 1:
        return [scan_masks(plan, section, store) for section in sections]

    def masks(section: Section) -> tuple[Mask, ...]:
        return scan_masks(plan, section, store)

    join_masks(plan, sections, store)
    # Tables of thousands of partitions have as many sections, few of them with masks.
    masked = [section for section in sections if section.kind is not SectionKind.RAW or _has_vectors(section)]
    with open_threads(MASK_WORKERS) as pool:
        found = dict(zip(map(id, masked), pool.map(masks, masked)))
    return [found.get(id(section)) or (None,) * len(section.files) for section in sections]


def _has_vectors(section: Section) -> bool:
    return any(file.deletion is not None for file in section.files)


def to_polars(plan: ScanPlan, store: FileStore) -> pl.DataFrame:
    """Read all rows as a Polars DataFrame.

    Raises `CorruptFile`, `FileMissing`, `SnapshotExpired`, `Unsupported`: as planning and reading do.
    """
    with translate_plan_errors(plan, store), _show_progress(plan) as is_shown:
        frame = _read(plan, store, held=math.inf)
        if isinstance(frame, pl.LazyFrame):
            counts = is_shown and plan.stored_rows >= MIN_SHOWN_ROWS
            frame = _collect_counted(frame) if counts else frame.collect(engine=_choose_engine(plan))
    check_complete(plan, store, frame.height)
    return frame


def _show_progress(plan: ScanPlan) -> AbstractContextManager[bool]:
    """Show the progress of a read to memory, in stored rows."""
    files = [file for part in plan.parts for file in part.files]
    rows, size = sum(file.row_count for file in files), sum(file.size for file in files)
    return show_progress(f"reading {format_count(len(files), 'file')}", rows=rows, bytes=size)


def _collect_counted(frame: pl.LazyFrame) -> pl.DataFrame:
    """Collect a frame batch by batch and count its rows as progress, which a single query does not report."""
    found = []
    for batch in collect_batches(frame):
        advance(rows=batch.height)
        found.append(batch)
    return pl.concat(found, rechunk=False) if found else pl.DataFrame(schema=frame.collect_schema())


def _choose_engine(plan: ScanPlan) -> Literal["auto", "streaming"]:
    """Return the Polars engine.

    Residuals are tested above the scan: only a streaming query avoids holding all dropped rows in memory.
    """
    return "streaming" if plan.filter.residuals else "auto"


def to_arrow(plan: ScanPlan, store: FileStore) -> pa.Table:
    """Read all rows as an Arrow table with exactly the schema of the plan's output fields."""
    if not plan.columns:
        return pa.table({"none": pa.nulls(count(plan, store))}).select([])

    if not (is_complete(plan) and is_arrow_only(plan)):
        if plan.limit is None and plan.stored_rows >= MIN_PIECEWISE_ROWS:
            return _convert_piecewise(plan, store)
        return to_arrow_table(to_polars(plan, store), plan.fields)
    with translate_plan_errors(plan, store), _show_progress(plan) as counts:
        masks = [_make_masks(part, part.sections, store) for part in plan.parts]
        table = read_arrow_table(plan, masks, store, counts=counts)
    check_complete(plan, store, table.num_rows)
    return table


def _convert_piecewise(plan: ScanPlan, store: FileStore) -> pa.Table:
    """Convert rows as they are read, so that few rows are in memory as Polars frames at the same time."""
    tables = [to_arrow_schema(plan.fields).empty_table()]
    # Arrow's own allocator retains the remains of growing buffers, a tenth of the table; for few rows it is faster.
    pool = pa.system_memory_pool()
    with translate_plan_errors(plan, store), _show_progress(plan):
        for part in plan.parts:
            for frame in _read_pieces(part, store):
                advance(rows=frame.height)
                tables.append(to_arrow_table(frame, plan.fields, pool=pool))
                del frame
    table = pa.concat_tables(tables)
    check_complete(plan, store, table.num_rows)
    return table


def _read_pieces(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """Yield the rows of one part in small pieces, so that Polars decodes few rows ahead."""
    for run in _choose_runs(plan, plan.sections, store, math.inf):
        if run[0].way is Way.SCAN_PIECES:
            yield from (batch for frame in _scan_pieces(plan, run, store) for batch in collect_batches(frame))
            continue
        with guard_read(plan, store):
            read, scanned = _run_choices(plan, run, store, math.inf)
        read.reverse()
        while read:
            yield read.pop()
        if scanned is not None:
            yield from collect_batches(scanned)


def _choose_runs(plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float) -> Iterator[list[Choice]]:
    """Yield choices of neighbouring sections that are all scanned in pieces, or none of them."""
    choices = choose_ways(plan, limit_sections(plan, sections), store, held, pieces=True)
    for _, run in groupby(choices, key=lambda choice: choice.way is Way.SCAN_PIECES):
        yield list(run)


def _scan_pieces(plan: ScanPlan, choices: Sequence[Choice], store: FileStore) -> Iterator[pl.LazyFrame]:
    """Yield the rows of large sections as frames to collect in sequence."""
    for section in (choice.section for choice in choices):
        (masks,) = _make_masks(plan, [section], store)
        yield from (*scan_section_pieces(plan, section, masks, store), *_read_merged(plan, section, store))


def to_batches(plan: ScanPlan, store: FileStore, batch_rows: int = DEFAULT_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield record batches of at most `batch_rows` rows, a group of sections at a time, in bounded memory.

    A limit stops reading as soon as it is reached. A forked process cannot continue the iteration: see `check_process`.
    """
    yield from refuse_in_fork(_to_batches(plan, store, batch_rows))


def _to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if not plan.columns:
        yield from to_arrow(plan, store).to_batches(max_chunksize=batch_rows)
        return
    left = plan.limit
    # Without a filter, sections that hold as many rows as the limit suffice: do not open others or make their masks.
    filtered = plan.filter.predicate != ALWAYS or bool(plan.filter.residuals)
    most = MAX_GROUP_ROWS if left is None or filtered else min(MAX_GROUP_ROWS, left)
    # Blobs arrive in batches of bounded size, which Polars would join.
    query_rows = None if list_blob_columns(plan, plan.columns) else batch_rows
    for part, group in ((one, group) for one in plan.parts for group in group_sections(one.sections, most)):
        if left == 0:
            return
        with translate_section_errors(part, group, store):
            for frame in _stream_sections(part, group, store):
                for chunk in collect_batches(frame if left is None else frame.head(left), query_rows):
                    left = None if left is None else left - chunk.height
                    yield from to_arrow_table(chunk, plan.fields).to_batches(max_chunksize=batch_rows)


def _stream_sections(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> Iterator[pl.LazyFrame]:
    """Yield the rows of these sections as frames to collect in sequence: one frame, or pieces of large sections."""
    for run in _choose_runs(plan, sections, store, MAX_STREAM_BYTES):
        if run[0].way is Way.SCAN_PIECES:
            yield from _scan_pieces(plan, run, store)
        else:
            yield _concat_read(*_run_choices(plan, run, store, MAX_STREAM_BYTES))


def group_sections(sections: Sequence[Section], most_rows: int | None = None) -> Iterator[list[Section]]:
    """Group neighbouring sections for one query: small sections together, a section beyond `most_rows` alone.

    `most_rows` is `MAX_GROUP_ROWS` unless given.
    """
    most_rows = MAX_GROUP_ROWS if most_rows is None else most_rows
    group: list[Section] = []
    rows = 0
    for section in sections:
        if group and (rows + section.row_count > most_rows or len(group) == MAX_GROUP_SECTIONS):
            yield group
            group, rows = [], 0
        group.append(section)
        rows += section.row_count
    if group:
        yield group


def open_batch_reader(plan: ScanPlan, store: FileStore, batch_rows: int = DEFAULT_BATCH_ROWS) -> pa.RecordBatchReader:
    """Return `to_batches` as an Arrow stream."""
    return pa.RecordBatchReader.from_batches(to_arrow_schema(plan.fields), to_batches(plan, store, batch_rows))


def count(plan: ScanPlan, store: FileStore) -> int:
    """Count the rows that `to_arrow` would return, from metadata and masks alone if no filter needs data.

    Deletion vectors on a local disk are decoded, since nothing else checks the row counts in the manifest.
    """
    plan = plan if plan.columns else _add_some_column(plan)
    if len(plain := _list_plain_columns(plan)) < len(plan.columns):
        plan = plan.with_columns(plain)
    if plan.filter.predicate == ALWAYS and not plan.filter.residuals:
        with guard_read(plan, store):
            for part in plan.parts:
                join_masks(part, part.sections, store)
            counted = sum(count_rows(one, section, store) for one in plan.parts for section in one.sections)
    else:
        with translate_plan_errors(plan, store):
            rows = to_lazy(plan, store, held=MAX_STREAM_BYTES).select(pl.len())
            counted = int(rows.collect(engine=_choose_engine(plan)).item())
    # Polars 1 leaves out the limit if a query reads no columns.
    return counted if plan.limit is None else min(counted, plan.limit)


def _list_plain_columns(plan: ScanPlan) -> tuple[str, ...]:
    """Return the output columns, or some column, without blobs."""
    plain = [field.name for field in plan.schema.fields if not is_blob_type(field.type)]
    return tuple(name for name in plan.columns if name in plain) or tuple(plain[:1])


def _add_some_column(plan: ScanPlan) -> ScanPlan:
    """Add a column to a plan without columns, to count rows by: frames without columns lose their height."""
    fallback = None if plan.fallback is None else _add_some_column(plan.fallback)
    parts = () if plan.filter.parts is None else plan.filter.without_parts().columns
    read = [name for name in plan.read_columns if plan.filter.parts is None or name in parts]
    plain = [field.name for field in plan.schema.fields if isinstance(field.type, INTEGER_TYPES)]
    return replace(plan, columns=tuple((*read, *plain, *plan.schema.by_name)[:1]), fallback=fallback)


def read_arrow_table(
    plan: ScanPlan, masks: Sequence[Sequence[Sequence[Mask]]], store: FileStore, *, counts: bool = False
) -> pa.Table:
    """Read all rows into an Arrow table of exactly `to_arrow_schema(plan.fields)`, one chunk per decoder chunk.

    Args:
        plan: a plan for which `is_arrow_only` holds.
        masks: the result of `scan_masks` for each part of the plan and each of its sections.
        counts: count the rows of each file that is read as progress.

    Raises `CorruptFile`, `FileMissing`, `Unsupported`, `StorageError`: as decoding the files does.
    """
    with nullcontext(store) if store.is_local else open_fetched_store(store) as source:
        files = [
            _MaskedFile(part, section, file, mask, source, plan.fields)
            for part, section_masks in zip(plan.parts, masks, strict=True)
            for section, file_masks in zip(part.sections, section_masks, strict=True)
            for file, mask in zip(section.files, file_masks, strict=True)
        ]
        # Largest first: a large file at the end would keep a single thread busy.
        order = sorted(range(len(files)), key=lambda i: -files[i].file.row_count)
        if isinstance(source, FetchedStore):
            source.expect(files[i].file for i in order if is_fetched(files[i].plan, files[i].file))
        read: dict[int, list[pa.RecordBatch]] = {}
        with open_threads(pl.thread_pool_size()) as pool:
            for i, found in zip(order, pool.map(_MaskedFile.batches, [files[i] for i in order])):
                read[i] = found
                if isinstance(source, FetchedStore):
                    source.drop([files[i].file])
                if counts:
                    advance(rows=files[i].file.row_count)
    batches = [batch for i in range(len(files)) for batch in read[i]]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


class _MaskedFile(msgspec.Struct, frozen=True):
    """A data file and its live rows (None: all rows except retractions)."""

    plan: ScanPlan
    section: Section
    file: DataFile
    mask: Mask
    store: FileStore
    fields: tuple[DataField, ...]
    """The columns of the rows; their types may be nullable even if the plan's types are not."""

    def batches(self) -> list[pa.RecordBatch]:
        """Return the live rows, columns `fields`, one batch per chunk of the decoder."""
        source = make_source(self.file, self.plan, self.store)
        with translate_errors(self.file.path):
            return list(self._decode(source))

    def _decode(self, source: FileSource) -> Iterator[pa.RecordBatch]:
        stripes = find_file_reader(source.format, source.path).stripes
        assert stripes is not None  # of a plan for which `is_arrow_only` holds
        constants = dict(zip(self.plan.schema.partition_keys, self.section.partition))
        wanted = [field for field in self.plan.fields if field.name not in constants]
        kind = [VALUE_KIND_FIELD] if self._holds_retractions else []
        read = select_file_columns(list_written_fields(self.plan, self.file), (*wanted, *kind))
        schema = to_arrow_schema(self.fields)
        pairs = list(zip(self.plan.fields, self.fields, strict=True))
        rows = 0
        for stripe in stripes(source, read):
            stored = dict(zip((field.id for field in read), stripe.columns, strict=True))
            columns = [
                self._constant(field, stripe.rows)
                if field.name in constants
                else _select_column(stored, replace(field, type=shown.type), stripe.rows)
                for field, shown in pairs
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            live = self._live(rows, stripe.rows, stored.get(VALUE_KIND_FIELD.id))
            yield batch if live is None else batch.filter(live.to_arrow())
            rows += stripe.rows
        check_rows(source, rows)

    @property
    def _holds_retractions(self) -> bool:
        """Whether the scan must drop retractions: merge masks exclude them, other masks do not."""
        raw = self.section.kind is SectionKind.RAW and self.plan.drops_retractions
        return raw and self.file.may_hold_retractions

    def _live(self, start: int, rows: int, kinds: pa.Array | None) -> Mask:
        mask = None if self.mask is None else self.mask.slice(start, rows)
        if kinds is None:
            return mask
        added = pl.Series(pl.from_arrow(kinds)) & RETRACT_BIT == 0
        return added if mask is None else mask & added

    def _constant(self, field: DataField, rows: int) -> pa.Array:
        value = self.section.partition[self.plan.schema.partition_keys.index(field.name)]
        one = pl.select(to_constant(value, field)).to_series()
        return to_arrow_array(one.new_from_index(0, rows), field.type)


def _select_column(stored: dict[int, pa.Array], field: DataField, rows: int) -> pa.Array:
    """Return the column with this field id; all nulls if the file was written without it."""
    if field.id not in stored:
        return pa.nulls(rows, field.type.arrow())
    return cast_layout(stored[field.id], field.type.arrow())


FAILURES = (MorrowError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)

MakePlan: TypeAlias = Callable[[Sequence[str] | None, pl.Expr | None, int | None], tuple[ScanPlan, pl.Expr | None]]
"""Plans a read, given the columns (None: all), an expression that rows must satisfy, and the maximum number of rows.

Returns the plan, and the expression if the plan's rows must still be tested.
"""


def scan_lazily(fields: Sequence[DataField], make_plan: MakePlan, store: FileStore, title: str) -> pl.LazyFrame:
    """Return the rows of these columns as a Polars LazyFrame, which is planned and read when it is collected.

    Collecting raises:
        CorruptFile, FileMissing, SnapshotExpired, StorageError, Unsupported: as reading does.
        InvalidArgument: Polars panics when it evaluates a filter that was added to the frame.
    """
    if not fields:
        return to_lazy(make_plan(None, None, None)[0], store)  # without columns, batches would lose the height

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        plan, condition = make_plan(with_columns, predicate, n_rows)
        if condition is None:
            yield from _read_plan(plan, store, batch_size)
        else:
            yield from _read_filtered(plan, store, condition, batch_size)

    return register_source(generate, to_polars_schema(fields), f"Morrow {title}")


def _read_plan(plan: ScanPlan, store: FileStore, batch_size: int | None) -> Iterator[pl.DataFrame]:
    with translate_plan_errors(plan, store):
        yield from read_frames(plan, store, batch_size)


def _read_filtered(
    plan: ScanPlan, store: FileStore, condition: pl.Expr, batch_size: int | None
) -> Iterator[pl.DataFrame]:
    """Yield the rows for which the condition is true; the plan has all columns that it reads."""
    given = 0
    try:
        for batch in collect_batches(to_lazy(plan, store).filter(condition), batch_size):
            yield batch
            given += batch.height
        return
    except FAILURES:
        pass
    for batch in _read_plan(plan, store, batch_size):
        kept = _filter_batch(batch, condition)
        new, given = kept[given:], max(given - kept.height, 0)
        if new.height:
            yield new


def _filter_batch(rows: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    try:
        return rows.filter(condition)
    except pl.exceptions.PanicException as error:
        raise InvalidArgument(f"filter: Polars cannot evaluate {shorten_text(str(condition))!r}: {error}") from error
