"""The choice of how each section of a plan is read, and why.

A scan with masks reads the keys first and then the rows. If all rows are wanted and nothing is cached yet, a section
with overlapping files is cheaper to read whole: keys and values are read in one pass, and the live rows are found in
memory. The resulting masks are cached, so the next read is a masked scan. Many small sections are scanned or read
together. From remote stores, files are fetched whole if a read wants most of their bytes. If a filter gives values of
the first key column, the rows of these keys are looked up, and only their versions are merged.

`choose_ways` decides from the plan, the store and the caches; it reads no data files. `explain_ways` shows its choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.types import has_same_values
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Predicate, find_columns, split_conjuncts
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import DataFile, DeletionRef, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.readers.casts.dtypes import estimate_width
from morrow.readers.execution.blob_columns import estimate_blob_bytes, list_blob_columns
from morrow.readers.files.file_frames import list_virtual_columns, list_written_fields
from morrow.readers.files.registry import find_file_reader, is_scanned
from morrow.readers.masks import Mask, compute_live_masks
from morrow.readers.masks.live_rows import is_known
from morrow.readers.merges.version_masks import compute_version_masks

MAX_WHOLE_ROWS = 1 << 22
"""Maximum stored rows of a section to read it whole: all of them are in memory together."""

MIN_READ_SECTIONS = 8
"""Minimum sections to read together; fewer are read one by one."""

MAX_READ_SECTION_ROWS = 1 << 17
"""Maximum stored rows of a section that is read with others."""

MIN_SCANNED_SECTIONS = 8
"""Minimum sections to scan together; fewer are scanned one by one, so that users' later filters prune partitions."""

MAX_SCANNED_SECTION_ROWS = 1 << 17
"""Maximum stored rows of a section scanned with others; the cost of a separate scan is negligible for larger ones."""

MAX_SMALL_ROWS = 1 << 23
"""Maximum stored rows for which a full read adds masks as a column: faster, but Polars then holds more at once."""

PIECE_ROWS = 1 << 19
"""Stored rows per query if a stream reads a large file in pieces."""

MIN_FILTERED_ROWS = 1 << 16
"""Minimum stored rows to have DuckDB read files for a condition; fewer rows are read faster by Polars."""
MAX_DUCKDB_FILES = 256
"""Maximum files that DuckDB reads itself: it opens each of them, even if pruning by metadata would skip it."""

MAX_FETCHED_BYTES = 64 << 20
"""Maximum size of a file that is fetched whole: Polars decodes row groups of a larger file while others arrive."""
MAX_SMALL_FILE_BYTES = 1 << 20
"""Size up to which a whole file arrives as fast as parts of it."""
MIN_WANTED_SHARE = 0.5
"""Approximate minimum share of wanted bytes to fetch a larger file whole."""


class Way(StrEnum):
    """A way to read a section. All but the scans return rows in memory."""

    SCAN = "scanned"
    SCAN_TOGETHER = "scanned together"
    SCAN_PIECES = "scanned in pieces"
    READ_TOGETHER = "read together"
    READ_WHOLE = "read whole"
    FILTER = "filtered by DuckDB before the mask"
    REFRESH = "read with what is cached of them"
    FETCH = "fetched whole"
    LOOK_UP = "looked up"


MAX_LOOKED_UP_KEYS = 1 << 14
"""Maximum values of the first key column that are looked up in a section without masks; others are scanned."""
MAX_FEW_KEYS = 64
"""Maximum values that are looked up if the section is scanned without computing masks first."""
MIN_ROWS_PER_KEY = 8
"""Minimum stored rows per value; if most keys of a section are wanted, a scan is cheaper."""

WHOLE = {
    SectionKind.STITCH: "files hold different columns of the same rows",
    SectionKind.POSTPONED: "rows without a bucket are merged with the others",
}
"""The kinds of sections whose rows are made of several files, with the reason."""
RAW_ROWS, UNKNOWN, FILTERED = "every row is stored once", "nothing is cached", "rows are filtered"
"""Reasons for the choice of a way, as `explain_ways` shows them."""

