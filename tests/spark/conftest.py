"""One Spark session for all tests of Spark: two cores, no pages, few shuffle partitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from morrow.spark.sessions import session
from tests.support.spark_cluster import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": f"-Xms1g -XX:MetaspaceSize=256m {SHORT_LIVED}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "America/New_York",
}
"""The zone is none of the tables': whoever mixes up instants and wall clocks is found out."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark compiles no query: for three rows that is a sixth of all its work."""

OF_FEW_ROWS = ("maintenance", "procedures", "source", "writing")
"""Folders whose queries are interpreted, besides `catalogs`; `make test-long` compiles them, as reads are anyway."""

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    made = session("morrow tests", "local[2]", **SETTINGS, **{"spark.sql.warehouse.dir": str(warehouse)})
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set what may be set while a session runs, for a time."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


@pytest.fixture(scope="module", autouse=True)
def temporary_views() -> Iterator[None]:
    """Drop the temporary views that a module has left in the session: the next module starts without any."""
    yield
    if "pyspark" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        for view in active.sql("SHOW VIEWS").collect():
            active.catalog.dropTempView(view.viewName)


@pytest.fixture(autouse=True)
def interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    if IS_LONG or request.path.parent.name not in OF_FEW_ROWS or "spark" not in request.fixturenames:
        yield
        return
    with settings(request.getfixturevalue("spark"), INTERPRETED):
        yield
