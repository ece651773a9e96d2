"""Default values of columns, and CREATE TABLE LIKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GIVEN = {
    "b STRING": (r"'it\'s \\ ü'", "'it's \\ ü'", "it's \\ ü"),
    "c INT": ("-5", "-5", "-5"),
    "d DATE": ("DATE'2024-02-29'", "2024-02-29", "2024-02-29"),
    "e DECIMAL(5, 2)": ("1.5", "1.50", "1.50"),
    "f BOOLEAN": ("true", "true", "true"),
    "g TIMESTAMP": ("TIMESTAMP'2024-03-10 06:30:00 UTC'", "2024-03-10 06:30:00", "2024-03-10 01:30:00"),
    "h TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-03-10 02:30:00.5'", "2024-03-10 02:30:00.500000", "2024-03-10 02:30:00.5"),
    "i DOUBLE": ("CAST('NaN' AS DOUBLE)", "NaN", "NaN"),
    "j STRING": ("NULL", None, None),
}
"""Maps columns to their default in SQL, its text in Paimon, and its value in the session's time zone."""


def test_defaults(sql: Sql, tmp_path: Path) -> None:
    columns = ", ".join(f"{column} DEFAULT {sql_text}" for column, (sql_text, _, _) in GIVEN.items())
    sql(f"CREATE TABLE pm.db.t (a INT, {columns})")
    table = morrow.Catalog(tmp_path).table("db.t")
    stored = [field.default_value for field in table._newest.fields[1:]]
    assert stored == [text for _, text, _ in GIVEN.values()]
    sql("INSERT INTO pm.db.t (a) VALUES (1)")
    shown = ", ".join(f"CAST({column.split()[0]} AS STRING)" for column in GIVEN)
    assert sql(f"SELECT {shown} FROM pm.db.t") == [tuple(value for *_, value in GIVEN.values())]
    sql("ALTER TABLE pm.db.t ALTER COLUMN c SET DEFAULT 7")
    sql("ALTER TABLE pm.db.t ALTER COLUMN b DROP DEFAULT")
    sql("INSERT INTO pm.db.t (a, b, c) VALUES (2, DEFAULT, DEFAULT)")
    assert sql("SELECT b, c FROM pm.db.t WHERE a = 2") == [(None, 7)]