SCANS = frozenset((Way.SCAN, Way.SCAN_TOGETHER, Way.SCAN_PIECES))
"""Ways that return a lazy frame."""


class Choice(msgspec.Struct, frozen=True):
    """How a section is read, and why."""

    section: Section
    way: Way
    reason: str


def choose_ways(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, held: float, *, pieces: bool = False
) -> list[Choice]:
    """Return a choice for each of these sections of a plan part.

    Args:
        held: the approximate maximum bytes of all sections that are read at once into memory; the others are scanned.
        pieces: whether the rows are used as they arrive, so that large sections are scanned in pieces.
    """
    wanted = find_wanted_keys(plan)
    if wanted is not None and plan.read_columns:
        found = [_choose_lookup(plan, section, wanted, store) for section in sections]
        return _choose_groups(plan, found, store)
    obstacle = _find_plan_obstacle(plan)
    joined = {id(each) for each in find_joinable(plan, sections, store)} if obstacle is None else set()
    if obstacle == FILTERED and held > 0 and _is_filtered_first(plan, sections, store):
        return [Choice(section, Way.FILTER, "the condition reads some of the columns") for section in sections]
    chosen = [
        Choice(section, Way.SCAN, obstacle)
        if obstacle is not None
        else _choose_way(plan, section, store, joined, pieces=pieces)
        for section in sections
    ]
    return _choose_groups(plan, list(_limit_memory(plan, chosen, held)), store)


def _choose_way(plan: ScanPlan, section: Section, store: FileStore, joined: set[int], *, pieces: bool) -> Choice:
    """Choose how to read a section if all its rows are wanted."""
    if pieces and is_cut(section, store):
        return Choice(section, Way.SCAN_PIECES, "large files are decoded as their rows are used")
    if id(section) in joined:
        return Choice(section, Way.READ_TOGETHER, f"each has {MAX_READ_SECTION_ROWS:,} rows at most")
    if section.kind in WHOLE:
        return Choice(section, Way.SCAN, WHOLE[section.kind])
    if not store.is_local and not all(is_fetched(plan, file) for file in section.files):
        return Choice(section, Way.SCAN, "files are large, or less than half of their bytes is wanted")
    if section.kind is SectionKind.RAW:
        return Choice(section, *((Way.SCAN, RAW_ROWS) if store.is_local else (Way.FETCH, RAW_ROWS)))
    if not plan.folds(section) and is_known(plan, section, store):
        return Choice(section, Way.SCAN if store.is_local else Way.FETCH, "masks are cached")
    if section.cut is not None or section.row_count > MAX_WHOLE_ROWS:
        return Choice(section, Way.SCAN, f"each has more than {MAX_WHOLE_ROWS:,} rows, or is a part of a section")
    if plan.folds(section):
        return _choose_fold(plan, section, store)
    if may_fail_by_replaced_rows(plan, section):
        return Choice(section, Way.SCAN, "the types of columns have changed")
    return Choice(section, Way.READ_WHOLE, UNKNOWN)


def _choose_fold(plan: ScanPlan, section: Section, store: FileStore) -> Choice:
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import Known, find_known

    known = find_known(plan, section, store)
    if known is None:
        return Choice(section, Way.READ_WHOLE, UNKNOWN)
    refreshed = known is Known.EARLIER or (known is Known.MASKS and store.is_local)
    return Choice(section, Way.REFRESH if refreshed else Way.SCAN, known.value)


