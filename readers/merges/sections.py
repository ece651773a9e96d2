"""The input and output of a section's merge: which rows share a key, those rows, and the merged rows.

Masks separate the rows: those whose key has one version are read by a masked scan as usual, the others are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.row_kinds import INSERT, kind_name
from morrow.engine.format.schema import ROWKIND, VALUE_KIND
from morrow.engine.format.types import DataField
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
from morrow.readers.files.virtual_columns import depend_on_file
from morrow.readers.masks import Mask, long_mask
from morrow.readers.masks.file_keys import file_keys, fingerprints
from morrow.readers.masks.folder import Entry, of_bucket, of_files
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.refresh import Changed, changed, nearest, remember
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.merges.engines import fold
from morrow.readers.merges.merged import MERGED_CACHE, Merged
from morrow.readers.merges.partial_update import groups_in_play
from morrow.readers.merges.version_masks import Rows, keep_masks, shared_keys, told_apart, version_masks
from morrow.readers.merges.versions import Versions, versions_of

MERGED_RANGE_ROWS = 1 << 19
"""About how many rows of a key range are merged at once: unlike masks, merges hold all columns of the rows."""

WORKERS = 2
"""Parts of a section that are merged at once."""

MERGED = "merged"
"""What merged rows are called in keys of caches."""

OFTEN = 16
"""Merged rows go into the cache folder again when one in so many has changed."""

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


def folded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Returns all rows of a section that folds, read and merged in one pass, columns `plan.read_columns`."""
    return _SectionMerge(plan, section, plan.read_columns, store).in_one_pass()


def refolded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame | None:
    """Returns the rows of `folded_section` where most of the merged rows are known from an earlier state.

    The columns are then read once, and keys that have changed are merged from what was read. None where merged rows are
    cached already, or where too much has changed.
    """
    return _SectionMerge(plan, section, plan.read_columns, store).refolded()


