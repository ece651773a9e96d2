"""Decides which sections of a plan Spark's own scan of files reads and which are left to tasks of Morrow, and why.

The rule: a section is Spark's when its rows are in Parquet files (or ORC files, where Morrow can list them) that every
executor can open, in columns that Spark reads as Morrow does (no cast, no type that the two interpret differently), and
Spark can evaluate the filter. Keys whose versions are combined are merged by tasks even then; all other rows of such a
section are Spark's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.engine.format.types import DataField, DataType
from morrow.engine.names import OWN_PREFIX
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.files.file_frames import written_fields
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.merges.version_masks import is_folded
from morrow.spark.reading.folders import base_of
from morrow.spark.versions import OPENS_ORC_INSTANTS

MICROSECONDS = 6
PLAIN = (
    *(t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType),
    *(t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType, t.DateType),
)
"""Types whose Parquet form Spark reads as Morrow does."""

PARQUET, ORC = "parquet", "orc"

NOT_OF_ORC: Mapping[type[DataType], str] = {
    t.CharType: "whose blanks Spark has in another way",
    **dict.fromkeys(
        (t.MapType, t.MultisetType), "of which Spark takes nulls for collections, or has entries in another order"
    ),
    t.DateType: "of which no statistics tell that Spark has the same dates",
    t.TimestampType: "which Spark reads in the time zone of each executor",
    t.LocalZonedTimestampType: "which Spark reads in the time zone of each executor where no instants are stored",
}
"""Types that Spark reads in another way in ORC, and why. It has other dates before the Gregorian calendar."""

SPELLED_IN_ORC = re.compile(r"[A-Za-z0-9_]+")
"""Names that ORC's text of a schema has as they are."""

NUMBERED = "_col"
"""Where all columns of an ORC file are named so, Spark takes them by their places."""

MOST_SCANS = 32
"""Partitions that are scanned one by one where Spark cannot find their values itself."""

MOST_MASKED_ROWS = 1 << 30
"""Rows of the files whose masks the driver holds, 128 MiB of them; sections beyond are read by tasks."""

MOST_FILES = 100_000
"""Files that the file index of a scan lists; sections beyond are read by tasks. Spark makes of each file a path, a
status, a directory and a piece of a task: the JVM of a driver takes 0.7 GiB to plan 100,000 files and 1.1 GiB to plan
300,000, where Spark gives it a heap of 1 GiB unless the user says otherwise. Of the same files as units of tasks it
takes 0.5 GiB to plan a million."""

MOST_FOUND_FILES = 10_000
"""The same where Spark lists files itself."""

METADATA = "_metadata"
"""Spark's hidden column of a file scan, where the row index is."""

ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's readers of Parquet fill with the row index."""

BY_TASKS, BY_DRIVER = "by tasks", "by the driver or, if they are many, by tasks"
"""Who merges keys of several versions, where all other rows of a section are Spark's."""

HIDDEN = ("_", ".")
"""Spark ignores files whose names begin so."""

SPELLED_ALIKE = re.compile(r"[A-Za-z0-9._=,+~-]+")
"""File names that are the same in a URL, as Spark has them: masks may be matched by file name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The reader of a section of a plan: Spark's scan, or tasks for the reason in `obstacle`."""

    section: Section
    obstacle: str | None

    @property
    def is_native(self) -> bool:
        return self.obstacle is None


def choices(plan: ScanPlan, *, far: str | None = None, listed: bool = True) -> list[Choice]:
    """Returns one choice for each section of one part of a plan, in their order.

    `far` says why Spark does not reach the files, if it does not. Unless they are `listed` for it, it finds them by
    their names, and values of partitions in those; masks are joined.
    """
    obstacle = far or _of_plan(plan) or (None if listed else _of_skipping(plan))
    read = read_fields(plan)
    chosen = [Choice(section, obstacle or _of_section(plan, section, read, listed)) for section in plan.sections]
    if not listed:
        obstacle = _of_all(plan, [choice.section for choice in chosen if choice.is_native])
        chosen = [Choice(choice.section, choice.obstacle or obstacle) for choice in chosen]
    return list(_within_bounds(chosen, MOST_FILES if listed else MOST_FOUND_FILES))


