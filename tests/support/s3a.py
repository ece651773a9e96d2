"""Spark's own S3 file system, with jars from Maven Central and settings for a test server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import morrow.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoS3a(Exception):
    """Spark's file system for ``s3a`` is missing; the message says why."""


def s3a_session(options: Mapping[str, str], cache: Path, settings: Mapping[str, object]) -> SparkSession:
    """Start a session that reads ``s3a://`` from the server with these storage options.

    `cache`: a folder for ``hadoop-aws`` with the AWS SDK (600 MB), in PySpark's version of Hadoop.

    Raises:
        NoS3a: the jars cannot be loaded.
    """
    own = {
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{_hadoop_version()}",
        "spark.jars.ivy": str(cache.absolute()),
        "spark.hadoop.fs.s3a.endpoint": options["aws_endpoint_url"],
        "spark.hadoop.fs.s3a.endpoint.region": options["aws_region"],
        "spark.hadoop.fs.s3a.access.key": options["aws_access_key_id"],
        "spark.hadoop.fs.s3a.secret.key": options["aws_secret_access_key"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    try:
        spark = morrow.spark.session("s3a", "local[2]", **{**settings, **own})
        hadoop = spark._jsc.hadoopConfiguration()
        spark._jvm.org.apache.hadoop.fs.Path("s3a://lake/").getFileSystem(hadoop)  # type: ignore[union-attr]
    except (Py4JError, PySparkException) as error:
        raise NoS3a(str(error).splitlines()[0]) from error
    return spark


def _hadoop_version() -> str:
    """Find PySpark's version of Hadoop."""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"):
        return re.sub(r"hadoop-client-api-(.*)\.jar", r"\1", jar.name)
    raise FileNotFoundError("hadoop-client-api in the jars of PySpark")
