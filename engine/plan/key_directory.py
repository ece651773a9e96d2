"""The files of a snapshot by bucket, partition and key, so that planning for a few keys does not visit all entries.

A filter on columns of the key and the partition selects files by metadata alone. The directory is made once for a
snapshot, with the plan of all rows; a plan for some keys takes its files from the directory. Such a plan has the same
files, in the same sections, as one made without the directory.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import Value, decode_columns, to_python_rows
from morrow.engine.format.manifest_entries import ColumnStats
from morrow.engine.format.schema import TableSchema
from morrow.engine.names import BUCKET_NUMBER
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import decode_partition_values
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import (
    StatsFrame,
    compute_pinned_buckets,
    has_misplaced_keys,
    mask_by_index,
    mask_by_stats,
    mask_changed_keys,
    project_predicate,
    read_key_stats,
)
from morrow.engine.plan.scan_plan import DataFile, PruneStep, ScanPlan, Section, SectionKind
from morrow.engine.plan.sections import decode_key_bounds, number_buckets, number_sections, rank_keys
from morrow.engine.structs import replace

MAX_DIRECTORY_FILES = 1 << 14
"""The limit of files of a snapshot with a directory; beyond it, a plan decodes only the manifests in question."""
DIRECTORY_COLUMNS = (
    *("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE_NAME", "_EXTERNAL_PATH", "_SCHEMA_ID", "_ROW_COUNT"),
    *("_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_EMBEDDED_FILE_INDEX", "_EXTRA_FILES", BUCKET_NUMBER),
)
"""The columns of entries that a directory holds."""
FILE_BYTES = 1000
"""Estimated memory in bytes of one file in a directory."""

Key: TypeAlias = tuple[Value, ...]


class KeyDirectory(msgspec.Struct, frozen=True, dict=True):
    """The files of a plan of all rows, and their entries, by bucket and within a bucket by the least key."""

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    plan: ScanPlan
    entries: pl.DataFrame
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """The approximate memory in bytes."""
        return FILE_BYTES * self.entries.height

    def find_files(self, filter: Filter) -> ScanPlan:
        """Return the plan of the files that may hold rows of a filter that `is_on_keys`."""
        steps, height = list(self.plan.steps), self.entries.height
        kept = np.ones(height, bool)
        buckets = self._mask_buckets(filter) if height else None
        if buckets is not None and not buckets.all():
            steps.append(PruneStep("files by bucket", int(buckets.sum()), height))
            kept = buckets
        part = project_predicate(filter.predicate, self._columns)
        if part != ALWAYS and kept.any():
            matching = kept & mask_by_stats(part, self._stats)
            steps.append(PruneStep("files by key range", int(matching.sum()), int(kept.sum())))
            kept = matching
        numbers = np.flatnonzero(kept)
        sections = self._number_sections(numbers)
        if raw := int((sections < 0).sum()):
            # For key and partition columns, the statistics of values equal those of keys.
            steps.append(PruneStep("raw files by statistics", raw, raw))
        if raw and self._has_index[numbers].any():
            numbers, sections = self._prune_by_index(filter, numbers, sections, steps)
        schemas = {self.files[number].schema_id for number in numbers.tolist()}
        return replace(
            self.plan,
            filter=filter,
            sections=self._build_sections(numbers, sections),
            steps=tuple(steps),
            file_fields={each: fields for each, fields in self.plan.file_fields.items() if each in schemas},
        )

    @cached_property
    def _columns(self) -> frozenset[str]:
        return frozenset((*self.schema.trimmed_primary_keys, *self.schema.partition_keys))

    @cached_property
    def _groups(self) -> npt.NDArray[np.int64]:
        return number_buckets(self.entries)

    @cached_property
    def _totals(self) -> npt.NDArray[np.int64]:
        return self.entries["_TOTAL_BUCKETS"].to_numpy().astype(np.int64)

    @cached_property
    def _buckets(self) -> npt.NDArray[np.int64]:
        return self.entries["_BUCKET"].to_numpy().astype(np.int64)

    @cached_property
    def _bounds(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[Key], list[Key]]:
        """The ranks of the least and greatest key of each file, and these keys."""
        keys = decode_key_bounds(self.metadata, self.schema, self.entries)
        low, high = rank_keys(keys).reshape(2, -1)
        rows, height = to_python_rows(keys, where=self.metadata.where), self.entries.height
        return low, high, rows[:height], rows[height:]

    @cached_property
    def _partitions(self) -> list[tuple[Value | None, ...]]:
        stored = self.entries["_PARTITION"].to_frame()
        return list(decode_partition_values(self.schema, stored, where=self.metadata.where))

    @cached_property
    def _is_misplaced(self) -> bool:
        return has_misplaced_keys(self.metadata, self.schema, self.options, self.entries)

    @cached_property
    def _changed_keys(self) -> npt.NDArray[np.bool_]:
        return mask_changed_keys(self.metadata, self.schema, self.options, self.entries).to_numpy()

    @cached_property
    def _has_index(self) -> npt.NDArray[np.bool_]:
        beside = self.entries["_EXTRA_FILES"].list.len().fill_null(0) > 0
        return (self.entries["_EMBEDDED_FILE_INDEX"].is_not_null() | beside).to_numpy()

    @cached_property
    def _stats(self) -> StatsFrame:
        """The bounds of key columns, and the values of partition columns as exact bounds."""
        rows, names = self.entries["_ROW_COUNT"], self.schema.partition_keys
        types = [self.schema.by_name[name].type for name in names]
        values = decode_columns(self.entries["_PARTITION"], types, where=self.metadata.where) if names else ()
        exact = {
            name: ColumnStats(each, each, each.is_null().cast(pl.Int64) * rows) for name, each in zip(names, values)
        }
        return StatsFrame(
            rows,
            {**read_key_stats(self.metadata, self.schema, self.schema.trimmed_primary_keys, self.entries), **exact},
        )

    def _mask_buckets(self, filter: Filter) -> npt.NDArray[np.bool_] | None:
        """Mask the files whose bucket may hold the keys; None if the filter does not name a bucket."""
        found = compute_pinned_buckets(
            self.schema, self.options, filter.predicate, lambda: {*self._totals[self._buckets >= 0].tolist()}
        )
        if found is None or self._is_misplaced:
            return None
        kept = np.ones(len(self._buckets), bool)
        for total, buckets in found.items():
            kept &= (self._totals != total) | np.isin(self._buckets, buckets)
        return kept | self._changed_keys

    def _number_sections(self, numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Return the section of each of these files, as `divide_entries` does; numbers below 0 are RAW sections."""
        groups = self._groups[numbers]
        if self.plan.merge is None or self.plan.merge.hides_level_zero:
            return -1 - groups
        low, high, _, _ = self._bounds
        sections = number_sections(groups, low[numbers], high[numbers])
        merged = np.bincount(sections)[sections] > 1 if len(sections) else np.empty(0, bool)
        return np.where(merged, sections, -1 - groups)

    def _prune_by_index(
        self,
        filter: Filter,
        numbers: npt.NDArray[np.intp],
        sections: npt.NDArray[np.int64],
        steps: list[PruneStep],
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """Drop files of RAW sections whose index excludes the filter."""
        raw = np.flatnonzero((sections < 0) & self._has_index[numbers])
        mask = mask_by_index(self.metadata, self.schema, self.options, filter.predicate, self.entries[numbers[raw]])
        if mask is None:
            return numbers, sections
        steps.append(PruneStep("raw files by index", int(mask.sum()), len(mask)))
        kept = np.ones(len(numbers), bool)
        kept[raw] = mask.to_numpy()
        return numbers[kept], sections[kept]

    def _build_sections(self, numbers: npt.NDArray[np.intp], sections: npt.NDArray[np.int64]) -> tuple[Section, ...]:
        within: dict[int, list[int]] = {}
        for number, section in zip(numbers.tolist(), sections.tolist()):
            within.setdefault(section, []).append(number)
        ordered = sorted(within.items(), key=lambda item: item[0] < 0)  # RAW sections come last
        return tuple(self._build_section(files, merges=section >= 0) for section, files in ordered)

    def _build_section(self, numbers: list[int], *, merges: bool) -> Section:
        first = numbers[0]
        bounds: tuple[Key | None, Key | None] = (None, None)
        if merges:
            _, high, least, greatest = self._bounds
            bounds = least[first], greatest[max(numbers, key=high.__getitem__)]
        return Section(
            SectionKind.MERGE if merges else SectionKind.RAW,
            self._partitions[first],
            int(self._buckets[first]),
            tuple(self.files[number] for number in numbers),
            *bounds,
            partition_row=self._rows[first],
        )

    @cached_property
    def _rows(self) -> list[bytes]:
        """The partition of each file as metadata stores it."""
        return self.entries["_PARTITION"].to_list()