def test_defaults_with_quotes_in_each_statement(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.t (a INT, s STRING DEFAULT 'it''s', u STRING DEFAULT 'it\\'s')")
    sql("INSERT INTO pm.db.t (a) VALUES (1)")
    sql("INSERT INTO pm.db.t VALUES (2, 'x', 'x'), (3, 'x', 'x')")
    sql("UPDATE pm.db.t SET s = DEFAULT WHERE a = 2")
    sql(
        "MERGE INTO pm.db.t t USING (SELECT * FROM VALUES (3), (4) AS x(a)) x ON t.a = x.a "
        "WHEN MATCHED THEN UPDATE SET u = DEFAULT WHEN NOT MATCHED THEN INSERT (a, s, u) VALUES (x.a, DEFAULT, 'y')"
    )
    quoted = "it's"
    assert sql("SELECT s, u FROM pm.db.t ORDER BY a") == [
        (quoted, quoted),
        (quoted, "x"),
        ("x", quoted),
        (quoted, "y"),
    ]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("b DATE DEFAULT current_date()", r"Unsupported default value `current_date\(\)` of the column 'b'"),
        ("b INT DEFAULT 1 + 1", "give a literal"),
        ("b ARRAY<DATE> DEFAULT array(current_date())", "the default value .* is not a valid ARRAY<DATE>"),
        ("b INT DEFAULT 'x'", "INVALID_DEFAULT_VALUE"),
    ],
)
def test_refused(sql: Sql, column: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        sql(f"CREATE TABLE pm.db.t (a INT, {column})")
    assert sql("SHOW TABLES IN pm.db") == []


def test_tables_like_others(sql: Sql, tmp_path: Path) -> None:
    sql(
        "CREATE TABLE pm.db.`a b` (id INT NOT NULL COMMENT 'c', n STRING DEFAULT 'x', p INT NOT NULL) COMMENT 'all' "
        "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '5')"
    )
    sql("CREATE TABLE pm.db.made LIKE pm.db.`a b` TBLPROPERTIES (bucket = 3, 'file.format' 'orc')")
    sql("CREATE TABLE IF NOT EXISTS pm.db.made LIKE pm.db.`a b`")
    made, source = (morrow.Catalog(tmp_path).table(f"db.{name}") for name in ("made", "a b"))
    assert made._newest.fields == source._newest.fields
    assert (made.primary_keys, made.partition_keys, made.comment) == (("id", "p"), ("p",), "all")
    assert made.options == {"bucket": "3", "file.format": "orc"}
    for statement, words in (
        ("CREATE TABLE pm.db.made LIKE pm.db.`a b`", "AlreadyExists"),
        ("CREATE TABLE pm.db.x LIKE pm.db.nope", "TableNotFound"),
        ("CREATE TABLE pm.nope.x LIKE pm.db.made", "DatabaseNotFound: there is no database nope"),
        ("CREATE TABLE pm.db.x LIKE pm.db.made USING csv", "a table USING csv is not supported"),
        ("CREATE TABLE pm.db.x LIKE pm.db.made LOCATION '/x'", "CREATE TABLE LIKE with LOCATION is not supported"),
        ("CREATE TABLE pm.db.x LIKE pm.db.made TBLPROPERTIES ('location' = '/x')", "the property 'location'"),
        ("CREATE TABLE pm.db.x LIKE pm.db.made TBLPROPERTIES ('a' = '1', a = 2)", "'a' is given twice"),
    ):
        with pytest.raises(Exception, match=words):
            sql(statement)
    assert len(sql("SHOW TABLES IN pm.db")) == 2


def test_default_values_of_nested_columns(sql: Sql) -> None:
    said = (
        "a ARRAY<STRING> DEFAULT ARRAY('x', 'y')", "m MAP<INT, DOUBLE> DEFAULT map(9, 9.5D)",
        "s STRUCT<x: INT, y: STRING> DEFAULT STRUCT(42, 'v')", "e MAP<INT, INT> DEFAULT map()",
    )  # fmt: skip
    sql(f"CREATE TABLE pm.db.t (id INT, {', '.join(said)})")
    shown = sql("SHOW CREATE TABLE pm.db.t")[0][0]
    assert all(part in shown for part in said)
    sql("INSERT INTO pm.db.t (id) VALUES (1)")
    sql("INSERT INTO pm.db.t VALUES (2, NULL, NULL, NULL, DEFAULT), (3, array('z'), map(1, 1D), NULL, map(1, 1))")
    sql("ALTER TABLE pm.db.t ALTER COLUMN a SET DEFAULT ARRAY('new')")
    sql("INSERT INTO pm.db.t (id, e) VALUES (4, NULL)")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [
        (1, ["x", "y"], {9: 9.5}, (42, "v"), {}),
        (2, ["x", "y"], {9: 9.5}, (42, "v"), {}),
        (3, ["z"], {1: 1.0}, (42, "v"), {1: 1}),
        (4, ["new"], {9: 9.5}, (42, "v"), {}),
    ]


def test_char_is_padded(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (id INT, c CHAR(3), v VARCHAR(3))")
    sql("INSERT INTO pm.db.t VALUES (1, 'a', 'a'), (2, 'abc', 'a'), (3, NULL, 'a')")
    table = morrow.Catalog(tmp_path).table("db.t")
    table.append({"id": [4, 5, 6], "c": ["b", "b", "b"], "v": ["a", "a", "a"]})  # not padded
    assert sql("SELECT id, c FROM pm.db.t WHERE c IN ('a', 'b') ORDER BY id")[:2] == [(1, "a  "), (4, "b  ")]
    with settings(spark, {"spark.sql.readSideCharPadding": "false"}):
        assert sql("SELECT c FROM pm.db.t WHERE id IN (1, 4) ORDER BY id") == [("a  ",), ("b",)]
    sql("DELETE FROM pm.db.t WHERE c = 'b' AND id = 4")
    sql("UPDATE pm.db.t SET v = 'new' WHERE c = 'b' AND id IN (SELECT 5)")
    sql("DELETE FROM pm.db.t WHERE c <> 'b'")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(3, None, "a"), (5, "b  ", "new"), (6, "b  ", "a")]
    assert sql("DESCRIBE pm.db.t")[1][:2] == ("c", "char(3)")


def test_tables_that_cannot_be_read_are_dropped(sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.broken AS SELECT 1 AS id")
    (tmp_path / "db.db/broken/snapshot/snapshot-1").write_text("")
    with pytest.raises(Exception, match="CorruptFile"):
        sql("SELECT * FROM pm.db.broken")
    sql("DROP TABLE pm.db.broken")
    assert sql("SHOW TABLES IN pm.db") == []
