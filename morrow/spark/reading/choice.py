"""The choice of a reader for each section of a plan: Spark's own scan of files, or tasks of Morrow, and why.

Spark reads a section if its rows are in Parquet files (or ORC files, if Morrow can list them) that every executor
can open, in columns that Spark reads as Morrow does (no cast, no type that the two interpret differently), and
Spark can evaluate the filter. Tasks merge keys whose versions are combined; Spark reads all other rows of such a
section.
If Spark finds the files itself, it also discovers partitions from paths like ``dt=2024-05-14/hour=7/bucket-0``.
One scan then reads any number of partitions, and skips partitions that a later filter excludes. Paimon names folders
as Hive does, except for nulls and values whose text Spark reads differently, so each folder is compared with the
value in the metadata.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from morrow.engine.format import types as t
from morrow.engine.format.map_shredding import has_shared_maps
from morrow.engine.names import OWN_PREFIX
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.execution.strategy import WHOLE
from morrow.readers.files.file_frames import list_virtual_columns, list_written_fields
from morrow.spark.versions import OPENS_ORC_INSTANTS

MICROSECONDS = 6
PLAIN_TYPES = (
    *(t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType),
    *(t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType, t.DateType),
)
"""Types whose Parquet form Spark reads as Morrow does."""

PARQUET, ORC = "parquet", "orc"

NOT_OF_ORC: Mapping[type[t.DataType], str] = {
    t.CharType: "whose blanks Spark has in another way",
    **dict.fromkeys(
        (t.MapType, t.MultisetType), "of which Spark takes nulls for collections, or has entries in another order"
    ),
    t.DateType: "of which no statistics tell that Spark has the same dates",
    t.TimestampType: "which Spark reads in the time zone of each executor",
    t.LocalZonedTimestampType: "which Spark reads in the time zone of each executor where no instants are stored",
}
"""Types that Spark's ORC reader decodes differently, and how. Dates before the Gregorian calendar differ, too."""

SPELLED_IN_ORC = re.compile(r"[A-Za-z0-9_]+")
"""A pattern of names that need no quotes in ORC's text form of a schema."""

NUMBERED = "_col"
"""A prefix of column names. If all columns of an ORC file have it, Spark matches columns by position."""

MAX_SCANS = 32
"""The maximum partitions to scan separately when Spark cannot find the partition values itself."""

MAX_MASKED_ROWS = 1 << 30
"""The maximum rows of files whose masks the driver holds, 128 MiB of masks; tasks read sections beyond."""

MAX_FILES = 100_000
"""The maximum files in the file index of a scan; tasks read sections beyond. Spark keeps a path, a status, a directory
and a piece of a task for each file: a driver's JVM needs 0.7 GiB to plan 100,000 files and 1.1 GiB to plan 300,000, and
Spark's default heap is 1 GiB. As units of tasks, a million files need 0.5 GiB."""

MAX_UNLISTED_FILES = 10_000
"""The maximum files of a scan if Spark lists files itself."""

METADATA = "_metadata"
"""Spark's hidden column of a file scan, which contains the row index."""

ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's readers of Parquet fill with the row index."""

BY_TASKS, BY_DRIVER = "by tasks", "by the driver or, if they are many, by tasks"
"""The reader in `explain` that merges keys of several versions, if Spark reads all other rows of a section."""

HIDDEN = ("_", ".")
"""Prefixes of names that Spark ignores when it lists files."""

SPELLED_ALIKE = re.compile(r"[A-Za-z0-9._=,+~-]+")
"""A pattern of file names that are unchanged in Spark's URLs, so that masks can be matched by file name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The reader of a section of a plan: Spark's scan or, because of `obstacle`, tasks."""

    section: Section
    obstacle: str | None

    @property
    def is_native(self) -> bool:
        return self.obstacle is None


