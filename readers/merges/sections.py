"""The input and output of a section's merge: which rows share a key, those rows, and the merged rows.

Masks separate the rows: those whose key has one version are read by a masked scan as usual, the others are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import polars as pl

from morrow.engine.format.row_kinds import INSERT, kind_name
from morrow.engine.format.schema import ROWKIND, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.predicate import ALWAYS, Predicate
from morrow.engine.plan.pruning import projected
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.masks import Mask
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.merges.engines import fold
from morrow.readers.merges.partial_update import groups_in_play
from morrow.readers.merges.version_masks import Rows, keep_masks, told_apart, version_masks
from morrow.readers.merges.versions import Versions, versions_of

MERGED_CACHE: ByteCache[pl.DataFrame] = ByteCache(256 << 20)
"""Merged rows by the file set of a section, of those read recently; `capacity` may be set, in bytes."""

MERGED_RANGE_ROWS = 1 << 19
"""About how many rows of a key range are merged at once: unlike masks, merges hold all columns of the rows."""

WORKERS = 2
"""Parts of a section that are merged at once."""

CACHED_ROWS = 1 << 22
"""Sections of more stored rows are merged range by range at each read and not cached."""


def merged_frame(plan: ScanPlan, section: Section, names: Sequence[str], store: FileStore) -> pl.LazyFrame:
    """Returns rows of the keys with several versions, columns `names`; the filter's part on the key is applied.

    Up to `CACHED_ROWS` stored rows they are merged now and cached; more are merged while the frame is collected, in
    memory bounded by the size of a key range.
    """
    merge = _SectionMerge(plan, section, tuple(names), store)
    if section.row_count <= CACHED_ROWS:
        return merge.cached().lazy()
    return pl.io.plugins.register_io_source(merge.streamed, schema=merge.schema, is_pure=True)


def folded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.LazyFrame:
    """Returns all rows of a section that folds, read and merged in one pass, columns `plan.read_columns`."""
    return _SectionMerge(plan, section, plan.read_columns, store).in_one_pass()


def merged_count(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Counts the rows of `merged_frame`; reads keys, ages and kinds only, and the columns that kinds depend on."""
    merge = _SectionMerge(plan, section, (), store)
    return sum(rows.height for rows in merge.complete())


@dataclass(frozen=True)
class _Part:
    """Results for some rows of each file: how their keys are distinguished (see `VersionMasks`), and the live rows."""

    single: list[Rows]
    shared: list[Rows]
    unmerged: pl.DataFrame
    merged: pl.DataFrame


