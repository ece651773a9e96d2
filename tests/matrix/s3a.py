"""Morrow in Spark through s3a, against an S3 server on the loopback: ``python -m tests.matrix.s3a <cache>``.

Spark gets its file system from Maven Central (``hadoop-aws`` with the SDK of AWS, 600 MB), kept in the folder `cache`.
Exits with 77 and the reason where it cannot be had.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import morrow
import morrow.spark
from tests.matrix.smoke import SETTINGS
from tests.support.s3_server import BUCKET, s3_server

SKIPPED = 77


def hadoop_version() -> str:
    """Finds the version of Hadoop that PySpark ships."""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"):
        return re.sub(r"hadoop-client-api-(.*)\.jar", r"\1", jar.name)
    raise FileNotFoundError("hadoop-client-api in the jars of PySpark")


def main(cache: Path) -> int:
    with s3_server() as options:
        settings = {
            **SETTINGS,
            "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{hadoop_version()}",
            "spark.jars.ivy": str(cache.absolute()),
            "spark.hadoop.fs.s3a.endpoint": options["aws_endpoint_url"],
            "spark.hadoop.fs.s3a.endpoint.region": options["aws_region"],
            "spark.hadoop.fs.s3a.access.key": options["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": options["aws_secret_access_key"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        try:
            spark: Any = morrow.spark.session("s3a", "local[2]", **settings)
            hadoop = spark._jsc.hadoopConfiguration()
            spark._jvm.org.apache.hadoop.fs.Path("s3a://lake/").getFileSystem(hadoop)
        except (Py4JError, PySparkException) as error:
            print(f"Spark has no s3a: {str(error).splitlines()[0]}")
            return SKIPPED
        _check(spark, {**options, "allow_http": "true"})
        spark.stop()
    return 0


def _check(spark: Any, options: dict[str, str]) -> None:
    table = f"s3://{BUCKET}/warehouse/db.db/orders"
    rows = spark.range(1000).selectExpr("id", "concat('n', id) AS name", "id * 1.5D AS amount")
    create = {"primary_keys": "id", "options": {"bucket": 2}}
    morrow.spark.write(rows, table, create=create, storage_options=options)
    morrow.spark.upsert(
        rows.where("id < 10").selectExpr("id", "'new' AS name", "0D AS amount"), table, storage_options=options
    )
    frame = morrow.spark.read(spark, table, storage_options=options)
    assert frame.where("name = 'new'").count() == 10
    assert frame.count() == 1000
    plan = frame._jdf.queryExecution().toString()
    scanned = "s3a://" in plan
    print(f"ok, {'scanned by Spark through s3a' if scanned else 'read by tasks of Morrow'}")
    assert options["aws_secret_access_key"] not in plan


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
