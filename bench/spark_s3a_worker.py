"""A process in which Spark reads through s3a: `-m bench.spark_s3a_worker SIZE ROUNDS TABLE...`.

The files of each table of `bench.tables` are uploaded to an S3 server on the loopback. For each table, it prints by
query the seconds of Morrow, first and again, and of Spark's own scan of the same objects, measured in turns. Exits with
77 and the reason if Spark's S3 file system is not available.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import morrow
import morrow.spark
from bench import spark as sparks
from bench import tables
from bench.compare import timed
from bench.tables import HOME, Table
from tests.support.s3_server import BUCKET, client_of, s3_server
from tests.support.s3a import NoS3a, s3a_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIPPED = 77
WARMUPS = 2
JARS = HOME / "ivy"
"""The folder of the file system's jars, 600 MB."""


def main() -> int:
    size, rounds, *names = sys.argv[1:]
    with s3_server() as options:
        try:
            spark = s3a_session(options, JARS, sparks.SETTINGS)
        except NoS3a as error:
            print(f"Spark has no s3a: {error}")
            return SKIPPED
        spark.sparkContext.setLogLevel("ERROR")
        for name in names:
            table = tables.make(name, quick=size == "quick")
            put(table, name, options)
            print(json.dumps({"table": name, **seconds_of(spark, table, name, options, int(rounds))}), flush=True)
        spark.stop()
    return 0


def put(table: Table, name: str, options: Mapping[str, str]) -> None:
    """Put all files of a table below the prefix `name` of the bucket."""
    client = client_of(dict(options))
    for file in Path(table.path).rglob("*"):
        if file.is_file():
            key = f"{name}/{file.relative_to(table.path)}"
            client.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())


def seconds_of(
    spark: SparkSession, table: Table, name: str, options: Mapping[str, str], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return seconds of every round by query and reader: "scan", "first" and "again"."""
    files = [f"s3a://{BUCKET}/{name}/{Path(file).relative_to(table.path)}" for file in table.files]
    storage = {**options, "allow_http": "true"}
    found: dict[str, dict[str, list[float]]] = {}
    for query, run in sparks.QUERIES.items():
        subject = timed(lambda: run(morrow.spark.read(spark, f"s3://{BUCKET}/{name}", storage_options=storage)))  # noqa: B023  # called here
        scan = timed(lambda: run(spark.read.schema(sparks.columns(table)).parquet(*files)))  # noqa: B023
        seconds: dict[str, list[float]] = {"scan": [], "first": [], "again": []}
        for turn in range(WARMUPS + rounds):
            morrow.clear_caches()
            each = {"scan": scan(), "first": subject(), "again": subject()}
            for reader, took in each.items() if turn >= WARMUPS else ():
                seconds[reader].append(took)
        found[query] = seconds
    return found


if __name__ == "__main__":
    sys.exit(main())