def choose_readers(plan: ScanPlan, *, far: str | None = None, listed: bool = True) -> list[Choice]:
    """Return one choice for each section of a plan part, in the order of the sections.

    `far`: the reason why Spark cannot reach the files, or None. `listed`: whether Morrow lists the files for Spark. If
    not, Spark finds them by name and takes partition values from folder names, and masks are joined.
    """
    obstacle = far or _find_plan_obstacle(plan) or (None if listed else _find_skipping_obstacle(plan))
    read = read_fields(plan)
    chosen = [
        Choice(section, obstacle or _find_section_obstacle(plan, section, read, listed)) for section in plan.sections
    ]
    if not listed:
        obstacle = _find_partition_obstacle(plan, [choice.section for choice in chosen if choice.is_native])
        chosen = [Choice(choice.section, choice.obstacle or obstacle) for choice in chosen]
    return list(_limit_choices(chosen, MAX_FILES if listed else MAX_UNLISTED_FILES))


def _find_partition_obstacle(plan: ScanPlan, sections: Sequence[Section]) -> str | None:
    """Return the reason why Spark cannot scan the partitions of these sections."""
    partitions = {section.partition_row for section in sections}
    if len(partitions) <= MAX_SCANS or not set(plan.schema.partition_keys) & set(plan.read_columns):
        return None
    if find_base(plan, [(file.path, section.partition) for section in sections for file in section.files]) is not None:
        return None
    return f"Spark does not know the values of its {len(partitions):,} partitions from their folders"


def _limit_choices(chosen: Iterable[Choice], most_files: int) -> Iterator[Choice]:
    """Yield the choices. Replace Spark by tasks beyond the limits for masks and files."""
    rows = files = 0
    for choice in chosen:
        if choice.is_native:
            rows += choice.section.row_count if _is_masked(choice.section) else 0
            files += len(choice.section.files)
        if choice.is_native and rows > MAX_MASKED_ROWS:
            yield Choice(choice.section, f"the driver holds masks of {MAX_MASKED_ROWS:,} rows at most")
        elif choice.is_native and files > most_files:
            yield Choice(choice.section, f"the driver names {most_files:,} files at most")
        else:
            yield choice


def _is_masked(section: Section) -> bool:
    return section.kind is SectionKind.MERGE or any(file.deletion is not None for file in section.files)


def explain(plan: ScanPlan, far: str | None = None, join: str | None = None, *, here: bool = False) -> str:
    """Return the choices as text, grouped by kind.

    `far`: the reason why Spark cannot reach the files, or None. `join`: the reason to join masks, or None. `here`: the
    driver's process runs the tasks.
    """
    merging = BY_DRIVER if here and join is None else BY_TASKS
    lines = [line for part in plan.parts for line in _describe_choices(part, far, merging, listed=join is None)]
    if far is None and any(_is_masked(section) for part in plan.parts for section in part.sections):
        lines.append("masks are a filter of the scan" if join is None else f"masks are joined to the scan: {join}")
    return "\n".join(["Spark reads", *(f"  {line}" for line in lines)])


def _describe_choices(plan: ScanPlan, far: str | None, merging: str, *, listed: bool) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for choice in choose_readers(plan, far=far, listed=listed):
        how = f"by tasks: {choice.obstacle}" if choice.obstacle else f"by its own {_name_scan(choice.section)} scan"
        merged = f", keys of several versions {merging}" if choice.is_native and plan.folds(choice.section) else ""
        counts[f"{choice.section.kind.value} sections {how}{merged}"] += 1
    yield from (f"{count:,} {text}" for text, count in counts.items())
    if not counts:
        yield "nothing: there are no files"


def _name_scan(section: Section) -> str:
    formats = {file.format for file in section.files}
    return "ORC" if formats == {ORC} else "Parquet and ORC" if ORC in formats else "Parquet"


def _find_plan_obstacle(plan: ScanPlan) -> str | None:
    """Return the reason why Spark cannot scan any section."""
    if plan.filter.residuals:
        return f"the filter {plan.filter.residuals[0].text} is not one of Spark's"
    for field in list_virtual_columns(plan, [plan.schema.by_name[name] for name in plan.read_columns]):
        return f"{field.name} is not a column of files"
    for name in plan.read_columns:
        if not is_plain(plan.schema.by_name[name].type):
            return f"the type {plan.schema.by_name[name].type} of {name}"
    return None


