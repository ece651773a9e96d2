"""Morrow in Spark through s3a, against an S3 server on the loopback: ``python -m tests.matrix.s3a <cache>``.

Spark gets its file system from Maven Central, which is kept in the folder `cache`. Exits with 77 and the reason if it
cannot be downloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import morrow
import morrow.spark
from tests.matrix.smoke import SETTINGS
from tests.support.s3_server import BUCKET, s3_server
from tests.support.s3a import NoS3a, s3a_session

SKIPPED = 77


def main(cache: Path) -> int:
    with s3_server() as options:
        try:
            spark = s3a_session(options, cache, SETTINGS)
        except NoS3a as error:
            print(f"Spark has no s3a: {error}")
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
