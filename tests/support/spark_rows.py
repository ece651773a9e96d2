"""Rows of Spark DataFrames: many frames read by one job, and the rows expected for a scan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from morrow.scans.system_tables import SystemScan
from morrow.scans.table_scan import Scan
from morrow.spark.dataframes import to_spark
from morrow.spark.expressions import quote_name
from morrow.spark.types import drop_not_null, to_spark_rows, to_travel_schema
from tests.support.canonical import assert_same_rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

Lines: TypeAlias = Counter[str]
"""The number of times that each row occurs, as JSON."""

SHOWN_ROWS = 5

FORMS = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)
"""Options that keep nulls, microseconds and zones in the JSON."""


def arrow_of(frame: DataFrame) -> pa.Table:
    """Read all rows in Spark's own Arrow types. Variants are collected, since `toArrow` fails on a null variant."""
    from pyspark.sql.types import VariantType

    if not any(isinstance(field.dataType, VariantType) for field in frame.schema):
        return frame.toArrow()
    columns = zip(*frame.collect(), strict=True)
    return pa.table({name: [_member(value) for value in column] for name, column in zip(frame.columns, columns)})


def _member(value: Any) -> Any:
    is_variant = hasattr(value, "metadata") and hasattr(value, "value")
    return {"value": bytes(value.value), "metadata": bytes(value.metadata)} if is_variant else value


def assert_reads_alike(frame: DataFrame, scan: Scan | SystemScan, set_columns: tuple[str, ...] = ()) -> None:
    """Assert that the frame has Morrow's rows in the form that Spark can hold, without nanoseconds."""
    fields = drop_not_null(scan.fields)
    expected = to_spark_rows(scan.to_arrow(), to_travel_schema(fields))
    assert_same_rows(rows_of(arrow_of(frame), fields), rows_of(expected, fields), fields, set_columns)


def handed_over(scan: Scan, spark: SparkSession) -> DataFrame:
    """Read with Morrow in this process, with the same nullability as Spark."""
    return to_spark(scan.to_batches(), drop_not_null(scan.fields), spark, where="what is expected")


def lines_of(frames: Sequence[DataFrame]) -> list[Lines | Exception]:
    """Read the rows of all frames with one job; if that fails, with one job per frame, and return the errors."""
    from pyspark.errors import PySparkException

    try:
        return list(_collected(frames))
    except PySparkException as error:
        return [error] if len(frames) == 1 else [lines for frame in frames for lines in lines_of([frame])]


def _collected(frames: Sequence[DataFrame]) -> list[Lines]:
    rows = [_as_json(frame, number) for number, frame in enumerate(frames)]
    while len(rows) > 1:  # in pairs, since Spark needs quadratic time to plan a chain of unions
        pairs = [left.unionAll(right) for left, right in zip(rows[::2], rows[1::2], strict=False)]
        rows = pairs + rows[len(pairs) * 2 :]
    # Each task receives the whole union, so a task for each of its many partitions would be quadratic, too.
    table = rows[0].coalesce(2).toArrow()
    found = [Lines() for _ in frames]
    for number, line in zip(table["frame"].to_pylist(), table["line"].to_pylist(), strict=True):
        found[number][line] += 1
    return found


def _as_json(frame: DataFrame, number: int) -> DataFrame:
    members = ", ".join(f"'c{i}', {_member_of(field)}" for i, field in enumerate(frame.schema))
    return frame.selectExpr(f"{number} AS frame", f"to_json(named_struct({members}), {FORMS}) AS line")


def _member_of(field: StructField) -> str:
    from pyspark.sql.types import MapType

    column = quote_name(field.name)
    # Keys would become texts, which not all types can.
    return f"map_entries({column})" if isinstance(field.dataType, MapType) else column


def assert_same_lines(got: Lines | Exception, want: Lines | Exception, frame: DataFrame, sets: Sequence[str]) -> None:
    """Assert that both have the same rows; entries of maps, and of arrays in `sets`, may have any order."""
    from pyspark.sql.types import MapType

    for side in (got, want):
        if isinstance(side, Exception):
            raise side
    assert isinstance(got, Counter) and isinstance(want, Counter)
    loose = [i for i, f in enumerate(frame.schema) if f.name in sets or isinstance(f.dataType, MapType)]
    if loose:
        got, want = _sorted(got, loose), _sorted(want, loose)
    missing, extra = want - got, got - want
    assert got == want, "\n".join(
        [
            f"{got.total()} rows for {want.total()}: {missing.total()} missing, {extra.total()} extra",
            *(f"missing: {line}" for line in sorted(missing)[:SHOWN_ROWS]),
            *(f"extra: {line}" for line in sorted(extra)[:SHOWN_ROWS]),
        ]
    )


def _sorted(lines: Lines, loose: Sequence[int]) -> Lines:
    found = Lines()
    for line, count in lines.items():
        row = json.loads(line, parse_float=str, parse_int=str)
        for column in (f"c{i}" for i in loose):
            row[column] = row[column] and sorted(row[column], key=json.dumps)
        found[json.dumps(row)] += count
    return found
