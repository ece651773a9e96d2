"""Runs a plan: as a lazy frame, a table, a stream of batches, a count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Literal

import polars as pl
import pyarrow as pa

from morrow.engine.forks import in_one_process
from morrow.engine.format.types import arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.progress import advance, working
from morrow.engine.values import replace
from morrow.engine.wording import plural
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.counting import check_complete, checked_rows, enough, is_complete
from morrow.readers.execution.joined_reads import join_masks
from morrow.readers.execution.joined_sections import section_frames
from morrow.readers.execution.one_pass import bytes_of, read_at_once
from morrow.readers.execution.section_frames import empty_frame, filtered, is_cut, section_pieces
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_errors import reading_sections
from morrow.readers.files.streaming import batches
from morrow.readers.masks import Mask
from morrow.readers.merges.version_masks import is_folded, scan_masks

MASK_WORKERS = 2
"""Sections whose masks are computed, or that are read whole, at once."""

BATCH_ROWS = 131_072
"""Rows of a batch at most, unless the caller says otherwise."""

LEAST_SHOWN_ROWS = 1 << 22
"""Stored rows from which a read that somebody looks at is counted; fewer are there before it would be shown."""

PIECEWISE_ROWS = 1 << 22
"""Stored rows from which on a table of Arrow is made piece by piece: fewer are there sooner when read as a whole."""

GROUP_ROWS = 1 << 24
MOST_GROUPED = 64
"""Sections that a stream reads as one query: up to so many stored rows and so many sections."""


STREAM_HELD = 160 << 20
"""About how many bytes of sections that merge a stream reads at once, in one pass: the columns that are asked for."""
AT_ONCE = 64 << 20
"""Columns of about so many bytes are one batch: a stream of batches takes some more time."""


def lazy(plan: ScanPlan, store: FileStore, *, held: float = 0) -> pl.LazyFrame:
    """Returns the plan as a Polars LazyFrame; masks are computed now, data is read on collect.

    Sections that merge may be read immediately, in one pass, up to about `held` bytes together: infinite where the
    frame is collected whole, 0 where its users go on with it.
    """
    if not plan.columns:
        return pl.LazyFrame(height=count(plan, store))
    with in_flight(plan, store):
        parts = [_frame(part, part.sections, store, held) for part in plan.parts]
    frame = parts[0] if len(parts) == 1 else pl.concat(parts)
    return frame if plan.limit is None else frame.head(plan.limit)


def reading_plan(plan: ScanPlan, store: FileStore) -> AbstractContextManager[None]:
    """Wraps reads of the whole plan: errors of files become Morrow's and name the file."""
    return reading_sections(plan, plan.sections, store)