def _find_skipping_obstacle(plan: ScanPlan) -> str | None:
    """Return the reason why Spark may not skip data by statistics.

    Parquet statistics ignore NaN, which SQL sorts above all numbers, and Parquet dictionaries distinguish -0.0 from
    0.0, which are equal in SQL.
    """
    for name in plan.read_columns:
        if _has_type(kind := plan.schema.by_name[name].type, (t.FloatType, t.DoubleType)):
            return f"what Spark skips by values of the type {kind} of {name}"
    return None


def _find_section_obstacle(plan: ScanPlan, section: Section, read: Sequence[t.DataField], listed: bool) -> str | None:
    if section.kind in WHOLE:
        return WHOLE[section.kind]
    if has_shared_maps(plan.file_options, read):
        return "files hold maps in shared columns"
    files = tuple(section.files)
    shapes = {(file.schema_id, file.write_columns, file.modern_dates): file for file in files}
    for file in files:
        if file.format != PARQUET and (file.format != ORC or not listed):
            return f"the files are {file.format}"
        if file.size <= 0:
            return "metadata does not record the sizes of files"
        name = file.path.rpartition("/")[2]
        if not listed and name.startswith(HIDDEN):
            return "Spark hides files of such names"
        if not listed and not SPELLED_ALIKE.fullmatch(name):
            return "Spark spells such names of files in another way"
    return next((found for file in shapes.values() if (found := _find_file_obstacle(plan, file, read))), None)


def _find_file_obstacle(plan: ScanPlan, file: DataFile, fields: Sequence[t.DataField]) -> str | None:
    written = list_written_fields(plan, file)
    by_id = {field.id: field for field in written}
    # Columns added later are also selected, by their own names.
    stored = [field.name.casefold() for field in written]
    later = [f.name.casefold() for f in fields if f.id not in by_id and f.name.casefold() not in stored]
    if len({*stored, *later}) < len(stored) + len(later):
        return "names of columns differ in case only"
    for name in (METADATA, ROW_INDEX):
        if name in (*stored, *later):
            return f"a column has the name of Spark's {name}"
    if any(name.startswith(OWN_PREFIX.casefold()) for name in (*stored, *later)):
        return "but for the case of its letters, a column has a name of Morrow's own"
    if file.format == ORC and (found := _find_orc_obstacle(file, fields, written)):
        return found
    for field in fields:
        if field.id in by_id and not t.has_same_values(by_id[field.id].type, field.type):
            return f"{field.name} was written as {by_id[field.id].type.text()}"
    return None


def _find_orc_obstacle(file: DataFile, fields: Sequence[t.DataField], written: Sequence[t.DataField]) -> str | None:
    """Return the reason why Spark cannot read columns of an ORC file. It parses the types in `written` from text."""
    if all(field.name.startswith(NUMBERED) for field in written):
        return f"all columns of an ORC file have names that begin with {NUMBERED}"
    for field in (*fields, *written):
        if not all(SPELLED_IN_ORC.fullmatch(name) for name in (field.name, *_list_members(field.type))):
            return f"the name of {field.name} in an ORC file"
    for field in written:
        if not OPENS_ORC_INSTANTS and _has_type(field.type, (t.LocalZonedTimestampType,)):
            return f"{field.name} in an ORC file, whose type this version of Spark does not know"
    stored = {field.id: field.name for field in written}
    for field in fields:
        name = stored.get(field.id)
        is_modern = isinstance(field.type, t.DateType) and (name is None or name in file.modern_dates)
        for kind in NOT_OF_ORC:
            if not is_modern and _has_type(field.type, (kind,)):
                return f"the type {field.type} of {field.name} in an ORC file, {NOT_OF_ORC[kind]}"
    return None


def _list_members(kind: t.DataType) -> Iterator[str]:
    """Yield the names of all struct members in a type."""
    if isinstance(kind, t.RowType):
        yield from (field.name for field in kind.fields)
    for part in _list_parts(kind):
        yield from _list_members(part)


