"""Section of a plan as a lazy frame: file scans, the filter pushed into them, masks on top.

Because masks come from keys alone, filters on any column reach the files of merge-on-read sections too.

Data evolution puts files that hold different columns of the same row ids side by side. Every file of a STITCH section
covers the same range of row ids; for a column written several times, the file with the largest sequence number wins.
Vectors, which have files of their own, may be cut into several files along the range. Columns in blob files are
references here (`blob_columns`).

The postponed rows of a partition are merged when they are read, with the merged rows of its buckets. A pass over these
holds some of the postponed rows, chosen by the hash of their keys, and the rows with the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, groupby
from operator import and_
from posixpath import basename
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.file_formats import BLOB
from morrow.engine.format.row_kinds import NAMES, RETRACT_BIT, build_rowkind
from morrow.engine.format.schema import ROWKIND, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import register_source
from morrow.engine.names import POSITION, cols
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import ALWAYS, find_columns
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution import strategy
from morrow.readers.execution.blob_columns import (
    find_row_range,
    is_dedicated,
    is_in_blob_files,
    scan_references,
    to_stored_dtype,
)
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import (
    collect_batches,
    is_file_dependent,
    list_virtual_columns,
    list_written_fields,
    make_source,
    scan_files,
    select_frames,
    translate_file_errors,
)
from morrow.readers.files.registry import find_file_reader
from morrow.readers.files.source import translate_errors
from morrow.readers.masks import Mask, concat_masks
from morrow.readers.masks.ordering import hash_keys, to_comparable

MAX_POSITIONED_ROWS = 1 << 28
"""Approximate maximum of rows numbered by one scan: their mask takes 32 MB, and Polars positions have 32 bits."""

MIN_SEARCHED_ROWS = 1 << 17
"""Minimum rows of a group whose filter is evaluated before its other columns are read. Row groups are not smaller."""


def scan_section(plan: ScanPlan, section: Section, masks: Sequence[Mask], store: FileStore) -> pl.LazyFrame:
    """Return the live rows of `section` that satisfy the pushable part of the filter, columns `plan.read_columns`."""
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    if section.kind is SectionKind.POSTPONED:
        return filter_frame(plan, _scan_postponed(plan, section, fields, store))
    if section.kind is SectionKind.STITCH:
        first, last = section.read_rows
        _, rows = find_row_range(section)
        part = (first, last - first) if last - first < rows else _find_matching_part(plan, section, store)
        return filter_frame(plan, stitch_columns(plan, section, fields, masks, store, part))
    retractions = section.kind is SectionKind.RAW and plan.drops_retractions
    complete = plan.filter.predicate == ALWAYS and plan.limit is None
    beside = complete and bool(fields) and plan.stored_rows <= strategy.MAX_SMALL_ROWS
    # A filter leaves few rows, so one scan may read several masked files; Polars would hold more of a whole table at
    # once. Positions through several files depend on their row counts, which would take requests to remote stores.
    alone = plan.filter.predicate == ALWAYS or not store.is_local
    one_by_one = is_file_dependent(plan, fields)

    def looked_up(file: DataFile) -> bool:
        return not beside or (retractions and file.may_hold_retractions) or _find_part(file) is not None

    parts = [
        _scan_masked(plan, section, group, group_masks, retractions, fields, store, _find_part(group[0]))
        if looked_up(group[0])
        else _scan_beside(plan, section, group, group_masks, fields, store)
        for group, group_masks in _scan_groups(section, masks, looked_up, alone, one_by_one)
    ]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def scan_section_pieces(
    plan: ScanPlan, section: Section, masks: Sequence[Mask], store: FileStore
) -> Iterator[pl.LazyFrame]:
    """Yield the rows of `scan_section` in order, some rows of a file at a time, for a full read that `is_cut`.

    Polars decodes the row groups of a scan ahead of the consumer; a piece limits how many it can decode.
    """
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    retractions = section.kind is SectionKind.RAW and plan.drops_retractions
    for group in _scan_groups(section, masks, lambda _: True, alone=True, one_by_one=is_file_dependent(plan, fields)):
        for file, mask in zip(*group, strict=True):
            first, rows = _find_part(file) or (0, file.row_count)
            for start in range(first, first + rows, strategy.PIECE_ROWS):
                part = start, min(strategy.PIECE_ROWS, first + rows - start)
                yield _scan_masked(plan, section, [file], [mask], retractions, fields, store, part)


PartAnswer: TypeAlias = "tuple[pl.Series, bool] | None"
"""The rows of a file that may fulfil a condition on parts of variants, and whether they do; None if all rows may."""
SEARCH_WORKERS = 2
"""Number of files whose parts are searched at once; Arrow decodes each on all cores."""
MAX_RUNS = 16
"""Maximum ranges of rows of a file that are scanned one by one."""


def search_parts(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[list[PartAnswer]] | None:
    """Return an answer for each file of sections; None if no file has columns for the plan's condition on parts."""
    condition = plan.filter.parts
    assert condition is not None
    fields = [plan.schema.by_name[name] for name in sorted({part.column for part in condition.parts})]

    def evaluate(parts: pl.DataFrame) -> npt.NDArray[np.bool_]:
        kept = expressions.compile(condition.predicate, parts.schema).fill_null(False)
        return parts.select(kept).to_series().to_numpy()

    def search(file: DataFile) -> PartAnswer:
        find = find_file_reader(file.format, file.path).search_parts
        written = {field.id: field.name for field in list_written_fields(plan, file)}
        if find is None or not all(field.id in written for field in fields):
            return None
        source = make_source(file, plan, store)
        with translate_errors(file.path):
            if store.checks_pages:
                from morrow.readers.files.page_checksums import check_pages

                check_pages([source], {written[field.id] for field in fields})
            found = find(source, {field.name: written[field.id] for field in fields}, condition, evaluate)
        return None if found is None else (pl.Series(found[0]), found[1])  # a bit per row, not a byte

    files = [file for section in sections for file in section.files]
    with open_threads(SEARCH_WORKERS) as pool:
        found = iter(list(pool.map(search, files)))
    answers = [[next(found) for _ in section.files] for section in sections]
    return answers if any(each is not None for some in answers for each in some) else None