def _choose_lookup(plan: ScanPlan, section: Section, wanted: WantedKeys, store: FileStore) -> Choice:
    """Choose how to read a section if the filter gives values of the first key column."""
    count = len(wanted.values)
    share = count * MIN_ROWS_PER_KEY <= section.row_count
    if section.cut is not None or section.kind in WHOLE or not share or count > MAX_LOOKED_UP_KEYS:
        return Choice(section, Way.SCAN, FILTERED)
    if count > MAX_FEW_KEYS and (section.kind is SectionKind.RAW or _has_masks(plan, section, store)):
        return Choice(section, Way.SCAN, FILTERED)
    named = f"the filter gives {format_count(count, 'value')} of the first key column"
    return Choice(section, Way.LOOK_UP, named)


def _has_masks(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    if not plan.folds(section):
        return is_known(plan, section, store)
    from morrow.readers.merges.version_masks import is_known as is_known_by_version

    return is_known_by_version(plan, section, store)


def _find_plan_obstacle(plan: ScanPlan) -> str | None:
    """Return the reason why no section is read at once."""
    if not plan.read_columns:
        return "no column is wanted"
    if plan.limit is not None:
        return f"{format_count(plan.limit, 'row')} at most are wanted"
    return None if is_complete(plan) else FILTERED


def _is_filtered_first(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> bool:
    """Return whether DuckDB tests the conditions of a plan while it reads the files.

    Polars tests conditions that are predicates while it reads the files; other conditions it tests on whole rows.
    """
    if not plan.filter.residuals or not suits_duckdb(sections, store):
        return False
    if any(residual.kind != "sql" for residual in plan.filter.residuals):
        return False
    if sum(section.row_count for section in sections) < MIN_FILTERED_ROWS:
        return False
    return all(is_maskable(plan, section) for section in sections)


def suits_duckdb(sections: Sequence[Section], store: FileStore) -> bool:
    """Return whether DuckDB can open the files: they are few, local, and read without checking their pages."""
    is_open = store.is_local and not store.checks_pages
    return is_open and sum(len(section.files) for section in sections) <= MAX_DUCKDB_FILES


def is_maskable(plan: ScanPlan, section: Section) -> bool:
    """Return whether a scan of Parquet files under masks returns all rows except those whose versions are combined."""
    if section.kind in WHOLE or section.cut is not None:
        return False
    retractions = section.kind is SectionKind.RAW and plan.drops_retractions
    return not any(file.format != PARQUET or (retractions and file.may_hold_retractions) for file in section.files)


def _limit_memory(plan: ScanPlan, chosen: Iterable[Choice], held: float) -> Iterator[Choice]:
    """Yield the choices; reads beyond the limit become scans."""
    reached = 0
    for choice in chosen:
        if choice.way not in SCANS:
            reached += estimate_bytes(plan, choice.section, keys=choice.section.kind is SectionKind.MERGE)
            if reached > held:
                choice = Choice(choice.section, Way.SCAN, "rows are used as they arrive")
        yield choice


def _choose_groups(plan: ScanPlan, chosen: list[Choice], store: FileStore) -> list[Choice]:
    """Return the choices with small sections scanned together, if these are many."""
    if not _is_scanned_together(plan, store):
        return chosen
    small = [choice.way is Way.SCAN and _is_small(choice.section) for choice in chosen]
    if sum(small) < MIN_SCANNED_SECTIONS:
        return chosen
    return [replace(each, way=Way.SCAN_TOGETHER) if joins else each for each, joins in zip(chosen, small)]


def explain_ways(plan: ScanPlan, store: FileStore) -> str:
    """Return how a read of all rows to memory reads the sections, as text; empty if there are none."""
    chosen = Counter(
        (f"{choice.section.kind.value} section", f"{choice.way}: {choice.reason}")
        for part in plan.parts
        for choice in choose_ways(part, limit_sections(part, part.sections), store, float("inf"))
    )
    lines = [f"  {format_count(count, what)} {how}" for (what, how), count in chosen.items()]
    if lines and is_complete(plan) and is_arrow_only(plan):
        lines.append("to_arrow() decodes the files by Arrow, and drops dead rows from each batch")
    return "\n".join(["to_polars() reads", *lines]) if lines else ""


def is_complete(plan: ScanPlan) -> bool:
    """Return whether every row is wanted."""
    return plan.limit is None and plan.filter.predicate == ALWAYS and not plan.filter.residuals


def estimate_bytes(plan: ScanPlan, section: Section, *, keys: bool = True) -> int:
    """Estimate the bytes of a read: the plan's columns and, if `keys`, the key columns."""
    key = () if plan.merge is None or not keys else plan.merge.key
    width = sum(estimate_width(plan.schema.by_name[name].type) for name in {*plan.read_columns, *key})
    return section.row_count * width + estimate_blob_bytes(plan, section)


def find_joinable(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[Section]:
    """Return the small sections that are best read together; empty if there are too few."""
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    if not store.is_local or list_virtual_columns(plan, fields):
        return []
    found = [section for section in sections if _is_joinable(plan, section)]
    return found if len(found) >= MIN_READ_SECTIONS else []


def _is_joinable(plan: ScanPlan, section: Section) -> bool:
    if section.row_count > MAX_READ_SECTION_ROWS or section.cut is not None or plan.folds(section):
        return False
    if any(find_file_reader(file.format, file.path).read_each is None for file in section.files):
        return False
    if any(file.deletion is not None for file in section.files):
        return False
    if section.kind is SectionKind.RAW:
        return not (plan.drops_retractions and any(file.may_hold_retractions for file in section.files))
    # A number cannot replace a key column that also orders versions.
    is_merged = section.kind is SectionKind.MERGE and plan.merge is not None and not plan.merge.by_snapshot
    return is_merged and not may_fail_by_replaced_rows(plan, section)


def may_fail_by_replaced_rows(plan: ScanPlan, section: Section) -> bool:
    """Return whether a whole read casts values of replaced rows to other types, which may lack such a value.

    Masked scans do not cast these values, nor does Java. Merges that fold versions cast all of them.
    """
    if section.kind is not SectionKind.MERGE or plan.folds(section) or {*plan.file_fields} <= {plan.schema.id}:
        return False
    from morrow.readers.execution.type_changes import is_lossless  # imports casts, which other reads do not need

    wanted = {plan.schema.by_name[name].id: plan.schema.by_name[name].type for name in plan.read_columns}
    return any(
        field.id in wanted and not is_lossless(field.type, wanted[field.id])
        for schema_id in {file.schema_id for file in section.files} - {plan.schema.id}
        for field in plan.file_fields[schema_id]
    )


def is_cut(section: Section, store: FileStore) -> bool:
    """Return whether a full read of the section is made in pieces: of large Parquet files, which skip row groups."""
    large = section.row_count > max(MAX_SMALL_ROWS, len(section.files) * PIECE_ROWS)
    if not large or section.kind in WHOLE or not store.is_local or store.checks_pages:
        return False
    return all(file.format == PARQUET for file in section.files)


def _is_scanned_together(plan: ScanPlan, store: FileStore) -> bool:
    """Return whether sections of this plan are scanned together.

    Positions through several files depend on their row counts, which would take requests to remote stores; and a limit
    should stop at the first files.
    """
    limited = plan.limit is not None and plan.filter.predicate == ALWAYS
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    return store.is_local and not limited and bool(fields) and not list_virtual_columns(plan, fields)


def _is_small(section: Section) -> bool:
    whole = section.kind in (SectionKind.RAW, SectionKind.MERGE) and section.row_count <= MAX_SCANNED_SECTION_ROWS
    return whole and all(is_scanned(file.format, file.path) for file in section.files)


def is_fetched(plan: ScanPlan, file: DataFile) -> bool:
    """Return whether a read of all rows should fetch the whole file."""
    if not 0 < file.size <= MAX_FETCHED_BYTES:
        return False
    if file.size <= MAX_SMALL_FILE_BYTES:
        return True
    written = list_written_fields(plan, file)
    read = {plan.schema.by_name[name].id for name in plan.read_columns}
    wanted = sum(estimate_width(field.type) for field in written if field.id in read)
    return wanted >= MIN_WANTED_SHARE * sum(estimate_width(field.type) for field in written)


def is_arrow_only(plan: ScanPlan) -> bool:
    """Return whether `read_arrow_table` reads the rows of this plan, which has neither filter nor limit."""
    if any(list_virtual_columns(part, part.fields) or list_blob_columns(part, part.columns) for part in plan.parts):
        return False
    return all(_is_plain(part, section) for part in plan.parts for section in part.sections) and all(
        _is_read_unchanged(part, file) for part in plan.parts for file in _list_shapes(part)
    )


def _is_plain(plan: ScanPlan, section: Section) -> bool:
    """Return whether every row of the section is stored as a row of one of its files, and all decode to Arrow."""
    stored = section.kind not in WHOLE and not plan.folds(section)
    return stored and all(find_file_reader(file.format, file.path).stripes is not None for file in section.files)


def _list_shapes(plan: ScanPlan) -> list[DataFile]:
    """Return one file for each distinct set of written columns."""
    files = (file for section in plan.sections for file in section.files)
    return list({(file.schema_id, file.write_columns): file for file in files}.values())


def _is_read_unchanged(plan: ScanPlan, file: DataFile) -> bool:
    written = {field.id: field for field in list_written_fields(plan, file)}
    return all(has_same_values(written[field.id].type, field.type) for field in plan.fields if field.id in written)


def limit_sections(plan: ScanPlan, sections: Sequence[Section]) -> Sequence[Section]:
    """Return the first sections that together hold the plan's limit of rows, if metadata shows this; else all."""
    if plan.limit is None or plan.filter.predicate != ALWAYS or plan.filter.residuals:
        return sections
    rows = 0
    for number, section in enumerate(sections, 1):
        if section.kind is SectionKind.RAW and is_counted(plan, section):
            rows += sum(file.row_count - count_dead_rows(file.deletion) for file in section.files)
            if rows >= plan.limit:
                return sections[:number]
    return sections


def is_counted(plan: ScanPlan, section: Section) -> bool:
    """Return whether metadata and masks alone give the row count of the section."""
    if section.kind is SectionKind.RAW:
        retractions = plan.drops_retractions and any(file.may_hold_retractions for file in section.files)
        return not retractions and all(f.deletion is None or f.deletion.cardinality is not None for f in section.files)
    return section.kind is SectionKind.MERGE and not plan.folds(section)


def count_dead_rows(deletion: DeletionRef | None) -> int:
    return 0 if deletion is None or deletion.cardinality is None else deletion.cardinality


class WantedKeys(msgspec.Struct, frozen=True):
    """The keys that a filter selects: `values` of the first key column, and all conditions on key columns."""

    values: tuple[Any, ...]
    condition: Predicate
    exact: bool
    """Whether the filter has no other condition."""

    @property
    def is_single_condition(self) -> bool:
        """Whether `values` are the only condition on the key."""
        return isinstance(self.condition, Leaf)


def find_wanted_keys(plan: ScanPlan) -> WantedKeys | None:
    """Return the keys that the plan's filter selects; None if it gives no values of the first key column."""
    names = plan.schema.trimmed_primary_keys
    if not names:
        return None
    pins = [
        part.literals
        for part in split_conjuncts(plan.filter.predicate)
        if isinstance(part, Leaf) and part.column == names[0] and part.op in (Op.EQ, Op.IN) and part.literals
    ]
    if not pins:
        return None
    condition = project_predicate(plan.filter.predicate, frozenset(names))
    exact = find_columns(plan.filter.predicate) <= {*names} and not plan.filter.residuals
    return WantedKeys(min(pins, key=len), condition, exact)


def scan_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...]:
    """Return one mask per file of the live rows that are read as stored: all live rows, or all except merged rows."""
    if plan.folds(section):
        return compute_version_masks(plan, section, store).single
    return compute_live_masks(plan, section, store)
