"""Data evolution: files that hold different columns of the same row ids, put side by side.

Every file of a STITCH section covers the same range of row ids; for a column written several times, the file with the
largest sequence number wins. Columns with files of their own, BLOBs and vectors, may be cut into several files along
the range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from posixpath import basename

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.file_formats import BLOB, VECTOR_INFIX
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks import Mask


def stitched_frame(
    plan: ScanPlan, section: Section, fields: Sequence[DataField], masks: Sequence[Mask], store: FileStore
) -> pl.LazyFrame:
    """Returns rows of the section with the columns `fields`; columns that no file holds are null.

    Raises:
        Unsupported: the files do not cover the same row ids.
    """
    sources = _sources(plan, section, fields)
    parts = [_part(plan, section, files, columns, store) for files, columns in sources.items()]
    if not parts:
        # No file holds any wanted column: only the row count is needed.
        parts = [file_frame(plan, section, [section.files[0]], (), store, position=True)]
    frame = parts[0] if len(parts) == 1 else pl.concat(parts, how="horizontal")
    found = {field.name for columns in sources.values() for field in columns}
    nulls = [pl.lit(None, dtype=polars_dtype(f.type)).alias(f.name) for f in fields if f.name not in found]
    frame = frame.with_columns(nulls).select(cols(field.name for field in fields))
    for mask in masks:
        if mask is not None:
            frame = frame.filter(pl.lit(mask))
    return frame


def _sources(
    plan: ScanPlan, section: Section, fields: Sequence[DataField]
) -> Mapping[tuple[DataFile, ...], tuple[DataField, ...]]:
    """Returns the files that each column comes from; columns of the same files are read together."""
    newest_first = sorted(section.files, key=lambda file: -file.max_sequence)
    first, rows = _row_range(section)
    sources: dict[tuple[DataFile, ...], tuple[DataField, ...]] = {}
    for field in fields:
        holding = _holding(plan, newest_first, field)
        if not holding and field.name not in plan.schema.partition_keys:
            continue
        files = _covering(holding or [newest_first[0]], first, rows)
        sources[files] = (*sources.get(files, ()), field)
    return sources


def _holding(plan: ScanPlan, newest_first: Sequence[DataFile], field: DataField) -> list[DataFile]:
    """Returns the files that hold the column; row ids and snapshot numbers come from the newest data file."""
    if virtual_columns(plan, (field,)):
        return [file for file in newest_first if not _is_dedicated(file)][:1]
    return [file for file in newest_first if field.id in _field_ids(plan, file)]


def _is_dedicated(file: DataFile) -> bool:
    """Returns whether a file holds a column of BLOBs, or the vectors alone."""
    return file.format == BLOB or VECTOR_INFIX in basename(file.path)


def _row_range(section: Section) -> tuple[int, int]:
    """Returns first row id and number of rows, taken from the files that no column has of its own."""
    whole = [file for file in section.files if not _is_dedicated(file)] or list(section.files)
    return whole[0].first_row_id or 0, whole[0].row_count


def _covering(holding: Sequence[DataFile], first: int, rows: int) -> tuple[DataFile, ...]:
    """Returns the newest file when it spans the range, else dedicated files one after another."""
    newest = holding[0]
    if (newest.first_row_id or 0, newest.row_count) == (first, rows):
        return (newest,)
    pieces = sorted(holding, key=lambda file: file.first_row_id or 0)
    reached = first
    for piece in pieces:
        if piece.first_row_id != reached:
            if _is_dedicated(piece) and len({p.max_sequence for p in pieces}) > 1:
                raise Unsupported("a column with files of its own that were rewritten in parts", where=piece.path)
            break
        reached += piece.row_count
    if reached != first + rows:
        raise Unsupported(
            f"a file of some of the row ids {first} to {first + rows - 1} that other files of columns cover",
            where=newest.path,
            hint="compact the table by the program that wrote it",
        )
    return tuple(pieces)


def _field_ids(plan: ScanPlan, file: DataFile) -> frozenset[int]:
    fields = plan.file_fields[file.schema_id]
    return frozenset(f.id for f in fields if file.write_columns is None or f.name in file.write_columns)


def _part(
    plan: ScanPlan, section: Section, files: Sequence[DataFile], fields: tuple[DataField, ...], store: FileStore
) -> pl.LazyFrame:
    frames = [file_frame(plan, section, [file], fields, store) for file in files]
    return frames[0] if len(frames) == 1 else pl.concat(frames)
