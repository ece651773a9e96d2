"""Sections that Spark reads itself: its vectorised Parquet scan, with Morrow's masks applied by a join.

    files without a mask ──Parquet scan────────────▶ rows
    files with a mask    ──Parquet scan, row index─▶ semi join with (file, mask) on the bit at the row index ─▶ rows

The masks are a small local relation that is broadcast: 64 rows to a BIGINT. Projections and filters of Spark reach the
scan as for any Parquet files. Files with the same scan settings share a scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.format.row_kinds import INSERT, UPDATE_AFTER
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.names import FILE, KEY_HERE, MASK, ROW_HERE
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.files.file_frames import written_fields
from morrow.readers.masks import Mask
from morrow.readers.masks.bits import packed
from morrow.spark.reading import expressions
from morrow.spark.reading.choice import read_fields
from morrow.spark.reading.folders import Folders, base_of
from morrow.spark.types.to_spark import spark_schema, without_not_null
from morrow.spark.versions import from_arrow, joins_row_positions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

Words: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = tuple[str | None, ...]

WORD_BITS = 64
MOST_JOINED_ROWS = 1 << 20
"""Rows without a mask that are read with masked files: so many look-ups cost less than one more scan."""

MOST_ALIKE = 2
"""Masked files of one size up to which scans of their own separate them. Beyond, all are matched by name."""

ROW = "_metadata.row_index"
SIZE, NAME = "_metadata.file_size", "_metadata.file_name"
"""The columns that identify files; a join by the size costs half of one by the name."""

READ_OPTIONS = {
    # A missing or damaged file is an error, whatever the session's settings.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    # Paimon counts days and ticks in the proleptic Gregorian calendar.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # Paths are file names, not patterns.
    "__globPaths__": "false",
    # Columns of ORC are found by their names.
    "orc.force.positional.evolution": "false",
}

CHECKS_PAGES = "parquet.page.verify-checksum.enabled"
"""An option of Parquet's own library, which by default verifies no checksums."""


@dataclass(frozen=True)
class MaskedFile:
    """A file that Spark scans, with its live rows."""

    section: Section
    file: DataFile
    mask: Mask


