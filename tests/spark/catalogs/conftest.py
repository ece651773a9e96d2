"""A catalog of an empty warehouse, with the same name in every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import morrow
from tests.spark.conftest import FOR_FEW_ROWS, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sql: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def small_queries(spark: SparkSession) -> Iterator[None]:
    with settings(spark, FOR_FEW_ROWS):
        yield


@pytest.fixture
def sql(spark: SparkSession, tmp_path: Path) -> Sql:
    """Return a function that runs a statement; ``pm`` is a new warehouse with the database ``db``."""
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path)
    morrow.Catalog(tmp_path).create_database("db")

    def run(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    return run