def _list_parts(kind: t.DataType) -> tuple[t.DataType, ...]:
    """Return the element types of a nested type."""
    if isinstance(kind, (t.ArrayType, t.MultisetType)):
        return (kind.element,)
    if isinstance(kind, t.MapType):
        return kind.key, kind.value
    return tuple(field.type for field in kind.fields) if isinstance(kind, t.RowType) else ()


def read_fields(plan: ScanPlan) -> tuple[t.DataField, ...]:
    """Return the columns to read from files. Partition columns are constants."""
    return tuple(plan.schema.by_name[n] for n in plan.read_columns if n not in plan.schema.partition_keys)


@lru_cache(maxsize=512)
def _has_type(kind: t.DataType, wanted: tuple[type[t.DataType], ...]) -> bool:
    """Return whether a type, or a type nested in it, is one of `wanted`."""
    return isinstance(kind, wanted) or any(_has_type(part, wanted) for part in _list_parts(kind))


@lru_cache(maxsize=512)
def is_plain(kind: t.DataType) -> bool:
    """Return whether Spark reads a type, and the types nested in it, from Parquet as Morrow does."""
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        # Timestamps with nanoseconds are stored in a form whose meaning depends on session settings.
        return kind.precision <= MICROSECONDS
    if isinstance(kind, (t.ArrayType, t.MultisetType, t.MapType, t.RowType)):
        return all(map(is_plain, _list_parts(kind)))
    return isinstance(kind, PLAIN_TYPES)


SPARKS_NULL = "__HIVE_DEFAULT_PARTITION__"
BUCKET_AND_FILE = 2
"""The number of path segments after the partition folders."""

EPOCH = dt.date(1970, 1, 1)

FOLDER_TYPES = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.VarCharType, t.CharType)
"""Types whose values Spark parses from Paimon's folder names."""


@dataclass(frozen=True)
class Folders:
    """The folder above the partitions, and the columns that Spark derives from the folder names below.

    Columns in `days` are dates that Paimon writes as days since 1970 (unless ``partition.legacy-name`` is false).
    """

    base: str
    fields: tuple[t.DataField, ...]
    days: frozenset[str]


def find_base(plan: ScanPlan, files: Iterable[tuple[str, tuple[object, ...]]]) -> Folders | None:
    """Return the folder from which Spark finds the partitions of these files, given by path and partition.

    Returns None if Spark would find other values, or would have to start in several folders.
    """
    fields = tuple(plan.schema.by_name[name] for name in plan.schema.partition_keys)
    partitions = {(path.rsplit("/", BUCKET_AND_FILE)[0], partition) for path, partition in files}
    bases, in_days = set(), set()
    for folder, partition in partitions:
        base, *named = folder.rsplit("/", len(fields))
        if len(named) < len(fields) or not all(map(_is_value_of, named, fields, partition)):
            return None
        bases.add(base)
        in_days.add(tuple(map(_is_in_days, named, fields)))
    if len(bases) != 1 or len(in_days) != 1:
        return None
    days = {field.name for field, is_in_days in zip(fields, in_days.pop()) if is_in_days}
    seen = (replace(f, type=t.IntType()) if f.name in days else f for f in fields)
    return Folders(bases.pop(), tuple(seen), frozenset(days))


def _is_in_days(segment: str, field: t.DataField) -> bool:
    return isinstance(field.type, t.DateType) and segment.rpartition("=")[2].lstrip("-").isdigit()


def _is_value_of(segment: str, field: t.DataField, value: object) -> bool:
    """Return whether Spark parses this value from a folder of this name."""
    name, _, written = segment.partition("=")
    if name != field.name or value is None:
        return False
    if isinstance(value, dt.date) and isinstance(field.type, t.DateType):
        return written in (value.isoformat(), str((value - EPOCH).days))
    if not isinstance(field.type, FOLDER_TYPES):
        return False
    text = str(value)
    # Spark unescapes byte by byte, which is right for ASCII only.
    found = unquote(written) if text.isascii() else written
    return found == text and text not in ("", SPARKS_NULL)
