"""ALTER TABLE and SHOW TAGS for tags, which Spark's own parser does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_tags(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE DATABASE pm.`my db`")
    sql("USE pm.`my db`")
    try:
        sql("CREATE TABLE `a.b ü` (id INT)")
        sql("INSERT INTO `a.b ü` VALUES (1)")
        sql("INSERT INTO `a.b ü` VALUES (2)")
        assert sql("ALTER TABLE `a.b ü` CREATE TAG `x y` AS OF VERSION 1 RETAIN 90 MINUTES") == []
        sql("ALTER TABLE `a.b ü` CREATE TAG IF NOT EXISTS `x y`")
        sql("ALTER TABLE `my db`.`a.b ü` REPLACE TAG made")
        sql("ALTER TABLE pm.`my db`.`a.b ü` CREATE TAG gone")
        kept = "SELECT tag_name, snapshot_id, time_retained FROM `a.b ü$tags` ORDER BY 1"
        assert sql(kept) == [("gone", 2, None), ("made", 2, None), ("x y", 1, "PT1H30M")]
        sql("ALTER TABLE `a.b ü` CREATE OR REPLACE TAG made AS OF VERSION 1 RETAIN 1 DAYS")
        sql("ALTER TABLE `a.b ü` RENAME TAG gone TO `'`")
        sql("ALTER TABLE `a.b ü` RENAME TAG IF EXISTS gone TO other")
        for statement, words in (
            ("ALTER TABLE `a.b ü` CREATE TAG made", "AlreadyExists: .*there is a tag 'made' already"),
            ("ALTER TABLE `a.b ü` DELETE TAG `made, gone`", "TagNotFound: .*there is no tag 'gone'"),
            ("ALTER TABLE `a.b ü` CREATE TAG", "InvalidArgument: .*a name is expected, not the end"),
            ("ALTER TABLE nope CREATE TAG x", "TableNotFound"),
            ("SHOW TAGS spark_catalog.default.t", "PARSE_SYNTAX_ERROR"),
        ):
            with pytest.raises(Exception, match=words):
                sql(statement)
        assert sql(kept) == [("'", 2, None), ("made", 1, "PT24H"), ("x y", 1, "PT1H30M")]
        sql("ALTER TABLE `a.b ü` DELETE TAG IF EXISTS `made, gone`")
        sql("ALTER TABLE `a.b ü` CREATE TAG `2` AS OF VERSION 1")  # as in Java, a tag goes before a snapshot
        assert sql("SELECT * FROM `a.b ü` VERSION AS OF 2") == sql("SELECT * FROM `a.b ü` VERSION AS OF '2'") == [(1,)]
        sql("ALTER TABLE `a.b ü` DELETE TAG `2`")
        shown = spark.sql("EXECUTE IMMEDIATE 'SHOW TAGS `a.b ü`'")
        assert (shown.columns, [row.tag for row in shown.collect()]) == (["tag"], ["'", "x y"])
    finally:
        sql("USE spark_catalog.default")


def test_other_sessions_keep_their_parser_until_they_are_given_a_catalog(
    sql: Sql, spark: SparkSession, tmp_path: Path
) -> None:
    sql("CREATE TABLE pm.db.tag (id INT)")
    session = spark.newSession()
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        session.sql("SHOW TAGS pm.db.tag")
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    assert session.sql("SHOW TAGS pm.db.tag").collect() == []
    assert session.sql("SELECT :x AS tag", args={"x": 1}).collect() == [(1,)]