def merged_count(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Counts the rows of `merged_frame`; reads keys, ages and kinds only, and the columns that kinds depend on."""
    counted = section.cut is None and plan.filter.predicate == ALWAYS
    if counted and not SectionKeys.of(plan, section, store).with_kind:
        version_masks(plan, section, store)
        keys = shared_keys(plan, section, store)
        if keys is not None:
            return keys  # without retractions every key has a row
    merge = _SectionMerge(plan, section, (), store)
    return sum(rows.height for rows in merge.complete())


@dataclass(frozen=True)
class _Part:
    """Results for some rows of each file: how their keys are distinguished (see `VersionMasks`), the live rows, and
    the number of keys of several versions."""

    single: list[Rows]
    shared: list[Rows]
    unmerged: pl.DataFrame
    merged: Merged
    keys: int


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
        found = self._known(self.section) or self._keep(self._refolded() or self._folded())
        return found.rows

    def _known(self, section: Section) -> Merged | None:
        """Returns the merged rows of a section from memory, or from the cache folder."""
        found = MERGED_CACHE.get((self._place, section))
        if found is None and (entry := self._entry(section)) is not None:
            kept = entry.frame()
            found = None if kept is None else Merged.of_frame(kept, self.schema)
            if found is not None:
                MERGED_CACHE.put((self._place, section), found, found.size)
                remember(self._place, section, None)
        return found

    def _keep(self, merged: Merged) -> Merged:
        """Caches merged rows; in the folder only where many have changed since it was last given some."""
        entry = self._entry(self.section)
        worth = not merged.since or merged.since * OFTEN > merged.rows.height
        if entry is not None and worth:
            entry.keep_frame(merged.framed)
            merged = replace(merged, since=0)
        MERGED_CACHE.put(self._cache_key, merged, merged.size)
        remember(self._place, self.section, self._of_bucket(), keep=worth)
        return merged

    def _entry(self, section: Section) -> Entry | None:
        if self._key_filter != ALWAYS:
            return None
        return of_files(self.plan, section, section.files, self.store, MERGED, self.names)

    def _of_bucket(self) -> Entry | None:
        if self._key_filter != ALWAYS:
            return None
        return of_bucket(self.plan, self.section, self.store, MERGED, self.names)

    def _folded(self) -> Merged:
        parts = [self._told(rows) for rows in self.complete()]
        empty = self._told(pl.DataFrame(schema={**self._key_schema, **self.schema}))
        return empty.changed(empty.fingerprints, parts) if parts else empty

    @property
    def _key_schema(self) -> pl.Schema:
        return pl.Schema({name: polars_dtype(self.plan.schema.by_name[name].type) for name in self.spec.key})

    def _told(self, rows: pl.DataFrame) -> Merged:
        return Merged(rows.select(cols(self.names)), fingerprints(rows.select(cols(self.spec.key))))

    @property
    def _place(self) -> Hashable:
        place = self.store.url(self.plan.table), self.plan.schema.id
        return MERGED, *place, self.store.checks_pages, self.spec, self.names, self._key_filter

    @property
    def _cache_key(self) -> Hashable:
        return self._place, self.section

    def _changed(self) -> tuple[Merged, Changed] | None:
        """Returns the merged rows of an earlier state of the section, and what has changed since."""
        base = nearest(self._place, self.section, self._of_bucket())
        known = None if base is None else self._known(base)
        found = None if base is None or known is None else changed(self.plan, self.section, base, self.store)
        return None if known is None or found is None else (known, found)

    def _shared(self, found: Changed) -> list[Rows]:
        """Returns for each of the rows that have changed whether its key has several versions."""
        masks = version_masks(self.plan, self.section, self.store).shared
        of_files = [masks[i] for i in oldest_first(self.section)]
        return [
            np.zeros(len(rows), bool) if mask is None else mask.gather(rows).to_numpy()
            for mask, rows in zip(of_files, found.rows)
        ]

    def _refolded(self) -> Merged | None:
        """Merges the keys that have changed since an earlier state, reading the values of their rows."""
        change = self._changed()
        if change is None:
            return None
        known, found = change
        masks: list[Mask] = []
        for file, rows, shared in zip(found.keys.files, found.rows, self._shared(found)):
            mask = np.zeros(file.row_count, bool)
            mask[rows[shared]] = True
            masks.append(pl.Series(mask) if shared.any() else None)
        frames = self._read(found.keys, found.keys.everything, masks, self._fields(found.keys))
        return known.changed(found.wanted, [self._told(rows) for rows in self._merged_once(found.keys, frames)])

    def refolded(self) -> pl.DataFrame | None:
        """Returns all rows of the section, merging the keys that have changed; see `refolded_section`."""
        if self._known(self.section) is not None:
            return None
        change = self._changed()
        if change is None:
            return None
        known, found = change
        wanted = [self.plan.schema.by_name[name] for name in self.names]
        inputs = [field for field in self._values(found.keys) if field not in wanted]
        rows = self._read_whole(found.keys, wanted)
        starts = np.cumsum([0, *(file.row_count for file in found.keys.files)])
        shared = self._shared(found)
        numbers = np.concatenate([start + row[kept] for start, row, kept in zip(starts, found.rows, shared)])
        deciding = [frame.filter(pl.Series(kept)) for frame, kept in zip(self._with(found, inputs), shared)]
        picked = rows[numbers].select(cols(name for name in rows.columns if name not in deciding[0].columns))
        ends = np.cumsum([frame.height for frame in deciding])
        frames = [
            pl.concat([frame, picked[end - frame.height : end]], how="horizontal") for frame, end in zip(deciding, ends)
        ]
        new = [self._told(each) for each in self._merged_once(found.keys, frames)]
        merged = self._keep(known.changed(found.wanted, new)).rows
        masks = version_masks(self.plan, self.section, self.store).single
        mask = long_mask(found.keys.files, [masks[i] for i in oldest_first(self.section)])
        return pl.concat([rows if mask is None else rows.filter(mask), merged])

    def _with(self, found: Changed, fields: Sequence[DataField]) -> list[pl.DataFrame]:
        """Returns the deciding columns of the rows that have changed, with `fields`, which are kept like those."""
        if not fields:
            return list(found.frames)
        files = file_keys(self.plan, self.section, found.keys.files, fields, (), self.store)
        more = [[name for name in each.frame.columns if name not in found.frames[0].columns] for each in files]
        return [
            pl.concat([frame, each.frame[rows].select(cols(names))], how="horizontal")
            for frame, each, rows, names in zip(found.frames, files, found.rows, more)
        ]

    def _read_whole(self, keys: SectionKeys, fields: Sequence[DataField]) -> pl.DataFrame:
        """Reads all rows of the files, one file after another, the oldest first."""
        shapes = {(file.schema_id, file.format, file.write_columns) for file in keys.files}
        one_by_one = len(shapes) > 1 or depend_on_file(self.plan, fields)
        groups = [[file] for file in keys.files] if one_by_one else [list(keys.files)]
        frames = [file_frame(self.plan, self.section, group, fields, self.store) for group in groups]
        with reading_files(self.plan, [self.section], tuple(fields), self.store):
            read = pl.collect_all(frames)
        for group, frame in zip(groups, read):
            if frame.height != sum(file.row_count for file in group):
                raise CorruptFile(group[0].path, f"{frame.height} rows in this and others, not those of the manifests")
        return pl.concat(read)

    def _merged_once(self, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yields the merged rows of frames by file, the oldest first; nothing where there are none."""
        rows = pl.concat(frames) if frames else None
        if rows is None or rows.is_empty():
            return
        heights = [frame.height for frame in frames]
        versions = versions_of(rows.select(cols(self.spec.key)), rows.select(cols(keys.age)), keys.descending, heights)
        yield self._merged(keys, rows, versions)

    def in_one_pass(self) -> pl.DataFrame:
        """Reads single versions and merged rows; the masks computed from the keys are cached for the next read."""
        keys = SectionKeys.of(self.plan, self.section, self.store)
        frames = keys.read_whole([field.name for field in self._values(keys)])
        with ThreadPoolExecutor(WORKERS) as pool:
            parts = list(pool.map(lambda part: self._part(keys, part), keys.parts(frames)))
        single = [np.concatenate(rows) for rows in zip(*(part.single for part in parts))]
        shared = [np.concatenate(rows) for rows in zip(*(part.shared for part in parts))]
        keep_masks(self.plan, self.section, self.store, single, shared, sum(part.keys for part in parts))
        empty, *others = [part.merged for part in parts]
        merged = self._keep(empty.changed(np.empty(0, np.int64), others) if others else empty).rows
        return pl.concat([*(part.unmerged for part in parts), merged])

    def _part(self, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> _Part:
        heights = [frame.height for frame in frames]
        # In one piece: rows are gathered from all of it.
        rows = pl.concat(frames, rechunk=True)
        deciding, by_key = keys.keyed([keys.deciding(rows)], lambda: [keys.unpacked(rows)])
        levels = keys.levels(range(len(frames)), heights)
        versions = versions_of(by_key, deciding.select(cols(keys.age)), keys.descending, heights, levels)
        single, shared = told_apart(keys, deciding, versions)
        ends = np.cumsum(heights)[:-1]
        merged = self._told(self._merged(keys, rows, versions))
        unmerged = rows.select(cols(self.names)).filter(pl.Series(single))
        return _Part(np.split(single, ends), np.split(shared, ends), unmerged, merged, versions.rounds.keys)

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
            yield from self._merged_once(keys, self._read(keys, part, shared, fields))

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
