"""Rows of some keys, read from the row groups that may hold them: no mask is made, and no other key is merged.

A filter that gives values of the first key column selects rows of each file by their keys. All versions of a key have
its key columns, so the versions that are found decide alone which row the key has: they are merged as a section of
these rows only.

Files of tables with keys are sorted. The bounds in a footer show which row groups may hold a key, and a search in
their key columns gives the positions of its rows. Bounds and key columns of row groups are cached in memory. If the
types of keys have no usable bounds, Polars filters the file's keys. The other columns are read from the pages that hold
the rows, if these are few pages of a file that allows this.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.map_shredding import has_shared_maps
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField, has_same_values
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, clear_pattern_name, cols
from morrow.engine.plan.predicate import find_columns
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.plan.sections import find_distinct
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution.strategy import WantedKeys
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import (
    collect_frames,
    list_stored_columns,
    list_virtual_columns,
    make_source,
    need_positions,
    scan_files,
    translate_file_errors,
)
from morrow.readers.files.registry import is_scanned
from morrow.readers.masks.live_rows import compute_live_masks, find_winners, read_deletion
from morrow.readers.masks.ordering import is_number
from morrow.readers.masks.section_cache import SECTIONS, make_cache_key
from morrow.readers.masks.section_keys import RANGED_TYPES, SectionKeys, read_row_groups

if TYPE_CHECKING:
    from morrow.readers.files.excerpts import Excerpt

MAX_FOUND_ROWS = 1 << 17
"""Maximum stored rows that a look-up returns; sections beyond it are scanned, which holds fewer rows at once."""
MAX_SLICES = 16
"""Maximum runs of rows that are read one by one. More rows of a file are selected by a filter on its keys."""
PAGE_ROWS = 20_000
"""Rows of a page, as Java and Arrow write them by default."""
MIN_ROWS_PER_PAGE_ROW = 8
"""Read single pages only if they hold 1/8 of the rows of a file at most: a scan decodes columns in threads."""
REQUESTS = 16
"""Maximum files of a remote store that are searched at once."""
MAX_PAGE_BYTES = 4 << 20
"""Maximum memory of the decoded rows of pages that are remembered."""
GROUP_BYTES = 200
"""Approximate memory of the bounds of a row group."""

T = TypeVar("T")
V = TypeVar("V")
Places = npt.NDArray[np.int64]
"""Positions of rows in a file, ascending."""


def look_up_rows(
    plan: ScanPlan, section: Section, wanted: WantedKeys, store: FileStore, most_rows: int
) -> pl.DataFrame | None:
    """Return the rows of a section for which the plan's filter is true, columns `plan.read_columns`.

    Returns None if more than `most_rows` stored rows have the wanted keys.

    Raises `CorruptFile`, `FileMissing`, `SnapshotExpired`, `StorageError`, `Unsupported`: a file cannot be read.
    """
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    with translate_file_errors(plan, [section], fields, store):
        found = _Lookup(plan, section, wanted, store).run(fields, most_rows)
    if found is None or wanted.exact or found.is_empty():
        return found
    return expressions.filter_rows(plan.filter, fields, found.lazy()).collect()


class _Hits(msgspec.Struct, frozen=True):
    """The rows of one file with wanted keys: their positions, and the frames of key columns that have them."""

    file: DataFile
    places: Places
    pieces: Sequence[tuple[pl.DataFrame, Places]] = ()

    @property
    def keys(self) -> pl.DataFrame:
        """The key columns of the rows."""
        found = [_take_rows(rows, places) for rows, places in self.pieces]
        return found[0] if len(found) == 1 else pl.concat(found)

    def filter_live(self, live: pl.Series) -> _Hits:
        """Return the rows that are live by the mask of the file."""
        kept = live.gather(self.places)
        return _Hits(self.file, self.places[kept.to_numpy()], [(self.keys.filter(kept), np.arange(int(kept.sum())))])


class _Lookup(msgspec.Struct, frozen=True, dict=True):
    plan: ScanPlan
    section: Section
    wanted: WantedKeys
    store: FileStore

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        return tuple(self.plan.schema.by_name[name] for name in self.plan.schema.trimmed_primary_keys)

    def run(self, fields: tuple[DataField, ...], most_rows: int) -> pl.DataFrame | None:
        hits, rows = [], 0
        for each in self._find_hits():
            rows += len(each.places)
            if rows > most_rows:
                return None
            if len(each.places) and self.section.kind is SectionKind.MERGE and each.file.deletion is not None:
                each = each.filter_live(read_deletion(each.file, self.store))
            if len(each.places):
                hits.append(each)
        if not hits:
            return pl.DataFrame(schema={field.name: to_polars_dtype(field.type) for field in fields})
        if self.section.kind is SectionKind.MERGE and len(hits) > 1:
            within = replace(self.section, files=tuple(each.file for each in hits))
            keys = SectionKeys.of(self.plan, within, self.store)
            ordered = [{each.file: each for each in hits}[file] for file in keys.files]
            return self._fold(keys, ordered) if self.plan.folds(within) else self._read_newest(keys, ordered, fields)
        found = self._map(lambda each: self._read_stored(each, fields), hits)
        return found[0] if len(found) == 1 else pl.concat(found)

    def _make_key(self, kind: str, file: DataFile, *parts: Hashable) -> Hashable:
        """Return the key in `SECTIONS` of a value from this file."""
        return (kind, self._table_key, file.path, file.size, *parts)

    @cached_property
    def _table_key(self) -> Hashable:
        return make_cache_key("lookup", self.plan, self.store)

    # --- rows of keys ---

    def _read_stored(self, hits: _Hits, fields: tuple[DataField, ...]) -> pl.DataFrame:
        """Return the live rows of a file whose keys no other file has."""
        kinds = self.plan.drops_retractions and hits.file.may_hold_retractions
        read = tuple(dict.fromkeys((*fields, VALUE_KIND_FIELD))) if kinds else fields
        mask = None
        if self.section.kind is SectionKind.RAW and hits.file.deletion is not None:
            (mask,) = compute_live_masks(self.plan, replace(self.section, files=(hits.file,)), self.store)
        rows = self._read_values(hits, None if mask is None else mask.gather(hits.places).to_numpy(), read, mask)
        if kinds:
            rows = rows.filter((rows[VALUE_KIND] & RETRACT_BIT) == 0)
        return rows.select(cols(field.name for field in fields)) if len(read) > len(fields) else rows

    def _read_newest(self, keys: SectionKeys, hits: Sequence[_Hits], fields: tuple[DataField, ...]) -> pl.DataFrame:
        """Return the newest version of each key. Values of other versions are not read."""
        versions = pl.concat(self._map(lambda each: self._read_values(each, None, keys.deciding_fields), hits))
        heights = [len(each.places) for each in hits]
        live = find_winners(keys, versions, versions.select(cols(keys.spec.key)), heights)
        chosen = list(zip(hits, np.split(live, np.cumsum(heights)[:-1])))
        frames = self._map(
            lambda each: self._read_values(each[0], each[1], fields),
            [each for each in chosen if each[1].any()] or chosen[:1],
        )
        return frames[0] if len(frames) == 1 else pl.concat(frames)

    def _fold(self, keys: SectionKeys, hits: Sequence[_Hits]) -> pl.DataFrame:
        """Return the merged versions of each key."""
        # Imported here: the functions of merge engines import libraries that other tables do not need.
        from morrow.readers.merges.sections import SectionMerge
        from morrow.readers.merges.version_masks import find_versions, split_by_versions

        merge = SectionMerge(self.plan, keys.section, self.plan.read_columns, self.store)
        fields = merge.fields(keys)
        rows = pl.concat(self._map(lambda each: self._read_values(each, None, fields), hits))
        heights = [len(each.places) for each in hits]
        levels = keys.levels(range(len(hits)), heights)
        by_key, age = rows.select(cols(keys.spec.key)), rows.select(cols(keys.age))
        versions = find_versions(by_key, age, keys.descending, heights, levels)
        single, shared = split_by_versions(keys, rows, versions)
        names = cols(merge.names)
        alone = rows.filter(pl.Series(single)).select(names)
        if not shared.any():
            return alone
        merged = merge.merged(keys, rows.filter(pl.Series(shared)), versions.among(shared))
        return pl.concat([alone, merged.select(cols(merge.names))])

    def _read_values(
        self,
        hits: _Hits,
        chosen: npt.NDArray[np.bool_] | None,
        fields: tuple[DataField, ...],
        live: pl.Series | None = None,
    ) -> pl.DataFrame:
        """Return the `chosen` rows (None: all); key columns are known. `live` as for `scan_files`."""
        keys = hits.keys if chosen is None else hits.keys.filter(pl.Series(chosen))
        places = hits.places if chosen is None else hits.places[chosen]
        others = tuple(field for field in fields if field.name not in keys.columns)
        if not others:
            return keys.select(cols(field.name for field in fields))
        rows = self._read_rows(hits.file, places, others, live)
        if len(others) == len(fields):
            return rows
        frames = {**dict.fromkeys(keys.columns, keys), **dict.fromkeys(rows.columns, rows)}
        return pl.DataFrame([frames[field.name].get_column(field.name) for field in fields])

    def _read_rows(
        self, file: DataFile, places: Places, fields: tuple[DataField, ...], live: pl.Series | None
    ) -> pl.DataFrame:
        """Return these rows of a file in their order; `live` as for `scan_files`."""
        rows = self._read_pages(file, places, fields, live)
        if rows is None:
            rows = self._scan_rows(file, places, fields, live)
        if rows.height != len(places):
            raise CorruptFile(file.path, f"{rows.height} of {len(places)} rows with keys that its key columns have")
        return rows

    def _read_pages(
        self, file: DataFile, places: Places, fields: tuple[DataField, ...], live: pl.Series | None
    ) -> pl.DataFrame | None:
        """Return rows from the pages that hold them; None if pages cannot be read alone."""
        # Imported here: reads of all rows do not need them.
        from morrow.readers.files.excerpts import cut_excerpts
        from morrow.readers.files.page_checksums import check_pages

        stored = list_stored_columns(self.plan, self.section, file, fields)
        if not stored or not self._can_read_pages(file, places, fields, stored):
            return None
        source = make_source(file, self.plan, self.store)
        if self.store.checks_pages:
            check_pages([source], {field.name for field in stored})

        def remember(part: Hashable, make: Callable[[], tuple[Any, int]]) -> Any:
            return SECTIONS.get_or_make(self._make_key("pages", file, part), make, of=_get_name(file))

        types = {field.id: field.type for field in stored}
        # Rows of whole pages are remembered, unless their values depend on the places or may not be converted.
        whole = live is None and not list_virtual_columns(self.plan, fields)
        whole = whole and all(has_same_values(types.get(field.id, field.type), field.type) for field in fields)
        read = tuple(field.name for field in fields)

        def name_rows(part: Hashable) -> Hashable:
            return self._make_key("page rows", file, part, read)

        def find_rows(part: Hashable) -> pl.DataFrame | None:
            known: pl.DataFrame | None = SECTIONS.get(name_rows(part)) if whole else None
            return known

        groups = cut_excerpts(source, [field.name for field in stored], places, remember, find_rows)
        if groups is None or (len(groups[0]) > 1 and list_virtual_columns(self.plan, fields)):
            return None
        starts = np.searchsorted(places, [excerpts[0].rows[0] for excerpts in groups]).tolist()
        within = list(zip(groups, np.split(places, starts[1:])))
        rows = self._decode_excerpts(file, within, stored, fields, live, whole)
        for part, frame in rows.items():
            size = int(frame.estimated_size())
            if whole and size <= MAX_PAGE_BYTES:
                SECTIONS.put(name_rows(part), frame, size + GROUP_BYTES, of=_get_name(file))
        found = []
        for excerpts, inside in within:
            parts = [rows[each.part] if each.decoded is None else each.decoded for each in excerpts]
            if whole:
                parts = [_take_rows(part, np.searchsorted(each.rows, inside)) for part, each in zip(parts, excerpts)]
            columns = {name: part.get_column(name) for part in parts for name in part.columns}
            found.append(pl.DataFrame([columns[name] for name in read]))
        return found[0] if len(found) == 1 else pl.concat(found)

    def _can_read_pages(
        self, file: DataFile, places: Places, fields: tuple[DataField, ...], stored: Sequence[DataField]
    ) -> bool:
        """Return whether pages can be read alone, and hold few enough of the rows of the file."""
        if file.format != PARQUET or not len(places) or need_positions(self.plan, fields):
            return False
        pages = len(find_distinct(places // PAGE_ROWS))
        # The footer describes shared maps, and excerpts leave this out.
        return pages * PAGE_ROWS * MIN_ROWS_PER_PAGE_ROW <= file.row_count and not has_shared_maps(
            self.plan.file_options, stored
        )

    def _decode_excerpts(
        self,
        file: DataFile,
        within: Sequence[tuple[Sequence[Excerpt], Places]],
        stored: Sequence[DataField],
        fields: tuple[DataField, ...],
        live: pl.Series | None,
        whole: bool,
    ) -> dict[Hashable, pl.DataFrame]:
        """Return the rows of excerpts that are not decoded yet, by their part: all if `whole`, or those at places."""
        names = {field.id: field.name for field in stored}
        frames = {}
        for excerpts, inside in within:
            for number, each in enumerate(excerpts):
                made = tuple(f for f in fields if (names[f.id] in each.columns if f.id in names else number == 0))
                if each.decoded is None:
                    frames[each.part] = self._scan_excerpt(file, each, None if whole else inside, made, live)
        collected = [next(iter(frames.values())).collect()] if len(frames) == 1 else collect_frames([*frames.values()])
        return dict(zip(frames, collected))

    def _scan_excerpt(
        self,
        file: DataFile,
        excerpt: Excerpt,
        places: Places | None,
        fields: tuple[DataField, ...],
        live: pl.Series | None,
    ) -> pl.LazyFrame:
        """Return rows of an excerpt (None: all); `places` are positions in the file."""
        from morrow.readers.files.excerpts import ExcerptStore

        cut = replace(file, size=len(excerpt.data), row_count=len(excerpt.rows))
        alive = None if live is None else live.gather(excerpt.rows)
        store = ExcerptStore(self.store, excerpt.data)
        frame = scan_files(self.plan, self.section, [cut], fields, store, live=alive)
        if places is None:
            return frame
        rows = np.searchsorted(excerpt.rows, places)
        first, count = int(rows[0]), int(rows[-1] - rows[0]) + 1
        frame = frame.slice(first, count)
        return frame if count == len(rows) else frame.select(pl.all().gather(pl.lit(pl.Series(rows - first))))

    def _scan_rows(
        self, file: DataFile, places: Places, fields: tuple[DataField, ...], live: pl.Series | None
    ) -> pl.DataFrame:
        """Return rows from a scan of the file."""
        runs, scanned = _find_runs(places), is_scanned(file.format, file.path)
        if not len(places) or (len(runs) <= MAX_SLICES and scanned):
            frame = scan_files(self.plan, self.section, [file], fields, self.store, live=live)
            slices = [frame.slice(*run) for run in runs or [(0, 0)]]
            rows = (slices[0] if len(slices) == 1 else pl.concat(slices)).collect()
        else:
            conditional = [each for each in self.key_fields if each.name in find_columns(self.wanted.condition)]
            read = tuple(dict.fromkeys((*fields, *(conditional if scanned else ()))))
            frame = scan_files(self.plan, self.section, [file], read, self.store, position=True, live=live)
            if scanned:
                frame = expressions.filter_by_predicate(self.wanted.condition, self.plan.schema.fields, frame)
            chosen = np.zeros(file.row_count, bool)
            chosen[places] = True
            rows = frame.filter(pl.lit(pl.Series(chosen)).gather(pl.col(POSITION))).collect()
            rows = rows.select(cols(field.name for field in fields))
        return rows

    # --- positions of keys ---

    def _find_hits(self) -> Iterable[_Hits]:
        pairs = zip(self.section.files, self._list_stored_names())
        if self.store.is_local:
            return map(self._find_in_file, pairs)
        return self._map(self._find_in_file, list(pairs))

    def _map(self, do: Callable[[V], T], values: Sequence[V]) -> list[T]:
        """Call `do` for each of the values, at once if it requests parts of files in a remote store."""
        if self.store.is_local or len(values) < 2:
            return list(map(do, values))
        with open_threads(REQUESTS) as pool:
            return list(pool.map(do, values))

    def _find_in_file(self, named: tuple[DataFile, str]) -> _Hits:
        file, name = named
        groups = self._list_groups(file, name)
        return self._filter_file(file) if groups is None else self._search_groups(file, groups)

    def _list_stored_names(self) -> list[str]:
        """Return the name of the first key column in each file."""
        identity = self.key_fields[0].id
        names = {i: next(f.name for f in fields if f.id == identity) for i, fields in self.plan.file_fields.items()}
        return [names[file.schema_id] for file in self.section.files]

    def _list_groups(self, file: DataFile, name: str) -> list[tuple[int, int]] | None:
        """Return the ranges of rows (start, rows) that may hold wanted keys; None if the file lacks usable bounds."""
        if not is_scanned(file.format, file.path):
            return [(0, file.row_count)]
        if not isinstance(self.key_fields[0].type, RANGED_TYPES):
            return None
        lows, highs, starts = self._read_bounds(file, name)
        if lows is None:
            return None
        values = sorted(self.wanted.values)
        kept = []
        for low, high, start, end in zip(lows, highs, starts, starts[1:]):
            at = bisect_left(values, low)
            if at < len(values) and values[at] <= high:
                kept.append((start, end - start))
        return kept

    def _read_bounds(self, file: DataFile, name: str) -> tuple[list[Any] | None, list[Any], list[int]]:
        key = self._make_key("row groups", file, name)

        def read() -> tuple[tuple[list[Any] | None, list[Any], list[int]], int]:
            groups = read_row_groups(0, file, name, self.store)
            if groups is None:
                return (None, [], []), GROUP_BYTES
            starts = list(accumulate((group.rows for group in groups), initial=0))
            found = [group.low for group in groups], [group.high for group in groups], starts
            return found, GROUP_BYTES * (1 + len(groups))

        found: tuple[list[Any] | None, list[Any], list[int]] = SECTIONS.get_or_make(key, read, of=_get_name(file))
        return found

    def _search_groups(self, file: DataFile, groups: Sequence[tuple[int, int]]) -> _Hits:
        pieces, found = [], [np.empty(0, np.int64)]
        for (start, _), group in zip(groups, self._read_groups(file, groups)):
            places = group.find_numbers(self.sorted_numbers)
            places = group.find(self.sought) if places is None else places
            if len(places) and not self.wanted.is_single_condition:
                condition = expressions.compile(self.wanted.condition, self.plan.schema.fields)
                matching = group.rows[places].select(condition.fill_null(False)).to_series()
                places = places[matching.to_numpy()]
            if len(places):
                pieces.append((group.rows, places))
                found.append(places + start)
        return _Hits(file, np.concatenate(found), pieces)

    @cached_property
    def sought(self) -> pl.Series:
        """The wanted values of the first key column."""
        return pl.Series(self.wanted.values, dtype=to_polars_dtype(self.key_fields[0].type))

    @cached_property
    def sorted_numbers(self) -> npt.NDArray[np.integer]:
        """The wanted values of the first key column as ascending integers; empty if they are not integers."""
        if to_polars_dtype(self.key_fields[0].type).is_integer():
            return np.array(sorted(self.wanted.values), np.int64)
        found = self.sought.to_physical()
        return np.sort(found.to_numpy()) if is_number(found.to_frame()) else np.empty(0, np.int64)

    def _read_groups(self, file: DataFile, groups: Sequence[tuple[int, int]]) -> list[_GroupKeys]:
        """Return the key columns of these ranges of rows, from the cache or the file."""
        cache_keys = [self._make_key("group keys", file, *group) for group in groups]
        found: list[_GroupKeys | None] = [SECTIONS.get(key) for key in cache_keys]
        missing = [number for number, each in enumerate(found) if each is None]
        if missing:
            frame = scan_files(self.plan, self.section, [file], self.key_fields, self.store)
            whole = groups[0] == (0, file.row_count)
            frames = collect_frames([frame if whole else frame.slice(*groups[number]) for number in missing])
            for number, rows in zip(missing, frames):
                if rows.height != groups[number][1]:
                    raise CorruptFile(file.path, f"{rows.height} rows where its metadata says {groups[number][1]}")
                made = _GroupKeys.of(rows)
                size = int(rows.estimated_size()) + GROUP_BYTES
                SECTIONS.put(cache_keys[number], made, size, of=_get_name(file))
                found[number] = made
        return [each for each in found if each is not None]

    def _filter_file(self, file: DataFile) -> _Hits:
        frame = scan_files(self.plan, self.section, [file], self.key_fields, self.store, position=True)
        rows = expressions.filter_by_predicate(self.wanted.condition, self.plan.schema.fields, frame).collect()
        places = rows[POSITION].to_numpy().astype(np.int64)
        keys = rows.select(cols(field.name for field in self.key_fields))
        return _Hits(file, places, [(keys, np.arange(rows.height))] if rows.height else ())


class _GroupKeys(msgspec.Struct, frozen=True):
    """The key columns of a range of rows; `numbers` are the values of the first one if they are ascending integers."""

    rows: pl.DataFrame
    numbers: npt.NDArray[np.integer] | None

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _GroupKeys:
        first = clear_pattern_name(rows.to_series(0)).to_physical()
        numbers = first.to_numpy() if is_number(first.to_frame()) else None
        ascending = numbers is not None and bool((numbers[1:] >= numbers[:-1]).all())
        return cls(rows, numbers if ascending else None)

    def find(self, sought: pl.Series) -> Places:
        """Return the rows whose first key column has one of the sought values."""
        column = clear_pattern_name(self.rows.to_series(0))
        matches = column == sought if len(sought) == 1 else column.is_in(sought.implode())
        return matches.arg_true().to_numpy().astype(np.int64)

    def find_numbers(self, numbers: npt.NDArray[np.integer]) -> Places | None:
        """Return the rows whose first key column has one of these ascending integers; None if `numbers` is None."""
        if self.numbers is None:
            return None
        starts, ends = (np.searchsorted(self.numbers, numbers, side) for side in ("left", "right"))
        counts = ends - starts
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places: Places = np.repeat(starts, counts) + offsets
        return places


def _take_rows(rows: pl.DataFrame, places: Places) -> pl.DataFrame:
    first, last = int(places[0]), int(places[-1])
    return rows.slice(first, len(places)) if last - first + 1 == len(places) else rows[places]


def _find_runs(places: Places) -> list[tuple[int, int]]:
    """Return the runs of consecutive positions: the first of each, and the number of rows."""
    if not len(places):
        return []
    starts = np.flatnonzero(np.append(True, np.diff(places) != 1))
    lengths = np.diff(np.append(starts, len(places)))
    return list(zip(places[starts].tolist(), lengths.tolist()))


def _get_name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]
