"""Values that few tables have, and values that none can hold: each write of Spark keeps them, or refuses them."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

import morrow
import morrow.spark
from morrow.spark.expressions import parse_partition_value
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import IS_LONG, settings
from tests.support.raw_arrays import LAYOUTS, Layout, damaged, has_sound_buffers, sound
from tests.support.written import data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_UTF8 = "CAST(X'FF61' AS STRING)"
KEY_TWICE = """from_json('{"a": 1, "a": 2}', 'MAP<STRING, INT>')"""
FAR_DATE = "date_add(DATE'1970-01-01', 2147483647)"
FAR_MOMENT = "timestamp_micros(9223372036854775807)"
AFTER_9999 = "TIMESTAMP_NTZ'9999-12-31 23:59:59' + INTERVAL 1 SECOND"
BEFORE_1 = "TIMESTAMP_NTZ'0001-01-01 00:00:00' - INTERVAL 1 SECOND"

KEPT = [
    ("STRING", "concat('a', char(0), 'b')"),
    ("STRING", "'\N{REPLACEMENT CHARACTER}'"),
    ("VARCHAR(2)", "'\N{DUCK}\N{DUCK}'"),
    ("CHAR(3)", "'abc'"),
    ("STRING", "CAST(INTERVAL 1 DAY AS STRING)"),
    ("BYTES", "X'00FF'"),
    ("DECIMAL(38, 0)", "CAST('-99999999999999999999999999999999999999' AS DECIMAL(38, 0))"),
    ("DECIMAL(38, 38)", "CAST('0.99999999999999999999999999999999999999' AS DECIMAL(38, 38))"),
    ("DATE", "DATE'0001-01-01'"),
    ("DATE", "DATE'1582-10-10'"),
    ("TIMESTAMP(6)", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
    ("TIMESTAMP(0)", "TIMESTAMP_NTZ'1677-09-21 00:00:00'"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP'0001-01-02 00:00:00Z'"),
    ("DOUBLE", "CAST('-0.0' AS DOUBLE)"),
    ("DOUBLE", "CAST('NaN' AS DOUBLE)"),
    ("FLOAT", "CAST('-Infinity' AS FLOAT)"),
    ("MAP<DOUBLE, FLOAT>", "map(CAST('NaN' AS DOUBLE), CAST('-0.0' AS FLOAT))"),
    ("ARRAY<ROW<a STRING, d DATE>>", "array(named_struct('a', char(0), 'd', DATE'9999-12-31'))"),
]
REFUSED = [
    ("STRING", NOT_UTF8, "not in UTF-8"),
    ("VARCHAR(2)", NOT_UTF8, "not in UTF-8"),
    ("ARRAY<STRING>", f"array('a', {NOT_UTF8})", "not in UTF-8"),
    ("MAP<STRING, INT>", f"map({NOT_UTF8}, 1)", "not in UTF-8"),
    ("ROW<a INT, b ROW<c STRING>>", f"named_struct('a', 1, 'b', named_struct('c', {NOT_UTF8}))", "not in UTF-8"),
    ("MAP<STRING, INT>", KEY_TWICE, "has a key twice"),
    ("ARRAY<MAP<STRING, INT>>", f"array({KEY_TWICE})", "has a key twice"),
    ("DATE", FAR_DATE, "outside of the years 1 to 9999"),
    ("ROW<a DATE>", f"named_struct('a', {FAR_DATE})", "outside of the years 1 to 9999"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", FAR_MOMENT, "outside of the years 1 to 9999"),
    ("TIMESTAMP(6)", AFTER_9999, "outside of the years 1 to 9999"),
    ("TIMESTAMP(0)", BEFORE_1, "outside of the years 1 to 9999"),
    ("TIMESTAMP(9)", "TIMESTAMP_NTZ'2262-04-12 00:00:00'", r"does not fit TIMESTAMP\(9\)"),
    ("TIMESTAMP(3)", "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", r"does not fit TIMESTAMP\(3\)"),
]
OF_SPARK = [
    ("DECIMAL(5, 2)", "CAST(123456 AS DECIMAL(38, 0))", "OVERFLOW"),
    ("VARCHAR(2)", "'abc'", "EXCEED_LIMIT_LENGTH"),
    ("CHAR(3)", "'abcd'", "EXCEED_LIMIT_LENGTH"),
    ("INT", "DATE'2026-01-01'", "CANNOT_SAFELY_CAST"),
    ("MAP<STRING, INT>", "map('a', 1, 'a', 2)", "DUPLICATED_MAP_KEY"),
]
"""Values that Spark itself refuses, before they come to Morrow."""


def query(values: Mapping[str, str]) -> str:
    return f"SELECT 1 AS id, {', '.join(f'{value} AS {name}' for name, value in values.items())}"


def update(spark: SparkSession, table: morrow.Table, values: Mapping[str, str]) -> None:
    table.append({"id": [1]})
    changes = ", ".join(f"{name} = {value}" for name, value in values.items())
    spark.sql(f"UPDATE pm.db.t SET {changes} WHERE id = 1")


def merge(spark: SparkSession, _table: morrow.Table, values: Mapping[str, str]) -> None:
    spark.sql(f"MERGE INTO pm.db.t t USING ({query(values)}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")


def stream(spark: SparkSession, table: morrow.Table, values: Mapping[str, str]) -> None:
    source = f"{Path(table.path).parent}/source"
    rows = spark.sql(query(values))
    rows.write.parquet(source)
    reader = spark.readStream.schema(rows.schema).parquet(source).writeStream.trigger(availableNow=True)
    reader.option("checkpointLocation", f"{source}/_checkpoint").toTable("pm.db.t").awaitTermination()


def save(spark: SparkSession, table: morrow.Table, values: Mapping[str, str]) -> None:
    spark.sql(query(values)).write.format("paimon").mode("append").save(table.path)


WRITES: dict[str, Callable[[SparkSession, morrow.Table, Mapping[str, str]], object]] = {
    "INSERT": lambda spark, _, values: spark.sql(f"INSERT INTO pm.db.t {query(values)}"),
    "UPDATE": update,
    "MERGE": merge,
    "stream": stream,
    "save": save,
    "INSERT OVERWRITE": lambda spark, _, values: spark.sql(f"INSERT OVERWRITE pm.db.t {query(values)}"),
    "writeTo": lambda spark, _, values: spark.sql(query(values)).writeTo("pm.db.t").append(),
    "insertInto": lambda spark, _, values: spark.sql(query(values)).write.insertInto("pm.db.t"),
    "write": lambda spark, table, values: morrow.spark.write(spark.sql(query(values)), table.path),
}
SHORT = WRITES if IS_LONG else ("INSERT", "UPDATE", "MERGE", "stream", "save")


def new_table(tmp_path: Path, kinds: Mapping[str, str]) -> morrow.Table:
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    return morrow.Catalog(tmp_path).create_table("db.t", schema=f"id INT, {columns}")


def columns_of(rows: pa.Table) -> dict[str, Any]:
    return {name: exact(rows[name].to_pylist()) for name in rows.column_names}


def exact(value: Any) -> Any:
    """Return a value whose parts equal only themselves: NaN does, and the zeros differ."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: exact(part) for name, part in value.items()}
    return [exact(part) for part in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.usefixtures("sql")
@pytest.mark.parametrize("write", SHORT)
def test_values_that_are_kept(spark: SparkSession, tmp_path: Path, write: str) -> None:
    values = {f"v{at}": value for at, (_, value) in enumerate(KEPT)}
    table = new_table(tmp_path, {f"v{at}": kind for at, (kind, _) in enumerate(KEPT)})
    WRITES[write](spark, table, values)
    expected = columns_of(spark.sql(query(values)).toArrow())
    assert columns_of(spark.table("pm.db.t").toArrow()) == expected
    assert columns_of(table.to_arrow()) == expected
    assert table.doctor(data=True).findings == ()


CASES = [
    (kind, value, says, write)
    for at, (kind, value, says) in enumerate(REFUSED)
    for write in (WRITES if IS_LONG else [list(WRITES)[at % len(WRITES)]])
    if kind != "TIMESTAMP(9)" or write not in ("UPDATE", "MERGE")  # refused: Spark's timestamps have microseconds
]


@pytest.mark.usefixtures("sql")
@pytest.mark.parametrize(("kind", "value", "says", "write"), CASES)
def test_values_that_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str, value: str, says: str, write: str
) -> None:
    table = new_table(tmp_path, {"v": kind})
    with pytest.raises(Exception, match=rf"column 'v.*', row 0: .*{says}"):
        WRITES[write](spark, table, {"v": value})
    assert [row["v"] for row in table.to_arrow().to_pylist()] == [None] * (write == "UPDATE")