def _of_all(plan: ScanPlan, sections: Sequence[Section]) -> str | None:
    """Returns the obstacle to scanning the partitions of these sections."""
    partitions = {section.partition_row for section in sections}
    if len(partitions) <= MOST_SCANS or not set(plan.schema.partition_keys) & set(plan.read_columns):
        return None
    if base_of(plan, [(file.path, section.partition) for section in sections for file in section.files]) is not None:
        return None
    return f"Spark does not know the values of its {len(partitions):,} partitions from their folders"


def _within_bounds(chosen: Iterable[Choice], most_files: int) -> Iterator[Choice]:
    """Yields the choices, Spark's only as long as the driver can hold the masks and name the files."""
    rows = files = 0
    for choice in chosen:
        if choice.is_native:
            rows += choice.section.row_count if _is_masked(choice.section) else 0
            files += len(choice.section.files)
        if choice.is_native and rows > MOST_MASKED_ROWS:
            yield Choice(choice.section, f"the driver holds masks of {MOST_MASKED_ROWS:,} rows at most")
        elif choice.is_native and files > most_files:
            yield Choice(choice.section, f"the driver names {most_files:,} files at most")
        else:
            yield choice


def _is_masked(section: Section) -> bool:
    return section.kind is SectionKind.MERGE or any(file.deletion is not None for file in section.files)


def explain(plan: ScanPlan, far: str | None = None, join: str | None = None, *, here: bool = False) -> str:
    """Returns the choices as text, those of a kind together.

    `far` says why Spark does not reach the files, `join` why masks are joined; None where it is not so. `here`: the
    driver's process runs the tasks.
    """
    merging = BY_DRIVER if here and join is None else BY_TASKS
    lines = [line for part in plan.parts for line in _lines(part, far, merging, listed=join is None)]
    if far is None and any(_is_masked(section) for part in plan.parts for section in part.sections):
        lines.append("masks are a filter of the scan" if join is None else f"masks are joined to the scan: {join}")
    return "\n".join(["Spark reads", *(f"  {line}" for line in lines)])


def _lines(plan: ScanPlan, far: str | None, merging: str, *, listed: bool) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for choice in choices(plan, far=far, listed=listed):
        how = f"by tasks: {choice.obstacle}" if choice.obstacle else f"by its own {_scan_of(choice.section)} scan"
        merged = f", keys of several versions {merging}" if choice.is_native and is_folded(plan, choice.section) else ""
        counts[f"{choice.section.kind.value} sections {how}{merged}"] += 1
    yield from (f"{count:,} {text}" for text, count in counts.items())
    if not counts:
        yield "nothing: there are no files"


def _scan_of(section: Section) -> str:
    formats = {file.format for file in section.files}
    return "ORC" if formats == {ORC} else "Parquet and ORC" if ORC in formats else "Parquet"


def _of_plan(plan: ScanPlan) -> str | None:
    """Returns the obstacle to Spark's scan for all sections."""
    if plan.filter.residuals:
        return f"the filter {plan.filter.residuals[0].text} is not one of Spark's"
    for field in virtual_columns(plan, [plan.schema.by_name[name] for name in plan.read_columns]):
        return f"{field.name} is no column of files"
    for name in plan.read_columns:
        if not is_plain(plan.schema.by_name[name].type):
            return f"the type {plan.schema.by_name[name].type} of {name}"
    return None


def _of_skipping(plan: ScanPlan) -> str | None:
    """Returns the obstacle to a scan that skips what statistics rule out: those of Parquet leave out NaN, which SQL has
    above all numbers, and its dictionaries tell -0.0 from 0.0, which SQL has as equal.
    """
    for name in plan.read_columns:
        if _holds(kind := plan.schema.by_name[name].type, (t.FloatType, t.DoubleType)):
            return f"what Spark skips by values of the type {kind} of {name}"
    return None


def _of_section(plan: ScanPlan, section: Section, read: Sequence[DataField], listed: bool) -> str | None:
    if section.kind is SectionKind.STITCH:
        return "files hold different columns of the same rows"
    files = tuple(section.files)
    shapes = {(file.schema_id, file.write_columns, file.modern_dates): file for file in files}
    for file in files:
        if file.format != PARQUET and (file.format != ORC or not listed):
            return f"the files are {file.format}"
        if file.size <= 0:
            return "metadata does not tell the sizes of files"
        name = file.path.rpartition("/")[2]
        if not listed and name.startswith(HIDDEN):
            return "Spark hides files of such names"
        if not listed and not SPELLED_ALIKE.fullmatch(name):
            return "Spark spells such names of files in another way"
    return next((found for file in shapes.values() if (found := _of_file(plan, file, read))), None)


