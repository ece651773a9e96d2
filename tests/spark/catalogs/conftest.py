"""A catalog of an empty warehouse, the same name for every test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import morrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sql: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sql(spark: SparkSession, tmp_path: Path) -> Sql:
    """Runs a statement, and returns its rows; ``pm`` is a new warehouse with the database ``db``."""
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path)
    morrow.Catalog(tmp_path).create_database("db")

    def run(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    return run