def frames(plan: ScanPlan, store: FileStore, batch_rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Yields all rows of the plan, in bounded memory: what is read at once as it is, the rest in batches."""
    if not plan.columns:
        yield pl.DataFrame(height=count(plan, store))
        return
    if plan.limit is not None:
        yield from batches(lazy(plan, store), batch_rows)
        return
    for part in plan.parts:
        with in_flight(part, store):
            read, scanned = _apart(part, part.sections, store, STREAM_HELD)
        yield from read
        del read
        if scanned is not None and sum(bytes_of(part, section, keys=False) for section in part.sections) <= AT_ONCE:
            yield scanned.collect()
        elif scanned is not None:
            yield from batches(scanned, batch_rows)


def _frame(plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float = STREAM_HELD) -> pl.LazyFrame:
    """Returns these sections of a plan as one frame: masked scans, merged rows, residual filters, output columns."""
    read, scanned = _apart(plan, sections, store, held)
    frames = [*(frame.lazy() for frame in read), *([] if scanned is None else [scanned])]
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _apart(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float
) -> tuple[list[pl.DataFrame], pl.LazyFrame | None]:
    """Returns rows that were read at once, see `lazy`, and a frame of the others; None where there are no others."""
    sections = enough(plan, sections)
    read, left = read_at_once(plan, sections, store, held) if is_complete(plan) else ([], sections)
    # Polars copies frames of several chunks to select from them.
    rows = [frame if frame.columns == [*plan.columns] else frame.select(cols(plan.columns)) for frame in read]
    return rows, None if read and not left else _scanned(plan, left, store)


def _scanned(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame:
    masks = _masks(plan, sections, store)
    frames = section_frames(plan, zip(sections, masks), store)
    # Keys of several versions are merged first and filtered after.
    frames += [filtered(plan, merged) for s in sections for merged in _merged(plan, s, store)]
    read = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    frame = empty_frame(read) if not frames else frames[0] if len(frames) == 1 else pl.concat(frames)
    frame = expressions.having(plan.filter.residuals, read, frame)
    return frame if plan.read_columns == plan.columns else frame.select(cols(plan.columns))


def _merged(plan: ScanPlan, section: Section, store: FileStore) -> list[pl.LazyFrame]:
    """Returns the rows of keys whose versions are combined, where the section has such keys."""
    if not is_folded(plan, section):
        return []
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_frame

    return [merged_frame(plan, section, plan.read_columns, store)]


def _masks(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[tuple[Mask, ...]]:
    """Returns masks of the sections, computing several at a time."""
    if len(sections) <= 1:
        return [scan_masks(plan, section, store) for section in sections]

    def masks(section: Section) -> tuple[Mask, ...]:
        return scan_masks(plan, section, store)

    join_masks(plan, sections, store)
    # Tables of thousands of partitions have as many sections, few of them with masks.
    masked = [section for section in sections if section.kind is not SectionKind.RAW or _has_vectors(section)]
    with ThreadPoolExecutor(MASK_WORKERS) as pool:
        found = dict(zip(map(id, masked), pool.map(masks, masked)))
    return [found.get(id(section)) or (None,) * len(section.files) for section in sections]


def _has_vectors(section: Section) -> bool:
    return any(file.deletion is not None for file in section.files)


def to_polars(plan: ScanPlan, store: FileStore) -> pl.DataFrame:
    """Reads all rows as a Polars DataFrame.

    Raises:
        CorruptFile, FileMissing, SnapshotExpired, Unsupported: as planning and reading do.
    """
    with reading_plan(plan, store), _shown(plan) as is_shown:
        frame = lazy(plan, store, held=math.inf)
        counts = is_shown and plan.stored_rows >= LEAST_SHOWN_ROWS
        rows = _counted(frame) if counts else frame.collect(engine=_engine(plan))
    check_complete(plan, store, rows.height)
    return rows


def _shown(plan: ScanPlan) -> AbstractContextManager[bool]:
    """Shows a read to memory as work, as much as there is stored."""
    files = [file for part in plan.parts for file in part.files]
    rows, size = sum(file.row_count for file in files), sum(file.size for file in files)
    return working(f"reading {plural(len(files), 'file')}", rows=rows, bytes=size)


def _counted(frame: pl.LazyFrame) -> pl.DataFrame:
    """Collects a frame batch by batch and counts its rows as progress, which one query as a whole does not tell."""
    found = []
    for batch in batches(frame):
        advance(rows=batch.height)
        found.append(batch)
    return pl.concat(found, rechunk=False) if found else pl.DataFrame(schema=frame.collect_schema())


def _engine(plan: ScanPlan) -> Literal["auto", "streaming"]:
    """Returns the Polars engine.

    Residuals are tested above the scan: only a streaming query does not hold the rows that they drop in memory
    together.
    """
    return "streaming" if plan.filter.residuals else "auto"


def to_arrow(plan: ScanPlan, store: FileStore) -> pa.Table:
    """Reads all rows as an Arrow table with exactly the schema of the plan's output fields."""
    if not plan.columns:
        return pa.table({"none": pa.nulls(count(plan, store))}).select([])
    from morrow.readers.execution.arrow_tables import arrow_table, is_arrow_only

    if not (is_complete(plan) and is_arrow_only(plan)):
        if plan.limit is None and plan.stored_rows >= PIECEWISE_ROWS:
            return _piecewise(plan, store)
        return to_arrow_table(to_polars(plan, store), plan.fields)
    with reading_plan(plan, store), _shown(plan) as counts:
        masks = [_masks(part, part.sections, store) for part in plan.parts]
        table = arrow_table(plan, masks, store, counts=counts)
    check_complete(plan, store, table.num_rows)
    return table


def _piecewise(plan: ScanPlan, store: FileStore) -> pa.Table:
    """Converts rows as they are read, so that few of them are in memory in the form of Polars, too."""
    tables = [arrow_schema(plan.fields).empty_table()]
    # Arrow's own allocator keeps what growing buffers leave over, a tenth of the table: slower to do without when few.
    pool = pa.system_memory_pool()
    with reading_plan(plan, store), _shown(plan):
        for part in plan.parts:
            for frame in _pieces(part, store):
                advance(rows=frame.height)
                tables.append(to_arrow_table(frame, plan.fields, pool=pool))
                del frame
    table = pa.concat_tables(tables)
    check_complete(plan, store, table.num_rows)
    return table


def _pieces(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """Yields the rows of one part, so few at a time that Polars decodes few of them ahead."""
    complete = is_complete(plan)
    for large, run in groupby(plan.sections, key=lambda section: complete and is_cut(section, store)):
        sections = list(run)
        if large:
            for section in sections:
                yield from (batch for frame in _streamed(plan, [section], store) for batch in batches(frame))
            continue
        with in_flight(plan, store):
            read, scanned = _apart(plan, sections, store, math.inf)
        read.reverse()
        while read:
            yield read.pop()
        if scanned is not None:
            yield from batches(scanned)


def to_batches(plan: ScanPlan, store: FileStore, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yields record batches of at most `batch_rows` rows, a group of sections at a time, in bounded memory.

    A limit stops reading as soon as it is reached. A forked process cannot go on with it: see `check_process`.
    """
    yield from in_one_process(_to_batches(plan, store, batch_rows))


def _to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    if not plan.columns:
        yield from to_arrow(plan, store).to_batches(max_chunksize=batch_rows)
        return
    left = plan.limit
    # Without a filter, sections that hold as many rows as the limit are enough: do not open more, nor make their masks.
    filtered = plan.filter.predicate != ALWAYS or bool(plan.filter.residuals)
    most = GROUP_ROWS if left is None or filtered else min(GROUP_ROWS, left)
    for part, group in ((one, group) for one in plan.parts for group in groups(one.sections, most)):
        if left == 0:
            return
        with reading_sections(part, group, store):
            for frame in _streamed(part, group, store):
                for chunk in batches(frame if left is None else frame.head(left), batch_rows):
                    left = None if left is None else left - chunk.height
                    yield from to_arrow_table(chunk, plan.fields).to_batches(max_chunksize=batch_rows)


def _streamed(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> Iterator[pl.LazyFrame]:
    """Yields the rows of these sections as frames to collect one after the other: one, or pieces of a large section."""
    if len(sections) > 1 or not is_complete(plan) or not is_cut(sections[0], store):
        yield _frame(plan, sections, store)
    else:
        (section,), (masks,) = sections, _masks(plan, sections, store)
        yield from (*section_pieces(plan, section, masks, store), *_merged(plan, section, store))


def groups(sections: Sequence[Section], most_rows: int | None = None) -> Iterator[list[Section]]:
    """Groups neighbouring sections for one query: many small ones together, one of more than `most_rows` alone.

    `most_rows` is `GROUP_ROWS` unless given.
    """
    most_rows = GROUP_ROWS if most_rows is None else most_rows
    group: list[Section] = []
    rows = 0
    for section in sections:
        if group and (rows + section.row_count > most_rows or len(group) == MOST_GROUPED):
            yield group
            group, rows = [], 0
        group.append(section)
        rows += section.row_count
    if group:
        yield group


def batch_reader(plan: ScanPlan, store: FileStore, batch_rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
    """Returns `to_batches` as an Arrow stream."""
    return pa.RecordBatchReader.from_batches(arrow_schema(plan.fields), to_batches(plan, store, batch_rows))


def count(plan: ScanPlan, store: FileStore) -> int:
    """Counts the rows that `to_arrow` would return; from metadata and masks alone where no filter needs data.

    Deletion vectors on a local disk are decoded: there is no other check of the manifest's count of their rows.
    """
    plan = plan if plan.columns else _of_some_column(plan)
    if plan.filter.predicate == ALWAYS and not plan.filter.residuals:
        with in_flight(plan, store):
            for part in plan.parts:
                join_masks(part, part.sections, store)
            rows = sum(checked_rows(one, section, store) for one in plan.parts for section in one.sections)
        return rows if plan.limit is None else min(rows, plan.limit)
    with reading_plan(plan, store):
        return int(lazy(plan, store).select(pl.len()).collect(engine=_engine(plan)).item())


def _of_some_column(plan: ScanPlan) -> ScanPlan:
    """Adds to a plan without columns one to count its rows by: frames without columns lose their height."""
    fallback = None if plan.fallback is None else _of_some_column(plan.fallback)
    return replace(plan, columns=(plan.read_columns or tuple(plan.schema.by_name))[:1], fallback=fallback)
