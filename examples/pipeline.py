"""`make demo-spark`: a pipeline on PySpark, from new files to a table of aggregates.

    CSV files land  -> a stream of located events   --+
                                                      +-> events (partial-update, deletion vectors) -> a tag -> days
    JSON files land -> a stream of felt reports     --+

All of it is SQL and DataFrames, with tables by name. It runs on a machine that has Python alone: Spark and a Java
runtime are packages of `pip install 'morrow[spark]'`.
Every result is compared with the same one, computed from the files by Polars.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl

import morrow
import morrow.spark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import ingest  # found through the line above

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # the JVM lives for seconds
}
LOCATED = """
    id STRING, time TIMESTAMP_NTZ, type STRING, place STRING, latitude DOUBLE, longitude DOUBLE, depth DOUBLE,
    magnitude DOUBLE, magnitude_type STRING, status STRING, updated TIMESTAMP_NTZ
"""
FELT = "id STRING, felt INT, cdi DOUBLE, mmi DOUBLE, alert STRING, significance INT"
"""The columns of the files, with Spark's names of types."""

EVENTS = f"""
    CREATE TABLE lake.seismic.events ({LOCATED}, felt INT, cdi DOUBLE, mmi DOUBLE, alert STRING, significance INT)
    TBLPROPERTIES (
        'primary-key' = 'id', 'bucket' = '2', 'merge-engine' = 'partial-update', 'deletion-vectors.enabled' = 'true',
        'fields.updated.sequence-group' = 'time,type,place,latitude,longitude,depth,magnitude,magnitude_type,status'
    )
"""
"""The seismic network revises events: the newest revision counts, in whatever order they arrive."""

DAYS = """
    SELECT CAST(time AS DATE) AS day, count(*) AS events, count(felt) AS felt_events, max(magnitude) AS strongest
    FROM {events} GROUP BY 1
"""
"""The same query runs on Spark and on DuckDB."""

MERGE = f"""
    MERGE INTO lake.seismic.days AS old USING ({DAYS.format(events="lake.seismic.events")}) AS new ON old.day = new.day
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
"""


def run(folder: Path) -> None:
    """Start the session, run the pipeline, stop the session. Raises AssertionError if a row is wrong."""
    print("\nA pipeline on PySpark\n---------------------")
    print(f"Spark runs on {morrow.spark.find_java()}.")
    folder.mkdir(parents=True, exist_ok=True)
    with quiet(folder / "spark.log"):
        spark = morrow.spark.session("earthquakes", "local[2]", **SETTINGS)
        try:
            pipeline(spark, folder)
        finally:
            spark.stop()


def pipeline(spark: SparkSession, folder: Path) -> None:
    """Run all steps, as a user writes them."""
    landing, warehouse = folder / "landing", folder / "warehouse"
    located, felt = (ingest.feed(name) for name in ("earthquakes.csv", "felt_reports.csv"))

    # 1. A folder becomes a catalog of the session. Two streams write to one table, each its own columns.
    morrow.spark.catalog(spark, "lake", warehouse=warehouse)
    spark.sql("CREATE DATABASE lake.seismic")
    spark.sql(EVENTS)
    events = warehouse / "seismic.db" / "events"

    # 2. CSV files arrive, one a day, and a stream upserts their rows. Its first run reads the existing files.
    for (day,), rows in located.sort("time").group_by(pl.col("time").dt.date(), maintain_order=True):
        land(rows, landing / "located" / f"{day}.csv")
    locate(spark, landing)
    print(f"A stream of {len(list((landing / 'located').iterdir()))} CSV files: {state(events)}")

    # 3. Another stream, of JSON files, updates other columns of the same rows.
    land(felt, landing / "felt" / "week.json")
    feel(spark, landing)
    print(f"A stream of JSON files updated other columns: {state(events)}")

    # 4. Executors compact the table, and a tag keeps this state.
    spark.sql("CALL lake.sys.compact(table => 'seismic.events')")
    spark.sql("ALTER TABLE lake.seismic.events CREATE TAG `week-5`")
    print(f"Compacted, and tagged week-5: {state(events)}")

    # 5. The stream starts again from its checkpoint and reads only the new file. One of its rows is new. The others are
    #    revisions that are older than the rows of the table.
    late = located.head(20).with_columns(pl.col("updated").dt.offset_by("-1d"), magnitude=pl.lit(9.9))
    land(pl.concat([late, located.tail(1).with_columns(id=pl.lit("new"))]), landing / "located" / "late.csv")
    locate(spark, landing)
    print(f"The first stream again, with 20 stale revisions and a new event: {state(events)}")

    # 6. A batch job aggregates the rows of the tag into a table, and another one merges later changes into it.
    tagged = DAYS.format(events="lake.seismic.events VERSION AS OF 'week-5'")
    spark.sql(f"CREATE TABLE lake.seismic.days TBLPROPERTIES ('primary-key' = 'day', 'bucket' = '1') AS {tagged}")
    spark.sql(MERGE)
    print("A batch job wrote one row for each day of the tag, MERGE INTO what came since:")
    print(pl.DataFrame(spark.sql("SELECT * FROM lake.seismic.days ORDER BY day").toArrow()))

    check(spark, warehouse, located, felt)