@pytest.mark.usefixtures("sql")
@pytest.mark.parametrize(("kind", "value", "says"), OF_SPARK)
def test_values_that_spark_refuses(spark: SparkSession, tmp_path: Path, kind: str, value: str, says: str) -> None:
    table = new_table(tmp_path, {"v": kind})
    for write in ("INSERT", "MERGE"):
        with pytest.raises(Exception, match=says):
            WRITES[write](spark, table, {"v": value})
    assert data_files(Path(table.path)) == set()


def test_maps_of_which_spark_drops_entries(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, {"v": "MAP<STRING, INT>"})
    with settings(spark, {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}):
        sql("INSERT INTO pm.db.t SELECT 1, map('a', 1, 'a', 2)")
    assert sql("SELECT v FROM pm.db.t") == [({"a": 2},)]
    assert table.to_arrow()["v"].to_pylist() == [[("a", 2)]]


@pytest.mark.parametrize("made", ["PARTITIONED BY (v)", "TBLPROPERTIES ('primary-key' = 'v', 'bucket' = '2')"])
@pytest.mark.parametrize(("value", "says"), [(NOT_UTF8, "not in UTF-8"), (FAR_DATE, "outside of the years")])
def test_partitions_and_keys_that_are_refused(sql: Sql, made: str, value: str, says: str) -> None:
    with pytest.raises(Exception, match=rf"InvalidArgument: column 'v', row 0: .*{says}"):
        sql(f"CREATE TABLE pm.db.t {made} AS SELECT 1 AS id, {value} AS v")
    assert sql("SHOW TABLES IN pm.db") == []