@dataclass(frozen=True)
class FileScan:
    """The files of one Spark scan.

    `folders` where it takes the partitions' values from their paths, `listed` where its file index has them.
    """

    plan: ScanPlan
    files: tuple[MaskedFile, ...]
    names: Names
    drops: bool
    folders: Folders | None = None
    listed: bool = False

    @property
    def format(self) -> str:
        return self.files[0].file.format

    @property
    def paths(self) -> list[str]:
        return [each.file.path for each in self.files]

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        """The schema that Spark is given: columns under the names that they have in files, and those of partitions.

        Told columns are in the order in which they are read, those of folders at the end.
        """
        names = {field.name: name for field, name in zip(read_fields(self.plan), self.names)}
        if self.listed:
            names |= {name: name for name in self.plan.schema.partition_keys}
        wanted = (name for name in self.plan.read_columns if names.get(name) is not None)
        stored = (replace(self.plan.schema.by_name[name], name=cast("str", names[name])) for name in wanted)
        kind = (VALUE_KIND_FIELD,) if self.drops else ()
        return (*stored, *kind, *(self.folders.fields if self.folders else ()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the scan that need no conversion, in their order."""
        days = self.folders.days if self.folders else ()
        return tuple(field.name for field in self.fields if field.name not in days)

    @property
    def found(self) -> frozenset[str]:
        """The partition columns that are constants of the file index."""
        return frozenset(self.plan.schema.partition_keys) if self.listed else frozenset()

    @property
    def constants(self) -> Mapping[str, object]:
        """The partition's values, where Spark does not know them."""
        keys = self.plan.schema.partition_keys if self.folders is None and not self.listed else ()
        return dict(zip(keys, self.files[0].section.partition))


def alike(plan: ScanPlan, files: Sequence[MaskedFile]) -> Mapping[tuple[Names, bool, str], list[MaskedFile]]:
    """Groups files by names of columns, whether retractions are dropped, and format; leaves out those of dead rows."""
    read = read_fields(plan)
    shapes: dict[tuple[object, ...], Names] = {}
    groups: dict[tuple[Names, bool, str], list[MaskedFile]] = {}
    for each in files:
        if each.mask is None or each.mask.any():
            shape = each.file.schema_id, each.file.write_columns
            if shape not in shapes:
                shapes[shape] = _names(plan, each.file, read)
            groups.setdefault((shapes[shape], _drops(plan, each), each.file.format), []).append(each)
    return groups


def file_scans(plan: ScanPlan, files: Sequence[MaskedFile]) -> list[FileScan]:
    """Groups the files into as few scans as possible; those without a live row are left out."""
    partitioned = any(name in plan.schema.partition_keys for name in plan.read_columns)
    return [
        FileScan(plan, tuple(group), names, drops, folders)
        for (names, drops, _), some in alike(plan, files).items()
        for apart in _by_mask(some)
        for alone in _identified(apart)
        for group, folders in (_by_partition(plan, alone) if partitioned else [(alone, None)])
    ]


def _names(plan: ScanPlan, file: DataFile, read: Sequence[DataField]) -> Names:
    """Returns the names under which Spark has to select columns of a file; None for a missing column.

    A column added later is still selected, and null, unless another one has its name.
    """
    written = {field.id: field.name for field in written_fields(plan, file)}
    taken = {name.casefold() for name in written.values()}
    return tuple(written.get(f.id, None if f.name.casefold() in taken else f.name) for f in read)


def _drops(plan: ScanPlan, each: MaskedFile) -> bool:
    """Returns whether the scan drops retractions by their kind: masks of a merge have left them out already."""
    return each.section.kind is SectionKind.RAW and plan.drops_retractions and each.file.may_hold_retractions


def _by_mask(files: list[MaskedFile]) -> list[list[MaskedFile]]:
    """Separates files without a mask from those with one; a few of the former are read with the latter."""
    plain = [each for each in files if each.mask is None]
    masked = [each for each in files if each.mask is not None]
    if masked and sum(each.file.row_count for each in plain) <= MOST_JOINED_ROWS:
        return [[*masked, *plain]]
    return [group for group in (plain, masked) if group]


def _identified(files: list[MaskedFile]) -> list[list[MaskedFile]]:
    """Groups masked files so that sizes or names identify each within its group."""
    if not _is_masked(files):
        return [files]
    by_size, by_name = _repetitions(files, _size), _repetitions(files, _name)
    few = sum(each.file.row_count for each in files) <= MOST_JOINED_ROWS
    return by_size if len(by_size) <= (1 if few else MOST_ALIKE) else by_name


def _repetitions(files: list[MaskedFile], key: Callable[[MaskedFile], object]) -> list[list[MaskedFile]]:
    """Returns the first file of each key, then the second ones, and so on."""
    seen: Counter[object] = Counter()
    groups: list[list[MaskedFile]] = []
    for each in files:
        number = seen[key(each)]
        seen[key(each)] += 1
        if number == len(groups):
            groups.append([])
        groups[number].append(each)
    return groups


def _is_masked(files: Sequence[MaskedFile]) -> bool:
    return any(each.mask is not None for each in files)


def _size(each: MaskedFile) -> int:
    return each.file.size


def _name(each: MaskedFile) -> str:
    return each.file.path.rpartition("/")[2]


def _by_partition(plan: ScanPlan, files: list[MaskedFile]) -> list[tuple[list[MaskedFile], Folders | None]]:
    """Returns one scan where paths give the partitions as Spark parses them, else one for each partition."""
    by_value: dict[bytes, list[MaskedFile]] = {}
    for each in files:
        by_value.setdefault(each.section.partition_row, []).append(each)
    if len(by_value) > 1:
        base = base_of(plan, [(each.file.path, each.section.partition) for each in files])
        if base is not None:
            return [(files, base)]
    return [(group, None) for group in by_value.values()]


def scan_frame(plan: ScanPlan, scan: FileScan, spark: SparkSession, *, checks_pages: bool = False) -> DataFrame:
    """Returns the live rows of a scan that the filter keeps, columns `plan.columns`; masks are joined.

    With `checks_pages` Spark verifies the checksums of the pages that it reads; a mismatch fails its job.
    """
    frame = _reader(scan, spark).option(CHECKS_PAGES, str(checks_pages).lower()).parquet(*scan.paths)
    return finished(plan, scan, _masked(frame, scan, spark) if _is_masked(scan.files) else frame)


def finished(plan: ScanPlan, scan: FileScan, frame: DataFrame) -> DataFrame:
    """Returns the rows that the filter keeps of the live rows of a scan, columns `plan.columns`."""
    from pyspark.sql.functions import expr

    if plan.filter.predicate != ALWAYS:
        columns = _columns(plan, scan, plan.filter.columns)
        frame = frame.where(expressions.compile(plan.filter.predicate, plan.schema.fields, columns.__getitem__))
    if scan.drops:
        frame = frame.where(expr(f"{VALUE_KIND} IN ({INSERT}, {UPDATE_AFTER})"))
    # Often they are so already, and every call into the JVM costs time. Where a column is missing, another one, which
    # the filter reads, may be stored under its name.
    if scan.columns == plan.columns and None not in scan.names:
        return frame
    columns = _columns(plan, scan, plan.columns)
    return frame.select([columns[name].alias(name) for name in plan.columns])


def _reader(scan: FileScan, spark: SparkSession) -> DataFrameReader:
    reader = spark.read.options(**READ_OPTIONS).schema(spark_schema(without_not_null(scan.fields)))
    return reader.option("basePath", scan.folders.base) if scan.folders else reader


def _columns(plan: ScanPlan, scan: FileScan, wanted: Iterable[str]) -> dict[str, Column]:
    """Returns the source of columns in the scan: columns of the files, or constants."""
    from pyspark.sql.functions import col, date_from_unix_date

    names = {field.name: name for field, name in zip(read_fields(plan), scan.names)}
    constants = scan.constants
    days = scan.folders.days if scan.folders else frozenset()
    columns = {}
    for name in wanted:
        stored = names.get(name, name)
        if name in constants or stored is None:
            columns[name] = expressions.literal(constants.get(name), plan.schema.by_name[name].type, name)
        else:
            column = col(expressions.quoted(stored))
            columns[name] = date_from_unix_date(column) if name in days else column
    return columns


def _masked(frame: DataFrame, scan: FileScan, spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import broadcast, expr

    by_size = len({_size(each) for each in scan.files}) == len(scan.files)
    key, identity = (_size, SIZE) if by_size else (_name, NAME)
    relation = broadcast(mask_relation([key(each) for each in scan.files], list(map(mask_words, scan.files)), spark))
    if joins_row_positions(spark):
        return frame.join(relation, expr(_is_live(identity, ROW)), "left_semi")
    wide = frame.select("*", expr(f"{identity} AS {KEY_HERE}"), expr(f"{ROW} AS {ROW_HERE}"))
    return wide.join(relation, expr(_is_live(KEY_HERE, ROW_HERE)), "left_semi").drop(KEY_HERE, ROW_HERE)


def _is_live(key: str, row: str) -> str:
    """Returns the SQL condition that the bit of a row is set in the mask of its file."""
    word, bit = f"get({MASK}, CAST(shiftright({row}, 6) AS INT))", f"CAST({row} & {WORD_BITS - 1} AS INT)"
    return f"{key} = {FILE} AND (shiftright({word}, {bit}) & 1) = 1"


def mask_relation(keys: Sequence[int | str], masks: Sequence[Words], spark: SparkSession) -> DataFrame:
    """Returns a relation of the keys that identify files, and their masks."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    kind = LongType() if isinstance(keys[0], int) else StringType()
    words = pa.array(masks, pa.list_(pa.int64()))
    schema = StructType([StructField(FILE, kind), StructField(MASK, ArrayType(LongType()))])
    return from_arrow(spark, pa.table({FILE: pa.array(keys), MASK: words}), schema)


def mask_words(each: MaskedFile) -> Words:
    """Returns a file's mask as BIGINTs of 64 rows each, the first row in the lowest bit."""
    bits = packed(each.mask)
    if bits is None:
        return np.full(-(-each.file.row_count // WORD_BITS), -1, np.int64)
    return np.pad(np.frombuffer(bits, np.uint8), (0, -len(bits) % 8)).view(np.int64)
