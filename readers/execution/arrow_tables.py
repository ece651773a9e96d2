"""Full reads of files that Arrow decodes, straight to an Arrow table: the rows never pass through Polars.

Masks are applied to each decoded batch in the thread that decoded it, so a table costs little more than its files. Only
plans without a filter, whose columns come unchanged from the files, are read this way; all others are read as frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND_FIELD
from morrow.engine.format.type_equality import same_values
from morrow.engine.format.types import DataField, arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.progress import advance
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import conform, to_arrow_array
from morrow.readers.casts.evolution import file_columns
from morrow.readers.execution.fetched_reads import is_fetched
from morrow.readers.files.fetched import FetchedStore, fetching
from morrow.readers.files.file_frames import constant_of, source_of, written_fields
from morrow.readers.files.registry import file_reader
from morrow.readers.files.source import FileSource, check_rows, reading
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks import Mask
from morrow.readers.merges.version_masks import is_folded


def is_arrow_only(plan: ScanPlan) -> bool:
    """Returns whether `arrow_table` reads the rows of this plan, which has neither filter nor limit."""
    if any(virtual_columns(part, part.fields) for part in plan.parts):
        return False
    return all(_is_plain(part, section) for part in plan.parts for section in part.sections) and all(
        _needs_no_cast(part, file) for part in plan.parts for file in _shapes(part)
    )


def arrow_table(
    plan: ScanPlan, masks: Sequence[Sequence[Sequence[Mask]]], store: FileStore, *, counts: bool = False
) -> pa.Table:
    """Reads all rows into an Arrow table of exactly `arrow_schema(plan.fields)`, one chunk per decoder chunk.

    Args:
        plan: one for which `is_arrow_only` holds.
        masks: the result of `scan_masks` for each part of the plan and each of its sections.
        counts: count the rows of each file that is read as progress.

    Raises:
        CorruptFile, FileMissing, Unsupported, StorageError: as decoding the files does.
    """
    with nullcontext(store) if store.is_local else fetching(store) as source:
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
        with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
            for i, found in zip(order, pool.map(_MaskedFile.batches, [files[i] for i in order])):
                read[i] = found
                if isinstance(source, FetchedStore):
                    source.drop([files[i].file])
                if counts:
                    advance(rows=files[i].file.row_count)
    batches = [batch for i in range(len(files)) for batch in read[i]]
    return pa.Table.from_batches(batches, arrow_schema(plan.fields))


def _is_plain(plan: ScanPlan, section: Section) -> bool:
    """Returns whether every row of the section is stored as a row of one of its files, and all decode to Arrow."""
    stored = section.kind is not SectionKind.STITCH and not is_folded(plan, section)
    return stored and all(_decodes_to_arrow(file) for file in section.files)


def _decodes_to_arrow(file: DataFile) -> bool:
    return file_reader(file.format, file.path).stripes is not None


def _shapes(plan: ScanPlan) -> list[DataFile]:
    """Returns one file for each distinct set of written columns."""
    files = (file for section in plan.sections for file in section.files)
    return list({(file.schema_id, file.write_columns): file for file in files}.values())


def _needs_no_cast(plan: ScanPlan, file: DataFile) -> bool:
    written = {field.id: field for field in written_fields(plan, file)}
    return all(same_values(written[field.id].type, field.type) for field in plan.fields if field.id in written)


class _MaskedFile(msgspec.Struct, frozen=True):
    """A data file and its live rows; None: all rows except retractions."""

    plan: ScanPlan
    section: Section
    file: DataFile
    mask: Mask
    store: FileStore
    fields: tuple[DataField, ...]
    """The columns of the rows; their types may be nullable where those of the plan are not."""

    def batches(self) -> list[pa.RecordBatch]:
        """Returns the live rows, columns `fields`, one batch per chunk of the decoder."""
        source = source_of(self.file, self.plan, self.store)
        with reading(self.file.path):
            return list(self._decoded(source))

    def _decoded(self, source: FileSource) -> Iterator[pa.RecordBatch]:
        stripes = file_reader(source.format, source.path).stripes
        assert stripes is not None  # of a plan for which `is_arrow_only` holds
        constants = dict(zip(self.plan.schema.partition_keys, self.section.partition))
        wanted = [field for field in self.plan.fields if field.name not in constants]
        kind = [VALUE_KIND_FIELD] if self._holds_retractions else []
        read = file_columns(written_fields(self.plan, self.file), (*wanted, *kind))
        schema = arrow_schema(self.fields)
        pairs = list(zip(self.plan.fields, self.fields, strict=True))
        rows = 0
        for stripe in stripes(source, read):
            stored = dict(zip((field.id for field in read), stripe.columns, strict=True))
            columns = [
                self._constant(field, stripe.rows)
                if field.name in constants
                else _column(stored, replace(field, type=shown.type), stripe.rows)
                for field, shown in pairs
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            live = self._live(rows, stripe.rows, stored.get(VALUE_KIND_FIELD.id))
            yield batch if live is None else batch.filter(live.to_arrow())
            rows += stripe.rows
        check_rows(source, rows)

    @property
    def _holds_retractions(self) -> bool:
        """Whether the scan has to drop retractions, which masks leave in; masks of a merge leave them out."""
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
        one = pl.select(constant_of(value, field)).to_series()
        return to_arrow_array(one.new_from_index(0, rows), field.type)


def _column(stored: dict[int, pa.Array], field: DataField, rows: int) -> pa.Array:
    """Returns the column with this field id; null where the file was written without it."""
    if field.id not in stored:
        return pa.nulls(rows, field.type.arrow())
    return conform(stored[field.id], field.type.arrow())