def _of_file(plan: ScanPlan, file: DataFile, fields: Sequence[DataField]) -> str | None:
    written = written_fields(plan, file)
    by_id = {field.id: field for field in written}
    # Columns added later are selected as well, by names of their own.
    stored = [field.name.casefold() for field in written]
    later = [f.name.casefold() for f in fields if f.id not in by_id and f.name.casefold() not in stored]
    if len({*stored, *later}) < len(stored) + len(later):
        return "names of columns differ in case only"
    for name in (METADATA, ROW_INDEX):
        if name in (*stored, *later):
            return f"a column has the name of Spark's {name}"
    if any(name.startswith(OWN_PREFIX.casefold()) for name in (*stored, *later)):
        return "but for the case of its letters, a column has a name of Morrow's own"
    if file.format == ORC and (found := _of_orc(file, fields, written)):
        return found
    for field in fields:
        if field.id in by_id and not same_values(by_id[field.id].type, field.type):
            return f"{field.name} was written as {by_id[field.id].type.text()}"
    return None


def _of_orc(file: DataFile, fields: Sequence[DataField], written: Sequence[DataField]) -> str | None:
    """Returns the obstacle to reading columns of an ORC file that holds `written`, whose types Spark parses as text."""
    if all(field.name.startswith(NUMBERED) for field in written):
        return f"all columns of an ORC file have names that begin with {NUMBERED}"
    for field in (*fields, *written):
        if not all(SPELLED_IN_ORC.fullmatch(name) for name in (field.name, *_members(field.type))):
            return f"the name of {field.name} in an ORC file"
    for field in written:
        if not OPENS_ORC_INSTANTS and _holds(field.type, (t.LocalZonedTimestampType,)):
            return f"{field.name} in an ORC file, whose type this version of Spark does not know"
    stored = {field.id: field.name for field in written}
    for field in fields:
        name = stored.get(field.id)
        is_modern = isinstance(field.type, t.DateType) and (name is None or name in file.modern_dates)
        for kind in NOT_OF_ORC:
            if not is_modern and _holds(field.type, (kind,)):
                return _otherwise_in_orc(field, kind)
    return None


def _otherwise_in_orc(field: DataField, kind: type[DataType]) -> str:
    return f"the type {field.type} of {field.name} in an ORC file, {NOT_OF_ORC[kind]}"


def _members(kind: DataType) -> Iterator[str]:
    """Yields the names of all members of rows in a type."""
    if isinstance(kind, t.RowType):
        yield from (field.name for field in kind.fields)
    for part in _parts(kind):
        yield from _members(part)


def _parts(kind: DataType) -> tuple[DataType, ...]:
    """Returns the types that a nested type is made of."""
    if isinstance(kind, (t.ArrayType, t.MultisetType)):
        return (kind.element,)
    if isinstance(kind, t.MapType):
        return kind.key, kind.value
    return tuple(field.type for field in kind.fields) if isinstance(kind, t.RowType) else ()


def read_fields(plan: ScanPlan) -> tuple[DataField, ...]:
    """Returns the columns that are read from files: partition columns are constants."""
    return tuple(plan.schema.by_name[n] for n in plan.read_columns if n not in plan.schema.partition_keys)


@lru_cache(maxsize=512)
def _holds(kind: DataType, wanted: tuple[type[DataType], ...]) -> bool:
    """Returns whether a type, or one that it is made of, is one of `wanted`."""
    return isinstance(kind, wanted) or any(_holds(part, wanted) for part in _parts(kind))


@lru_cache(maxsize=512)
def is_plain(kind: DataType) -> bool:
    """Returns whether Spark reads a type, and those that it is made of, from Parquet as Morrow does."""
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        # Finer ones are stored in a form whose meaning depends on settings of the session.
        return kind.precision <= MICROSECONDS
    if isinstance(kind, (t.ArrayType, t.MultisetType, t.MapType, t.RowType)):
        return all(map(is_plain, _parts(kind)))
    return isinstance(kind, PLAIN)
