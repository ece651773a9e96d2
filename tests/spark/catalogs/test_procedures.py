"""CALL: names of tables, which are looked up as in other statements; cached tables, which are read anew."""

from __future__ import annotations

from tests.spark.catalogs.conftest import Sql


def test_names_without_a_database(sql: Sql) -> None:
    for database in ("default", "db"):
        sql(f"CREATE DATABASE IF NOT EXISTS pm.{database}")
        sql(f"CREATE TABLE pm.{database}.`t ü` (id INT)")
        sql(f"INSERT INTO pm.{database}.`t ü` VALUES (1)")
    sql("CALL pm.sys.create_tag(table => 't ü', tag => 'of default')")
    try:
        sql("USE pm.db")
        sql("CALL sys.create_tag('t ü', 'of db')")
        sql("CALL sys.create_branch(table => 't ü', branch => 'b', tag => 'of db')")
        sql("CALL sys.create_tag(table => 't ü$branch_b', tag => 'of branch')")
        sql("CALL sys.compact(table => 't ü')")
        assert sql("SELECT tag_name FROM `t ü$tags`") == [("of db",)]
        assert sql("SELECT tag_name FROM `t ü$branch_b$tags` ORDER BY 1") == [("of branch",), ("of db",)]
    finally:
        sql("USE spark_catalog.default")
    assert sql("SELECT tag_name FROM pm.default.`t ü$tags`") == [("of default",)]


def test_a_cached_table_is_read_anew(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.`t.ü` AS SELECT 1 AS id")
    sql("INSERT INTO pm.db.`t.ü` VALUES (2)")
    sql("CACHE TABLE pm.db.`t.ü`")
    try:
        assert sql("SELECT count(*) FROM pm.db.`t.ü`") == [(2,)]
        sql("CALL pm.sys.rollback(table => 'db.t.ü', snapshot => 1)")
        assert sql("SELECT * FROM pm.db.`t.ü`") == [(1,)]
        sql("CALL pm.sys.remove_orphan_files(table => 'db.*')")
    finally:
        sql("UNCACHE TABLE pm.db.`t.ü`")