def locate(spark: SparkSession, landing: Path) -> None:
    """Stream located events into the table. A batch that Spark runs twice is committed once, by its number."""
    files = spark.readStream.schema(LOCATED).option("header", True).option("maxFilesPerTrigger", 3)
    follow(files.csv(str(landing / "located")), landing / "checkpoints" / "located")


def feel(spark: SparkSession, landing: Path) -> None:
    """Stream felt reports into the same table. Columns that the stream lacks keep their values."""
    files = spark.readStream.schema(FELT).json(str(landing / "felt"))
    follow(files, landing / "checkpoints" / "felt")


def follow(stream: DataFrame, checkpoint: Path) -> None:
    """Write the available rows of a stream to the table of events."""
    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.toTable("lake.seismic.events").awaitTermination()


def land(rows: pl.DataFrame, file: Path) -> None:
    """Put a file into the folder that a stream reads, by a rename, so that the stream sees the whole file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}")  # Spark ignores such names
    if file.suffix == ".csv":
        rows.write_csv(draft, datetime_format="%Y-%m-%dT%H:%M:%S%.3f")
    else:
        rows.write_ndjson(draft)
    draft.rename(file)


def state(events: Path) -> str:
    return ingest.state(morrow.open(events))


def check(spark: SparkSession, warehouse: Path, located: pl.DataFrame, felt: pl.DataFrame) -> None:
    """Compare the tables with joins and sums of the files by Polars and DuckDB. Raises AssertionError."""
    week = located.join(felt, on="id", how="left").sort("id")
    new = located.tail(1).with_columns(id=pl.lit("new"))
    events, days = (warehouse / "seismic.db" / name for name in ("events", "days"))
    table = morrow.open(events)
    same(table.scan(tag="week-5").to_polars(), week, "the tag")
    same(table.scan().to_polars(), pl.concat([week, new], how="diagonal"), "the table")
    same(pl.DataFrame(spark.table("lake.seismic.events").toArrow()), table.scan().to_polars(), "what Spark reads")

    with closing(morrow.duckdb.install(duckdb.connect())) as connection:
        expected = connection.sql(DAYS.format(events=f"paimon_scan('{events}')")).pl()
        same(connection.sql(f"FROM paimon_scan('{days}')").pl(), expected, "the table of days")
    counted = f"{week.height + 1:,} events and {expected.height} days"
    print(f"  [{counted}, equal to what the files say, by Spark and by DuckDB]")


def same(actual: pl.DataFrame, expected: pl.DataFrame, what: str) -> None:
    first = expected.columns[0]
    actual = actual.select(expected.columns).cast(dict(expected.schema)).sort(first)
    assert actual.equals(expected.sort(first)), f"{what} is not what the files say: {actual}, {expected}"


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Redirect the output of Spark and its JVM to a file, and print it if the block fails."""
    shown = os.dup(2)
    with log.open("wb") as file:
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.write(shown, log.read_bytes())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)


def main(arguments: list[str]) -> None:
    """Leave the tables in the folder that is given; without one they are gone in the end."""
    pl.Config.set_tbl_formatting("ASCII_MARKDOWN")
    pl.Config.set_tbl_hide_dataframe_shape(True)
    if arguments:
        run(Path(arguments[0]))
    else:
        with tempfile.TemporaryDirectory(prefix="morrow-pipeline-") as folder:
            run(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
