"""The merge of one section: the columns that it takes, the rows of keys with several versions, those rows folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.format.row_kinds import INSERT, build_rowkind
from morrow.engine.format.schema import ROWKIND, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.predicate import ALWAYS, Predicate
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import collect_frames, scan_files, translate_file_errors
from morrow.readers.masks import Mask
from morrow.readers.masks.section_keys import KeyRange, SectionKeys, order_by_age
from morrow.readers.merges.engines import find_needed_groups, fold
from morrow.readers.merges.version_masks import Versions, compute_version_masks, find_versions

MERGED_RANGE_ROWS = 1 << 19
"""Approximate rows of a key range merged at once: unlike masks, merges hold all columns of the rows."""


@dataclass(frozen=True)
class SectionMerge:
    """The merge of the columns `names` of a section."""

    plan: ScanPlan
    section: Section
    names: tuple[str, ...]
    store: FileStore

    @property
    def spec(self) -> MergeSpec:
        assert self.plan.merge is not None
        return self.plan.merge

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({name: to_polars_dtype(self.plan.schema.by_name[name].type) for name in self.names})

    @property
    def key_filter(self) -> Predicate:
        """The filter's conditions on the key: all versions of a key satisfy them, or none."""
        return project_predicate(
            self.plan.filter.predicate, frozenset((*self.spec.key, *self.plan.schema.partition_keys))
        )

    @property
    def key_schema(self) -> pl.Schema:
        return pl.Schema({name: to_polars_dtype(self.plan.schema.by_name[name].type) for name in self.spec.key})

    def complete(self) -> Iterator[pl.DataFrame]:
        """Yield existing merged rows, a key range at a time: key, `names`, ``_SEQUENCE_NUMBER`` (if read), kind."""
        masks = compute_version_masks(self.plan, self.section, self.store)
        keys = SectionKeys.of(self.plan, self.section, self.store)
        shared = [masks.shared[i] for i in order_by_age(self.section)]
        fields = self.fields(keys)
        for part in keys.ranges_of(MERGED_RANGE_ROWS):
            yield from self.merged_once(keys, self.read(keys, part, shared, fields))

    def streamed(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        batch_rows: int | None,  # noqa: ARG002 - Polars' own signature; a key range is a batch
    ) -> Iterator[pl.DataFrame]:
        """Yield the merged rows, a key range at a time, as Polars asks for them."""
        wanted = self.names if columns is None else columns
        for rows in self.complete():
            kept = rows if predicate is None else rows.filter(predicate)
            kept = kept.select(cols(wanted)) if limit is None else kept.select(cols(wanted)).head(limit)
            yield kept
            limit = None if limit is None else limit - kept.height
            if limit == 0:
                return

    def merged_once(self, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the merged rows of frames, one frame per file, the oldest first; yield nothing without frames."""
        if frames:
            yield from self.merged_runs(keys, pl.concat(frames), [frame.height for frame in frames])

    def merged_runs(self, keys: SectionKeys, rows: pl.DataFrame, heights: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield the merged rows of concatenated files; `heights` has the number of rows of each file."""
        if rows.is_empty():
            return
        versions = find_versions(
            rows.select(cols(self.spec.key)), rows.select(cols(keys.age)), keys.descending, heights
        )
        yield self.merged(keys, rows, versions)

    def merged(self, keys: SectionKeys, rows: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        values = [self.plan.schema.by_name[name] for name in self.names if name in self._merged_names]
        merged = fold(self.spec, values, rows, versions, where=self.plan.table)
        if ROWKIND in self.names:
            merged = merged.with_columns(build_rowkind())  # of the merged row, not of its newest version
        dropping = keys.with_kind and not self.spec.keeps_retractions
        return merged.filter(pl.col(VALUE_KIND) == INSERT) if dropping else merged

    @property
    def _merged_names(self) -> frozenset[str]:
        folded = {column.name for column in self.spec.columns}
        return frozenset(name for name in self.names if name in folded)

    def values(self, keys: SectionKeys) -> list[DataField]:
        """Return the wanted columns and the inputs of their merge."""
        groups = find_needed_groups(self.spec, self._merged_names, retracts=keys.with_kind)
        deciding = (name for group in groups.values() for name in group.sequence)
        return [self.plan.schema.by_name[name] for name in dict.fromkeys((*self.names, *deciding))]

    def fields(self, keys: SectionKeys) -> tuple[DataField, ...]:
        """Return the columns to read: key columns, columns of age and kind, and values."""
        return tuple(dict.fromkeys((*keys.key_fields, *keys.other_fields, *self.values(keys))))

    def read(
        self, keys: SectionKeys, part: KeyRange, shared: Sequence[Mask], fields: Sequence[DataField]
    ) -> list[pl.DataFrame]:
        """Read the rows of the range whose keys have several versions, oldest file first."""
        key_filter = self.key_filter
        frames = []
        for number in part.files:
            mask = shared[number]
            if mask is None:
                continue
            frame = scan_files(
                *(self.plan, self.section, [keys.files[number]], fields, self.store), position=not part.whole, live=mask
            )
            if part.whole:
                frame = frame.filter(pl.lit(mask))
            else:
                frame = part.within(frame, keys.key_fields[0].name)
                frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION))).drop(POSITION)
            if key_filter != ALWAYS:
                frame = frame.filter(expressions.compile(key_filter, self.plan.schema.fields))
            frames.append(frame)
        with translate_file_errors(self.plan, [self.section], tuple(fields), self.store):
            # A stream avoids holding whole files in memory before their rows are selected.
            return collect_frames(frames, stream=part.whole)