@dataclass(frozen=True)
class _SectionMerge:
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
        return pl.Schema({name: polars_dtype(self.plan.schema.by_name[name].type) for name in self.names})

    @property
    def _key_filter(self) -> Predicate:
        """The filter's conditions on the key: all versions of a key satisfy them, or none."""
        return projected(self.plan.filter.predicate, frozenset((*self.spec.key, *self.plan.schema.partition_keys)))

    def cached(self) -> pl.DataFrame:
        def make() -> tuple[pl.DataFrame, int]:
            parts = [rows.select(cols(self.names)) for rows in self.complete()]
            rows = pl.concat(parts) if parts else pl.DataFrame(schema=self.schema)
            return rows, int(rows.estimated_size())

        return MERGED_CACHE.get_or_make(self._cache_key, make)

    @property
    def _cache_key(self) -> Hashable:
        place = self.store.url(self.plan.table), self.plan.schema.id, self.section
        return "merged", *place, self.store.checks_pages, self.spec, self.names, self._key_filter

    def in_one_pass(self) -> pl.LazyFrame:
        """Reads single versions and merged rows; the masks computed from the keys are cached for the next read."""
        keys = SectionKeys.of(self.plan, self.section, self.store)
        frames = keys.read_whole([field.name for field in self._values(keys)])
        with ThreadPoolExecutor(WORKERS) as pool:
            parts = list(pool.map(lambda part: self._part(keys, part), keys.parts(frames)))
        single = [np.concatenate(rows) for rows in zip(*(part.single for part in parts))]
        shared = [np.concatenate(rows) for rows in zip(*(part.shared for part in parts))]
        keep_masks(self.plan, self.section, self.store, single, shared)
        merged = pl.concat([part.merged for part in parts])
        MERGED_CACHE.put(self._cache_key, merged, int(merged.estimated_size()))
        return pl.concat([*(part.unmerged for part in parts), merged]).lazy()

    def _part(self, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> _Part:
        heights = [frame.height for frame in frames]
        # In one piece: rows are gathered from all of it.
        rows = pl.concat(frames, rechunk=True)
        deciding, by_key = keys.keyed([keys.deciding(rows)], lambda: [keys.unpacked(rows)])
        levels = keys.levels(range(len(frames)), heights)
        versions = versions_of(by_key, deciding.select(cols(keys.age)), keys.descending, heights, levels)
        single, shared = told_apart(keys, deciding, versions)
        ends = np.cumsum(heights)[:-1]
        merged = self._merged(keys, rows, versions).select(cols(self.names))
        unmerged = rows.select(cols(self.names)).filter(pl.Series(single))
        return _Part(np.split(single, ends), np.split(shared, ends), unmerged, merged)

    def streamed(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        batch_rows: int | None,  # noqa: ARG002 - Polars' own signature; a key range is a batch
    ) -> Iterator[pl.DataFrame]:
        """Yields the merged rows, a key range at a time, as Polars asks for them."""
        wanted = self.names if columns is None else columns
        for rows in self.complete():
            kept = rows if predicate is None else rows.filter(predicate)
            kept = kept.select(cols(wanted)) if limit is None else kept.select(cols(wanted)).head(limit)
            yield kept
            limit = None if limit is None else limit - kept.height
            if limit == 0:
                return

    def complete(self) -> Iterator[pl.DataFrame]:
        """Yields existing merged rows, a key range at a time: key, `names`, ``_SEQUENCE_NUMBER`` (where read), kind."""
        masks = version_masks(self.plan, self.section, self.store)
        keys = SectionKeys.of(self.plan, self.section, self.store)
        shared = [masks.shared[i] for i in oldest_first(self.section)]
        fields = self._fields(keys)
        for part in keys.ranges_of(MERGED_RANGE_ROWS):
            frames = self._read(keys, part, shared, fields)
            rows = pl.concat(frames) if frames else None
            if rows is None or rows.is_empty():
                continue
            heights = [frame.height for frame in frames]
            versions = versions_of(
                rows.select(cols(self.spec.key)), rows.select(cols(keys.age)), keys.descending, heights
            )
            yield self._merged(keys, rows, versions)

    def _merged(self, keys: SectionKeys, rows: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        values = [self.plan.schema.by_name[name] for name in self.names if name in self._merged_names]
        merged = fold(self.spec, values, rows, versions, where=self.plan.table)
        if ROWKIND in self.names:
            merged = merged.with_columns(kind_name())  # of the merged row, not of its newest version
        dropping = keys.with_kind and not self.spec.keeps_retractions
        return merged.filter(pl.col(VALUE_KIND) == INSERT) if dropping else merged

    @property
    def _merged_names(self) -> frozenset[str]:
        folded = {column.name for column in self.spec.columns}
        return frozenset(name for name in self.names if name in folded)

    def _values(self, keys: SectionKeys) -> list[DataField]:
        """Returns the wanted columns and the inputs of their merge."""
        groups = groups_in_play(self.spec, self._merged_names, retracts=keys.with_kind)
        deciding = (name for group in groups.values() for name in group.sequence)
        return [self.plan.schema.by_name[name] for name in dict.fromkeys((*self.names, *deciding))]

    def _fields(self, keys: SectionKeys) -> tuple[DataField, ...]:
        """Returns the columns to read: those of the key and of age and kind, and the values."""
        return tuple(dict.fromkeys((*keys.key_fields, *keys.other_fields, *self._values(keys))))

    def _read(
        self, keys: SectionKeys, part: KeyRange, shared: Sequence[Mask], fields: Sequence[DataField]
    ) -> list[pl.DataFrame]:
        """Reads the rows of the range whose keys have several versions, oldest file first."""
        key_filter = self._key_filter
        frames = []
        for number in part.files:
            mask = shared[number]
            if mask is None:
                continue
            frame = file_frame(
                self.plan, self.section, [keys.files[number]], fields, self.store, position=not part.whole
            )
            if part.whole:
                frame = frame.filter(pl.lit(mask))
            else:
                frame = part.within(frame, keys.key_fields[0].name)
                frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION))).drop(POSITION)
            if key_filter != ALWAYS:
                frame = frame.filter(expressions.compile(key_filter, self.plan.schema.fields))
            frames.append(frame)
        with reading_files(self.plan, [self.section], tuple(fields), self.store):
            return pl.collect_all(frames) if frames else []