@pytest.mark.parametrize("kind", ["INTERVAL 1 DAY", "array(INTERVAL 1 MONTH)", "NULL"])
def test_types_that_no_table_has(sql: Sql, spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with pytest.raises(Exception, match=r"writing the Spark type .* of column 'v' is not supported; cast the column"):
        sql(f"CREATE TABLE pm.db.t AS SELECT {kind} AS v")
    with pytest.raises(Exception, match=r"The paimon datasource doesn't support the column `v`|of column 'v'"):
        spark.sql(f"SELECT {kind} AS v").write.format("paimon").mode("append").save(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_literals_that_are_no_text_equal_no_text(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    """Java's text has the replacement character for bytes that are not UTF-8."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, s STRING, p STRING", partition_keys=["p"])
    mark = "\N{REPLACEMENT CHARACTER}"
    table.append({"id": [1, 2], "s": [mark, "b"], "p": [mark, "b"]})
    other = "CAST(X'FF' AS STRING)"
    conditions = [f"p = {other}", f"p <=> {other}", f"p IN ({other}, 'x')", f"startswith(p, {other})", f"s = {other}"]
    assert sql(" UNION ALL ".join(f"SELECT id FROM pm.db.t WHERE {condition}" for condition in conditions)) == []
    assert spark.read.format("morrow").load(table.path).where(conditions[0]).isEmpty()
    for condition in conditions[2:]:
        sql(f"DELETE FROM pm.db.t WHERE {condition}")
    with pytest.raises(Exception, match="to overwrite by this condition is not supported"):
        spark.table("pm.db.t").limit(0).writeTo("pm.db.t").overwrite(expr(f"p = {other}"))
    assert sql(f"SELECT id FROM pm.db.t WHERE p = '{mark}' OR p != {other} ORDER BY id") == [(1,), (2,)]


TRUE = [
    f"d < {FAR_DATE}",
    "d > date_add(DATE'0001-01-01', -1)",
    "d NOT IN (DATE'1582-10-10', DATE'1000-01-01')",
    f"n < {AFTER_9999}",
    f"n NOT IN ({BEFORE_1}, {AFTER_9999})",
    f"l < {FAR_MOMENT}",
    "x = 0D",
    "x < CAST('NaN' AS DOUBLE)",
]


def test_conditions_with_literals_that_no_table_holds(sql: Sql, tmp_path: Path) -> None:
    kinds = {"d": "DATE", "n": "TIMESTAMP(6)", "l": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "x": "DOUBLE"}
    moment = dt.datetime(2024, 2, 29)
    row = {"id": 1, "d": moment.date(), "n": moment, "l": moment.replace(tzinfo=dt.UTC), "x": -0.0}
    new_table(tmp_path, kinds).append([row])
    found = sql(" UNION ALL ".join(f"SELECT {at} FROM pm.db.t WHERE {condition}" for at, condition in enumerate(TRUE)))
    assert sorted(found) == [(at,) for at in range(len(TRUE))]
    for condition in TRUE[:2]:
        sql(f"DELETE FROM pm.db.t WHERE NOT ({condition})")
    assert sql("SELECT id FROM pm.db.t") == [(1,)]


def test_partitions_of_far_dates(sql: Sql, tmp_path: Path) -> None:
    """A far date has five digits of the year, of which Java's text has the last four."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, d DATE", partition_keys=["d"])
    table.append({"id": [1], "d": [dt.date(2024, 2, 29)]})
    far = "DATE'+12024-02-29'"
    for statement in (
        f"ALTER TABLE pm.db.t DROP PARTITION (d = {far})",
        f"INSERT OVERWRITE pm.db.t PARTITION (d = {far}) SELECT 2 WHERE false",
        f"TRUNCATE TABLE pm.db.t PARTITION (d = {far})",
    ):
        with pytest.raises(Exception, match=r"12024-02-29|does not exist|cannot be found"):
            sql(statement)
    sql(f"DELETE FROM pm.db.t WHERE d = {far}")
    assert sql("SELECT id FROM pm.db.t") == [(1,)]


def is_of_spark(layout: Layout) -> bool:
    """Return whether Spark makes a DataFrame of such arrays. Its times are finer than Paimon's."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        from_arrow_type(layout.arrow)
    except (PySparkTypeError, AttributeError):
        return False
    return "TIME(" not in layout.sql


@pytest.mark.usefixtures("sql")
def test_arrays_of_every_layout(spark: SparkSession, tmp_path: Path) -> None:
    rng, layouts = random.Random(7), [layout for layout in LAYOUTS if is_of_spark(layout)]
    arrays = {f"v{at}": sound(rng, layout, 5) for at, layout in enumerate(layouts)}
    table = new_table(tmp_path, {f"v{at}": layout.sql for at, layout in enumerate(layouts)})
    rows = pa.table({"id": pa.array(range(5), pa.int32()), **arrays})
    spark.createDataFrame(rows).writeTo("pm.db.t").append()
    assert columns_of(spark.table("pm.db.t").orderBy("id").toArrow()) == columns_of(rows)
    assert columns_of(table.to_arrow().sort_by("id")) == columns_of(rows)


PROMISING = (pa.string(), pa.large_string(), pa.decimal128(5, 2), pa.date32(), pa.timestamp("us"))
"""Types for which some bytes are not valid values."""


def is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
        array.to_pylist()
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True


@pytest.mark.usefixtures("sql")
@pytest.mark.parametrize("seed", range(100 if IS_LONG else 4))
def test_damaged_arrays_are_refused_or_kept(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng, layouts = random.Random(seed), [layout for layout in LAYOUTS if layout.arrow in PROMISING]
    array = None
    while array is None or not has_sound_buffers(array) or is_valid(array):
        layout = rng.choice(layouts)
        with suppress(pa.ArrowException, IndexError):
            array = damaged(rng, sound(rng, layout, 5))
    table = new_table(tmp_path, {"v": layout.sql})
    rows = pa.table({"id": pa.array(range(5), pa.int32()), "v": array})
    try:
        spark.createDataFrame(rows).writeTo("pm.db.t").append()
    except PySparkException as error:
        assert re.search("InvalidArgument: column 'v', row|NUMERIC_VALUE_OUT_OF_RANGE", str(error))
        assert table.to_arrow().num_rows == 0
        return
    assert columns_of(spark.table("pm.db.t").orderBy("id").toArrow()) == columns_of(rows)
    assert columns_of(table.to_arrow().sort_by("id")) == columns_of(rows)


def test_times_of_partitions_that_python_cannot_represent() -> None:
    assert parse_partition_value(["timestamp", "2024-02-29T00:00"]) == dt.datetime(2024, 2, 29)
    assert parse_partition_value(["timestamp", "+12024-02-29T00:00"]) == "+12024-02-29T00:00"
