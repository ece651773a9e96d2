"""The Spark session of all Spark tests: two cores, no UI, few shuffle partitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from morrow.spark.sessions import session
from tests.support.java_names import remember_java_names
from tests.support.spark_cluster import SHORT_LIVED
from tests.support.spark_python import forked_pythons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": f"-Xms1g -Xmn600m -XX:MetaspaceSize=256m {SHORT_LIVED}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.hive.thriftServer.singleSession": True,
}
"""No table uses this time zone, which reveals confusions of instants and wall clock times."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark compiles no queries; compilation takes a sixth of the time for three rows."""

FOR_FEW_ROWS = {"spark.sql.adaptive.enabled": "false", **INTERPRETED}
"""Settings for queries over three rows, for which plans are not changed while they run either."""

OF_FEW_ROWS = ("maintenance", "procedures", "source", "spark", "statements", "writing")
"""Folders, besides `catalogs`, whose queries have these settings. `make test-long` compiles them, like all reads."""

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    remember_java_names()
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    with forked_pythons() as environment:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            made = session("morrow tests", "local[2]", **SETTINGS, **{"spark.sql.warehouse.dir": str(warehouse)})
        made.sparkContext.setLogLevel("ERROR")
        yield made
        made.stop()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the running session within the block."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


@pytest.fixture(scope="module", autouse=True)
def temporary_views() -> Iterator[None]:
    """Drop the temporary views of each module at its end."""
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
    with settings(request.getfixturevalue("spark"), FOR_FEW_ROWS):
        yield