def split_by_answers(
    section: Section, masks: Sequence[Mask], answers: Sequence[PartAnswer]
) -> tuple[list[tuple[Section, list[Mask]]], list[tuple[Section, list[Mask]]]]:
    """Return parts of a section whose rows fulfil a condition, and parts whose rows have to be tested."""
    decided: list[tuple[Section, list[Mask]]] = []
    others: list[tuple[Section, list[Mask]]] = []
    for file, mask, answer in zip(section.files, masks, answers, strict=True):
        if answer is None:
            others.append((replace(section, files=(file,)), [mask]))
            continue
        kept, is_decided = answer
        live = (kept if mask is None else kept & mask).to_numpy().copy()
        first, rows = _find_part(file) or (0, len(live))
        live[:first] = live[first + rows :] = False
        narrowed = None if live.all() else pl.Series(live)
        for run in _find_runs(live):
            part = replace(section, files=(replace(file, deletion=None),)).with_rows(*run)  # the mask has the dead rows
            (decided if is_decided else others).append((part, [narrowed]))
    return decided, others


def _find_runs(kept: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the ranges of rows, begin and end, that a scan reads to get all rows that are kept."""
    places = np.flatnonzero(kept)
    if not len(places):
        return []
    cuts = np.flatnonzero(np.diff(places) > MIN_SEARCHED_ROWS)
    starts, ends = places[[0, *(cuts + 1)]], places[[*cuts, len(places) - 1]] + 1
    runs = [(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]
    return runs if len(runs) <= MAX_RUNS else [(runs[0][0], runs[-1][1])]


def _find_part(file: DataFile) -> tuple[int, int] | None:
    """Return the start position and the number of the stored rows that are read of a file; None for all of them."""
    rows = None if file.deletion is None else file.deletion.rows
    return None if rows is None else (rows[0], rows[1] - rows[0])


def make_empty_frame(fields: Sequence[DataField]) -> pl.LazyFrame:
    """Return an empty frame of these columns."""
    return pl.LazyFrame(schema={field.name: to_polars_dtype(field.type) for field in fields})


def filter_frame(plan: ScanPlan, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows for which the pushable part of the plan's filter is true."""
    return expressions.filter_by_predicate(plan.filter.predicate, plan.schema.fields, frame)


def _scan_groups(
    section: Section, masks: Sequence[Mask], looked_up: Callable[[DataFile], bool], alone: bool, one_by_one: bool
) -> list[tuple[list[DataFile], list[Mask]]]:
    """Group files that one scan can read: files of one shape together.

    With `alone`, each masked file whose rows are `looked_up` by position is a group of its own. Otherwise such files of
    a RAW section are only separated from files that need no positions. With `one_by_one` each file is alone.
    """
    starts = accumulate((file.row_count for file in section.files), initial=0)

    def shape(each: tuple[DataFile, Mask, int]) -> tuple[object, ...]:
        file, mask, start = each
        masked = mask is not None and looked_up(file)
        raw = section.kind is SectionKind.RAW
        is_alone = one_by_one or (masked and alone) or _find_part(file) is not None
        apart = start // MAX_POSITIONED_ROWS, masked and raw, file.path if is_alone else ""
        return *apart, file.schema_id, file.format, file.write_columns or (), file.may_hold_retractions

    grouped = groupby(sorted(zip(section.files, masks, starts), key=shape), key=shape)
    return [([file for file, *_ in group], [mask for _, mask, _ in group]) for group in (list(g) for _, g in grouped)]


def _scan_beside(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    masks: Sequence[Mask],
    fields: tuple[DataField, ...],
    store: FileStore,
) -> pl.LazyFrame:
    """Scan all rows of the files in order, with one long mask as a column, so that no positions are computed."""
    mask = concat_masks(files, masks)
    frame = scan_files(plan, section, files, fields, store, live=mask)
    return frame if mask is None else frame.filter(pl.lit(mask))


def _scan_masked(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    masks: Sequence[Mask],
    retractions: bool,
    fields: tuple[DataField, ...],
    store: FileStore,
    part: tuple[int, int] | None = None,
) -> pl.LazyFrame:
    """Return the live, filtered rows of the files: their positions are looked up in one long mask.

    `part`: a start position and a number of stored rows, to which the scan is limited.
    """
    mask = concat_masks(files, masks)
    with_kind = retractions and any(file.may_hold_retractions for file in files)
    read = (*fields, VALUE_KIND_FIELD) if with_kind else fields
    frame = scan_files(plan, section, files, read, store, position=mask is not None, live=mask)
    frame = frame if part is None else frame.slice(*part)
    # The filter comes before the mask: only then does Polars push it into the file scan and skip row groups.
    frame = filter_frame(plan, frame)
    if with_kind:
        frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if mask is not None:
        frame = frame.filter(_is_live(mask))
    if with_kind or mask is not None:
        frame = frame.select(cols(plan.read_columns))
    return frame


def _is_live(mask: pl.Series) -> pl.Expr:
    """Return an expression for whether the row at `POSITION` is live.

    Polars treats this as an expression over all rows, so a user's later filters stay above it. Elementwise forms
    (a Python function, ``is_in`` of the dead positions) let such filters through but double the cost of a sum.
    """
    return pl.lit(mask).gather(pl.col(POSITION))


def _find_matching_part(plan: ScanPlan, section: Section, store: FileStore) -> tuple[int, int] | None:
    """Return the first row, and the number of rows, between the first and the last that match; None for all rows.

    Filters do not reach the files of columns that are put side by side. So the columns of a filter are read first, if
    they lie in one file on a local disk, to skip row groups of the others.
    """
    fields = tuple(plan.schema.by_name[name] for name in sorted(find_columns(plan.filter.predicate)))
    stored = not list_virtual_columns(plan, fields) and not any(f.name in plan.schema.partition_keys for f in fields)
    _, rows = find_row_range(section)
    if not fields or not stored or not store.is_local or rows < MIN_SEARCHED_ROWS:
        return None
    sources = _find_sources(plan, section, fields)
    files = next(iter(sources), ())
    if len(sources) != 1 or len(files) != 1 or len(sources[files]) != len(fields):
        return None
    with translate_file_errors(plan, [section], fields, store):
        found = filter_frame(plan, scan_files(plan, section, files, fields, store, position=True))
        ends = found.select(pl.col(POSITION).min().alias("low"), pl.col(POSITION).max().alias("high"))
        low, high = ends.collect().row(0)
    return (0, 0) if low is None else (low, high - low + 1)


def stitch_columns(
    plan: ScanPlan,
    section: Section,
    fields: Sequence[DataField],
    masks: Sequence[Mask],
    store: FileStore,
    part: tuple[int, int] | None = None,
) -> pl.LazyFrame:
    """Return rows of the section with the columns `fields`; columns that no file holds are null.

    `part`: the first row, and the number of rows, to which the result is limited.

    Raises `Unsupported`: the files do not cover the same row ids.
    """
    sources = _find_sources(plan, section, fields)
    parts = [_scan_part(plan, section, files, columns, store) for files, columns in sources.items()]
    first, rows = find_row_range(section)
    blobs = _find_blob_files(plan, section, fields)
    parts += [scan_references(plan, field, files, first, rows, store) for field, files in blobs]
    if not parts:
        # No file holds any wanted column: only the row count is needed.
        parts = [scan_files(plan, section, [find_anchor(section)], (), store, position=True)]
    if part is not None:
        parts = [each.slice(*part) for each in parts]
    frame = parts[0] if len(parts) == 1 else pl.concat(parts, how="horizontal")
    found = {field.name for columns in (*sources.values(), [field for field, _ in blobs]) for field in columns}
    nulls = [pl.lit(None, dtype=to_stored_dtype(plan, f)).alias(f.name) for f in fields if f.name not in found]
    frame = frame.with_columns(nulls).select(cols(field.name for field in fields))
    dead = [mask if part is None else mask.slice(*part) for mask in masks if mask is not None]
    return frame.filter(reduce(and_, map(pl.lit, dead))) if dead else frame


def _find_sources(
    plan: ScanPlan, section: Section, fields: Sequence[DataField]
) -> Mapping[tuple[DataFile, ...], tuple[DataField, ...]]:
    """Return the files that each column comes from; columns of the same files are read together."""
    newest_first = sorted(section.files, key=lambda file: -file.max_sequence)
    first, rows = find_row_range(section)
    sources: dict[tuple[DataFile, ...], tuple[DataField, ...]] = {}
    for field in fields:
        if is_in_blob_files(plan, field):
            continue
        holding = _find_holders(plan, newest_first, field)
        if not holding and field.name not in plan.schema.partition_keys:
            continue
        files = _find_covering(holding or [newest_first[0]], first, rows)
        sources[files] = (*sources.get(files, ()), field)
    return sources


def _find_blob_files(
    plan: ScanPlan, section: Section, fields: Sequence[DataField]
) -> list[tuple[DataField, list[DataFile]]]:
    """Return the columns with blob files in this section, and these files.

    Raises `Unsupported` if a file of another format holds blobs, as pypaimon's update of a shard writes them.
    """
    found = []
    for field in fields:
        holding = [file for file in section.files if field.id in _list_field_ids(plan, file)]
        if not holding or not is_in_blob_files(plan, field):
            continue
        for file in holding:
            if file.format != BLOB and file.write_columns is not None:
                hint = "roll the table back to the snapshot before, and update the column by row ids"
                raise Unsupported(f"blobs of {field.name!r} in a file of other values", where=file.path, hint=hint)
        if files := [file for file in holding if file.format == BLOB]:
            found.append((field, files))
    return found


def _find_holders(plan: ScanPlan, newest_first: Sequence[DataFile], field: DataField) -> list[DataFile]:
    """Return the files that hold the column; row ids and snapshot numbers come from the newest data file.

    As in Paimon, a data file takes precedence over files of vectors, also over newer ones.
    """
    if list_virtual_columns(plan, (field,)):
        return [file for file in newest_first if not is_dedicated(file)][:1]
    holding = [file for file in newest_first if field.id in _list_field_ids(plan, file)]
    return [file for file in holding if not is_dedicated(file)] or holding


def find_anchor(section: Section) -> DataFile:
    """Return the oldest data file of a STITCH section, whose deletion vector holds the deleted rows of the section."""
    normal = [file for file in section.files if not is_dedicated(file)] or list(section.files)
    return min(normal, key=lambda file: (file.max_sequence, basename(file.path)))


def _find_covering(holding: Sequence[DataFile], first: int, rows: int) -> tuple[DataFile, ...]:
    """Return the newest file when it spans the range, else dedicated files one after another.

    As in Java, older files that begin inside a newer one are left out.
    """
    newest = holding[0]
    if (newest.first_row_id or 0, newest.row_count) == (first, rows):
        return (newest,)
    pieces: list[DataFile] = []
    reached = first
    for piece in sorted(holding, key=lambda file: (file.first_row_id or 0, -file.max_sequence)):
        start = piece.first_row_id or 0
        if start > reached:
            break
        if start < reached:
            if pieces and piece.max_sequence >= pieces[-1].max_sequence:
                raise Unsupported("a column with files of its own that were rewritten in parts", where=piece.path)
            continue
        pieces.append(piece)
        reached += piece.row_count
    if reached != first + rows:
        raise Unsupported(
            f"a file of some of the row ids {first} to {first + rows - 1} that other files of columns cover",
            where=newest.path,
            hint="compact the table by the program that wrote it",
        )
    return tuple(pieces)


def _list_field_ids(plan: ScanPlan, file: DataFile) -> frozenset[int]:
    fields = plan.file_fields[file.schema_id]
    return frozenset(f.id for f in fields if file.write_columns is None or f.name in file.write_columns)


def _scan_part(
    plan: ScanPlan, section: Section, files: Sequence[DataFile], fields: tuple[DataField, ...], store: FileStore
) -> pl.LazyFrame:
    frames = [scan_files(plan, section, [file], fields, store) for file in files]
    return frames[0] if len(frames) == 1 else pl.concat(frames)


KINDS = {name: number for number, name in NAMES.items()}
MAX_PASS_ROWS = 1 << 20
MAX_PASS_BYTES = 64 << 20
"""Approximate maximum of postponed rows, and of bytes of their files, that are merged in one pass over the others."""


def _scan_postponed(plan: ScanPlan, section: Section, fields: Sequence[DataField], store: FileStore) -> pl.LazyFrame:
    """Return the rows of a POSTPONED section, columns `fields`; they are merged while the frame is collected.

    Raises `Unsupported`: a column that postponed rows do not have.
    """
    for field in (*fields, plan.schema.by_name.get(ROWKIND, ROWKIND_FIELD)):
        is_strange = field.name == ROWKIND and field != ROWKIND_FIELD
        if is_strange or field == SEQUENCE_NUMBER_FIELD or is_blob_type(field.type):
            hint = "run Table.compact, or set the option to false to read the other rows"
            raise Unsupported(f"the column {field.name!r} with postpone.merge-on-read", where=plan.table, hint=hint)

    def generate(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        batch_rows: int | None,  # noqa: ARG001
    ) -> Iterator[pl.DataFrame]:
        names = [field.name for field in fields]
        merged = _merge_postponed(plan, section, names, store)
        yield from select_frames(merged, names if columns is None else columns, predicate, limit)

    return register_source(generate, {field.name: to_polars_dtype(field.type) for field in fields})


def _merge_postponed(
    plan: ScanPlan, section: Section, names: Sequence[str], store: FileStore
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a POSTPONED section whose keys may match the filter."""
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.engines import find_needed_groups, merge_rows

    assert plan.merge is not None
    spec = replace(plan.merge, keeps_retractions=True)
    keys = frozenset((*spec.key, *plan.schema.partition_keys))
    by_key = Filter.of_predicate(project_predicate(plan.filter.predicate, keys))
    groups = find_needed_groups(spec, frozenset(names), retracts=True)
    ordering = (name for group in groups.values() for name in group.sequence)
    read = dict.fromkeys((*spec.key, *spec.sequence, *ordering, *sorted(by_key.columns), *names))
    fields = [plan.schema.by_name[name] for name in read if name != ROWKIND]
    folded = {column.name for column in spec.columns}
    values = [field for field in fields if field.name in folded]
    others = [field for field in plan.schema.fields if field != ROWKIND_FIELD]
    beneath = replace(
        plan,
        schema=replace(plan.schema, fields=(*others, ROWKIND_FIELD)),
        columns=(*(field.name for field in fields), ROWKIND),
        filter=by_key,
        sections=section.beneath,
        merge=spec,
        limit=None,
        fallback=None,
    )
    files = section.postponed_files
    passes = max(
        1,
        -(-sum(file.row_count for file in files) // MAX_PASS_ROWS),
        -(-sum(file.size for file in files) // MAX_PASS_BYTES),
    )

    def finish(rows: pl.DataFrame) -> pl.DataFrame:
        kept = rows.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0) if plan.drops_retractions else rows
        return (kept.with_columns(build_rowkind()) if ROWKIND in names else kept).select(cols(names))

    for number in range(passes):
        rows = _read_postponed(plan, section, fields, by_key, (number, passes), store)
        none = make_empty_frame((*fields, VALUE_KIND_FIELD)).collect()
        newer = merge_rows(spec, values, pl.concat([none, *rows]), where=plan.table)
        wanted = np.sort(hash_keys(to_comparable(newer.select(cols(spec.key)))))
        older = []
        for frame in _read_beneath(beneath, store):
            kind = pl.col(ROWKIND).replace_strict(KINDS, return_dtype=newer.schema[VALUE_KIND])
            stored = _select_pass(frame.with_columns(kind.alias(VALUE_KIND)), spec.key, (number, passes))
            # Rows of other keys with the same hash do no harm: the merge returns them unchanged.
            hashes = hash_keys(to_comparable(stored.select(cols(spec.key))))
            hit = make_series(_find_sorted(wanted, hashes))
            older.append(stored.filter(hit).select(cols(newer.columns)))
            yield finish(stored.filter(~hit))
        yield finish(merge_rows(spec, values, pl.concat([*older, newer]), where=plan.table))


def _find_sorted(values: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return whether each of `wanted` is among the ascending values."""
    if not len(values):
        return np.zeros(len(wanted), bool)
    found: npt.NDArray[np.bool_] = values[np.minimum(np.searchsorted(values, wanted), len(values) - 1)] == wanted
    return found


def _read_beneath(plan: ScanPlan, store: FileStore) -> Iterator[pl.DataFrame]:
    """Yield the rows of each section that match the filter."""
    from morrow.readers.merges.sections import scan_merged

    for section in plan.sections:
        with translate_file_errors(plan, [section], plan.fields, store):
            frames = [scan_section(plan, section, strategy.scan_masks(plan, section, store), store)]
            if plan.folds(section):
                frames.append(filter_frame(plan, scan_merged(plan, section, plan.read_columns, store)))
            for frame in frames:
                yield from collect_batches(frame)


def _read_postponed(
    plan: ScanPlan,
    section: Section,
    fields: Sequence[DataField],
    by_key: Filter,
    part: tuple[int, int],
    store: FileStore,
) -> Iterator[pl.DataFrame]:
    """Yield the postponed rows of a pass in the order of their writing, columns `fields` and ``_VALUE_KIND``."""
    assert plan.merge is not None
    read = (*fields, VALUE_KIND_FIELD)
    for file in section.postponed_files:
        height = 0
        with translate_file_errors(plan, [section], read, store):
            for batch in collect_batches(scan_files(plan, section, [file], read, store)):
                height += batch.height
                kept = expressions.filter_rows(by_key, plan.schema.fields, batch.lazy()).collect()
                yield _select_pass(kept, plan.merge.key, part)
        if height != file.row_count:
            raise CorruptFile(file.path, f"{height} rows where the manifest says {file.row_count}")


def _select_pass(rows: pl.DataFrame, key: Sequence[str], part: tuple[int, int]) -> pl.DataFrame:
    """Return the rows whose keys have the hash of a pass: its number, and the number of passes."""
    number, passes = part
    if passes == 1:
        return rows
    return rows.filter(make_series(hash_keys(to_comparable(rows.select(cols(key)))) % passes == number))
