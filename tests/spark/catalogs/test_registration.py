"""`morrow.spark.catalog`: valid names, names in use, and settings that stay in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.spark.jvm.classes import RULES, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", ["a.b", "", "system", "p m", "1"])
def test_names_that_no_catalog_can_have(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="the catalog's name in SQL"):
        morrow.spark.catalog(spark, name, warehouse=tmp_path)


def test_a_catalog_of_another_kind_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.catalog.taken", "org.example.Other")
    with pytest.raises(AlreadyExists, match=r"has a catalog taken already, which is org\.example\.Other"):
        morrow.spark.catalog(spark, "taken", warehouse=tmp_path)
    spark.conf.unset("spark.sql.catalog.taken")


def test_a_session_that_is_not_the_active_one(spark: SparkSession, tmp_path: Path) -> None:
    morrow.Catalog(tmp_path).create_database("shop")
    other = spark.newSession()  # becomes the active session
    morrow.spark.catalog(spark, "for_the_first", warehouse=tmp_path)
    assert [row[0] for row in spark.sql("SHOW DATABASES IN for_the_first").collect()] == ["shop"]
    with pytest.raises(Exception, match="for_the_first"):
        other.sql("SHOW DATABASES IN for_the_first")


def test_formats_are_known_where_a_catalog_is(spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()
    morrow.spark.catalog(other, "pm", warehouse=tmp_path)
    other.sql("CREATE DATABASE pm.db")
    for name, mode in (("paimon", "error"), ("morrow", "append")):
        other.range(2).write.format(name).mode(mode).saveAsTable("pm.db.t")
        assert other.read.format(name).table("pm.db.t").count() > 0
    assert other.read.format("paimon").load(str(tmp_path / "db.db" / "t")).count() == 4


def test_rules_are_there_once(spark: SparkSession) -> None:
    load(spark)
    load(spark)
    experimental = spark._jsparkSession.experimental()
    for place, name in RULES.items():
        assert getattr(experimental, place)().toString().count(name) == 1


def test_without_a_jvm_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="Spark Connect, whose client reaches no JVM"):
        morrow.spark.catalog(object(), "pm", warehouse=tmp_path)  # type: ignore[arg-type]


def test_settings_and_plans_know_no_secrets(spark: SparkSession, tmp_path: Path) -> None:
    secret = "s3cr3tOfTheStore"
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path, storage_options={"aws_secret_access_key": secret})
    spark.sql("CREATE DATABASE pm.db")
    spark.sql("CREATE TABLE pm.db.t (id INT) TBLPROPERTIES ('bucket' = '-1')")
    shown = [str(spark.sql("SET -v").collect()), str(spark.sql("SET").collect())]
    shown += [str(spark.sql(f"{say} pm.db.t").collect()) for say in ("SHOW TBLPROPERTIES", "DESCRIBE EXTENDED")]
    shown += [str(spark.sql("EXPLAIN EXTENDED SELECT * FROM pm.db.t").collect())]
    assert [text for text in shown if secret in text] == []
