"""One Spark session for all tests of Spark: two cores, no pages, few shuffle partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from morrow.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xms1g -XX:MetaspaceSize=256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "America/New_York",
}
"""The zone is none of the tables': whoever mixes up instants and wall clocks is found out."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    made = session("morrow tests", "local[2]", **SETTINGS, **{"spark.sql.warehouse.dir": str(warehouse)})
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
