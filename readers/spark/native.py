"""Sections that Spark reads by itself: its vectorised Parquet scan, with Morrow's masks laid on it by a join.

    files without a mask   ──Parquet scan──▶ rows
    files with a mask      ──Parquet scan, row index──▶ join with (file, mask) ──bit at the row index──▶ rows

The masks are a small local relation that is broadcast: 64 rows to a BIGINT. The file is told by its size where all
sizes differ, since a join by number costs half of one by name. Projections and filters of Spark reach the scan as for
any Parquet files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField, DataType, same_values
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.file_frames import written_fields
from morrow.readers.masks import Mask
from morrow.readers.spark.types import quoted, spark_arrow, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILE, MASK, POSITION = "__morrow_file", "__morrow_mask", "__morrow_position"
WORD_BITS = 64
MICROSECONDS = 6
PLAIN = (
    t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType,
    t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType, t.DateType,
)
"""Types whose Parquet form Spark reads as Morrow does."""


@dataclass(frozen=True)
class MaskedFile:
    """A file that Spark scans, with the live rows that Morrow found."""

    section: Section
    file: DataFile
    mask: Mask


def is_native(plan: ScanPlan, section: Section, fields: Sequence[DataField]) -> bool:
    """Whether Spark reads the files of a section as Morrow does: Parquet files whose columns need no cast."""
    if section.kind is SectionKind.STITCH or any(file.format != "parquet" for file in section.files):
        return False
    stored = [field for field in fields if field.name not in plan.schema.partition_keys]
    if not all(_is_plain(field.type) for field in stored):
        return False
    return all(_reads_as_written(plan, file, stored) for file in section.files)


def _is_plain(kind: DataType) -> bool:
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        # Finer ones are stored in a form whose meaning hangs on settings of the session.
        return kind.precision <= MICROSECONDS
    if isinstance(kind, t.ArrayType):
        return _is_plain(kind.element)
    if isinstance(kind, t.MapType):
        return _is_plain(kind.key) and _is_plain(kind.value)
    if isinstance(kind, t.RowType):
        return all(_is_plain(field.type) for field in kind.fields)
    return isinstance(kind, PLAIN)


def _reads_as_written(plan: ScanPlan, file: DataFile, fields: Sequence[DataField]) -> bool:
    written = {field.id: field for field in written_fields(plan, file)}
    return all(field.id not in written or same_values(written[field.id].type, field.type) for field in fields)


def native_frame(
    plan: ScanPlan, files: Sequence[MaskedFile], fields: Sequence[DataField], spark: SparkSession
) -> DataFrame:
    """The live rows of the files with the columns `fields`, in no order."""
    groups: dict[tuple[object, ...], list[MaskedFile]] = {}
    for each in files:
        retracts = each.section.kind is SectionKind.RAW and bool(plan.schema.primary_keys)
        shape = (
            each.file.schema_id, each.file.write_columns, each.section.partition,
            each.mask is not None, retracts and each.file.may_hold_retractions,
        )
        groups.setdefault(shape, []).append(each)
    frames = [_scan(plan, group, fields, spark, masked=shape[3], retracts=shape[4]) for shape, group in groups.items()]
    return reduce(lambda left, right: left.unionAll(right), frames)


def _scan(
    plan: ScanPlan,
    files: Sequence[MaskedFile],
    fields: Sequence[DataField],
    spark: SparkSession,
    *,
    masked: bool,
    retracts: bool,
) -> DataFrame:
    from pyspark.sql import functions as F

    written = {field.id: field for field in written_fields(plan, files[0].file)}
    constants = dict(zip(plan.schema.partition_keys, files[0].section.partition))
    stored = [f for f in fields if f.name not in constants and f.id in written]
    columns = [pa.field(written[f.id].name, written[f.id].type.arrow()) for f in stored]
    if retracts:
        columns.append(pa.field(VALUE_KIND, pa.int8()))
    frame = spark.read.schema(spark_ddl(spark_arrow(pa.schema(columns)))).parquet(*(each.file.path for each in files))
    if masked:
        frame = _masked(frame, files, spark)
    if retracts:
        frame = frame.where(F.col(VALUE_KIND).isin(0, 2))
    return frame.select(*(_column(field, written, constants) for field in fields))


def _column(field: DataField, written: Mapping[int, DataField], constants: Mapping[str, object]) -> Column:
    from pyspark.sql import functions as F

    if field.name in constants:
        kind = _ddl_of(field)
        return F.lit(constants[field.name]).cast(kind).alias(field.name)
    if field.id not in written:
        return F.lit(None).cast(_ddl_of(field)).alias(field.name)
    return F.col(quoted(written[field.id].name)).alias(field.name)


def _ddl_of(field: DataField) -> str:
    return spark_ddl(spark_arrow(pa.schema([pa.field("x", field.type.arrow())]))).removeprefix("`x` ")


def _masked(frame: DataFrame, files: Sequence[MaskedFile], spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    sizes = [each.file.size for each in files]
    by_size = len(set(sizes)) == len(sizes)
    names = pa.array(sizes if by_size else [each.file.path.rsplit("/", 1)[-1] for each in files])
    masks = pa.array([_words(each.mask) for each in files], pa.list_(pa.int64()))
    relation = spark.createDataFrame(pa.table({FILE: names, MASK: masks}))
    frame = frame.withColumns({
        FILE: F.col("_metadata.file_size" if by_size else "_metadata.file_name"),
        POSITION: F.col("_metadata.row_index"),
    })
    word = f"get({MASK}, cast(shiftright({POSITION}, 6) AS INT))"
    bit = f"(shiftright({word}, cast({POSITION} & {WORD_BITS - 1} AS INT)) & 1) = 1"
    return frame.join(F.broadcast(relation), FILE).where(bit)


def _words(mask: Mask) -> npt.NDArray[np.int64]:
    """A mask as BIGINTs of 64 rows each, the first row in the lowest bit."""
    assert mask is not None
    packed = np.packbits(mask.to_numpy(), bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view(np.int64)
