"""SQL statements that create, change and describe tables: ``Catalog.sql``."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.spark.catalogs.syntax import SPARK_SYNTAX
from morrow.statements.parser import parse_statements
from morrow.statements.statement import Use

GUIDE = Path(__file__).parents[2] / "docs/spark-sql.md"
NEED_SPARK = re.compile(
    r"SET |RESET |CACHE|UNCACHE|REFRESH|USE spark_catalog|.*IN pm$|.*USING parquet|.*session_view|.*named_struct"
    r"|.*WITH SCHEMA EVOLUTION|ANALYZE TABLES|.*REPLACE WHERE day >="
    r"|.*'s3.secret-key'|UPDATE orders SET amount = 1$|.*\(town = 'lyon'\)$"
    r"|DESCRIBE .*PARTITION|SHOW TABLE EXTENDED LIKE|.*scan\.ignore-"  # commands of a session of Spark
    r"|.*DEFAULT (ARRAY|MAP|STRUCT)"  # Spark evaluates these values
    r"|INSERT INTO orders \(day, id\) VALUES \('2026-05-02', '3'\)"  # Spark casts the text to a number
    r"|.*sys\.(path_to_descriptor|blob_view)"  # functions of Spark's catalog
    r"|.*__paimon_|DELETE FROM orders WHERE amount > 1|SELECT \* FROM d$|.*n INT DEFAULT 1"
)
"""Statements of the guide that need a Spark session or dialect, and statements that are refused without one."""


def guide() -> list[tuple[str, bool]]:
    """Return the statements of the Spark SQL guide, and whether they succeed there."""
    rows = re.findall(r"^\| (`{1,2}) ?(.*?) ?\1 \| (.*?) \|$", GUIDE.read_text(), re.M)
    return [(text.replace("pm.", ""), said.startswith("Yes")) for _, text, said in rows if not NEED_SPARK.match(text)]


def test_the_guide_to_sparks_sql(tmp_path: Path) -> None:
    """Every statement that needs no session succeeds or is refused as in the guide."""
    catalog = morrow.Catalog(tmp_path)
    statements = guide()
    assert len(statements) > 130
    for text, does in statements:
        try:
            catalog.sql(text.replace("'/data/", f"'{tmp_path}/")).fetchall()
        except MorrowError as error:
            assert not does, f"{text}: {error}"
            assert "sqlglot" not in str(error) and "\n" not in str(error)
        else:
            assert does, text


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    catalog = morrow.Catalog(tmp_path)
    catalog.sql("""
        CREATE DATABASE db; USE db;
        CREATE TABLE t (id BIGINT, name STRING DEFAULT 'x', v DOUBLE, r ROW<a INT, b ROW<c STRING>>,
            PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all' WITH ('bucket' = '1');
        INSERT INTO t VALUES (1, 'a', 1.5, {'a': 1, 'b': {'c': 'x'}}), (2, 'it''s; so', 2, NULL)
    """)
    return catalog


def rows(catalog: morrow.Catalog, text: str = "SELECT id, name, v FROM t ORDER BY id", *given: object) -> list[object]:
    return catalog.sql(text, *given).fetchall()  # type: ignore[arg-type]  # parameters of both kinds


def test_results_say_what_was_done(catalog: morrow.Catalog) -> None:
    assert rows(catalog, "INSERT INTO t (id, name, v) VALUES (3, DEFAULT, NULL)") == [(1, None, 0, 2)]
    assert rows(catalog, "UPDATE t SET v = v + 1 WHERE id < 3") == [(0, 2, 0, 3)]
    assert rows(catalog, "DELETE FROM t WHERE id = 3") == [(0, 0, 1, 4)]
    merge = """
        MERGE INTO t USING (SELECT 1 AS id, 9.0 AS v UNION ALL SELECT 7, 0) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, s.v)
        WHEN NOT MATCHED BY SOURCE THEN DELETE
    """
    assert rows(catalog, merge)[0][:3] == (1, 1, 1)
    assert rows(catalog) == [(1, "a", 9.0), (7, "x", 0.0)]
    assert rows(catalog, "INSERT OVERWRITE t SELECT * FROM t WHERE id = 1")[0][0] == 1
    assert rows(catalog, "TRUNCATE TABLE t; SELECT count(*) FROM t") == [(0,)]
    assert rows(catalog, "DROP TABLE t") == [("dropped the table db.t",)]


def test_values_are_bound(catalog: morrow.Catalog) -> None:
    hostile = "'; DROP TABLE t; --"
    catalog.sql("UPDATE t SET name = ? WHERE id = ?", [hostile, 1])
    assert rows(catalog, "SELECT name FROM t WHERE id = $id AND name = $name", {"id": 1, "name": hostile}) == [
        (hostile,)
    ]
    catalog.sql("INSERT INTO t (id, v) VALUES ($a, $b)", {"a": 5, "b": float("nan")})
    assert str(rows(catalog, "SELECT v FROM t VERSION AS OF $s WHERE id = 5", {"s": 3})) == "[(nan,)]"
    for text, given, said in (
        ("SELECT $a", {}, "the parameter \\$a has no value"),
        ("SELECT $a", {"a": 1, "b": 2}, "no parameter \\$b"),
        ("SELECT ?", [1, 2], "question marks"),
        ("SELECT ?", "x", "a mapping of names or a list"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            catalog.sql(text, given)


def test_subqueries_members_and_aliases(catalog: morrow.Catalog) -> None:
    catalog.sql("UPDATE db.t AS z SET r.b.c = 'new', v = (SELECT max(v) FROM t) WHERE z.id IN (SELECT min(id) FROM t)")
    assert rows(catalog, "SELECT r, v FROM t WHERE id = 1") == [({"a": 1, "b": {"c": "new"}}, 2.0)]
    catalog.sql("DELETE FROM t WHERE id NOT IN (SELECT id FROM t WHERE id = 1) AND EXISTS (SELECT 1 FROM t)")
    assert rows(catalog, "SELECT id FROM t") == [(1,)]


def test_a_table_from_a_query_is_whole_or_not_there(catalog: morrow.Catalog) -> None:
    with pytest.raises(InvalidArgument, match="boom"):
        catalog.sql("CREATE TABLE u AS SELECT id, error('boom')::INT AS e FROM t")
    with pytest.raises(InvalidArgument, match="boom"):
        catalog.sql("CREATE OR REPLACE TABLE t AS SELECT id, error('boom')::INT AS e FROM t")
    assert rows(catalog, "SHOW TABLES") == [("db", "t")]
    assert rows(catalog, "CREATE OR REPLACE TABLE t AS SELECT id + 1 AS id FROM t; SELECT * FROM t ORDER BY 1") == [
        (2,),
        (3,),
    ]


def test_names_are_taken_literally(catalog: morrow.Catalog) -> None:
    name = "ü \"q\" 'a' % , x\n."
    quoted = "`" + name + "`"
    catalog.sql(
        f"CREATE TABLE {quoted} ({quoted} INT, `check` INT, `default` STRING DEFAULT 'x''y', PRIMARY KEY ({quoted}))"
    )
    catalog.sql(f"INSERT INTO {quoted} VALUES (1, 2, DEFAULT); UPDATE {quoted} SET `check` = {quoted} + 1")
    assert rows(catalog, f"SELECT * FROM {quoted}") == [(1, 2, "x'y")]
    made = str(rows(catalog, f"SHOW CREATE TABLE {quoted}")[0][0])
    catalog.sql(f"DROP TABLE {quoted}; {made}")
    assert rows(catalog, f"SHOW COLUMNS IN {quoted}") == [(name,), ("check",), ("default",)]


def test_what_the_catalog_tells(catalog: morrow.Catalog, tmp_path: Path) -> None:
    catalog.sql("CREATE TABLE p (id INT, d STRING) PARTITIONED BY (d); INSERT INTO p VALUES (1, 'a'), (2, NULL)")
    assert rows(catalog, "SHOW PARTITIONS p") == [("d=a",), ("d=null",)]
    assert rows(catalog, "SELECT id FROM p WHERE d = sys.max_pt('p')") == [(1,)]
    assert rows(catalog, "SELECT table_name, row_count FROM information_schema.tables ORDER BY 1") == [
        ("p", 2),
        ("t", 2),
    ]
    assert rows(catalog, "SELECT count(*) FROM information_schema.columns") == [(6,)]
    assert rows(catalog, "SELECT id FROM paimon_incremental_query('t', 1, 1)") == []
    assert "bucket" in str(rows(catalog, "SHOW TBLPROPERTIES t"))
    assert "snapshot   1" in str(rows(catalog, "EXPLAIN DELETE FROM t WHERE id = 1"))
    ((part, plan),) = catalog.sql("/* why */ EXPLAIN SELECT id FROM t WHERE id = $id", {"id": 1}).fetchall()
    assert (part, "READ_PARQUET" in plan and "id" in plan) == ("the query", True)
    file = tmp_path / "it's.parquet"
    quoted = str(file).replace("'", "''")
    assert rows(catalog, f"COPY (SELECT * FROM t VERSION AS OF 1) TO '{quoted}' (FORMAT parquet)") == [(2,)]
    assert duckdb.sql(f"SELECT count(*) FROM '{quoted}'").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("CREATE TABLE u (a INT) AS SELECT 1", Unsupported, "with columns and AS"),
        ("CREATE TABLE u (a INT CHECK (a > 1))", Unsupported, "CHECK"),
        ("CREATE TABLE u (a INT DEFAULT 1 + 1)", InvalidArgument, "does not parse"),
        ("CREATE TABLE u (a INT DEFAULT now())", Unsupported, "the default value now"),
        ("CREATE TABLE u (a INT) foo", InvalidArgument, "not 'foo'"),
        ("CREATE TABLE no.u (a INT)", DatabaseNotFound, "no database no"),
        ("CREATE TABLE t (a INT)", AlreadyExists, "db.t"),
        ("REPLACE TABLE u (a INT)", TableNotFound, "to replace"),
        ("DROP TABLE t PURGE", Unsupported, "PURGE"),
        ("INSERT INTO t VALUES (1)", InvalidArgument, "1 columns where 4 are expected"),
        ("INSERT INTO t (id, id) VALUES (1, 2)", InvalidArgument, "named twice"),
        ("INSERT INTO t (id) VALUES (9) RETURNING id", Unsupported, "RETURNING"),
        ("INSERT INTO t (id) VALUES (9) ON CONFLICT DO NOTHING", Unsupported, "an upsert"),
        ("INSERT OR IGNORE INTO t (id) VALUES (9)", Unsupported, "INSERT OR"),
        ("INSERT WITH SCHEMA EVOLUTION INTO t VALUES (1, 2)", Unsupported, "BY NAME"),
        ("INSERT INTO t BY NAME SELECT 9 AS id, 1 AS nope", ColumnNotFound, "nope"),
        ("INSERT INTO t (id, v) VALUES (9, 'text')", InvalidArgument, "DOUBLE is needed"),
        ("INSERT INTO `t$snapshots` VALUES (1)", InvalidArgument, "system table"),
        ("WITH c AS (SELECT 9 AS id) INSERT INTO t (id) SELECT id FROM c", Unsupported, "WITH in front of INSERT"),
        ("UPDATE t SET id = 5", InvalidArgument, "part of the primary key"),
        ("UPDATE t SET v = 1, v = 2", InvalidArgument, "set twice"),
        ("UPDATE t SET r.nope = 1", ColumnNotFound, "no member 'nope'"),
        ("DELETE FROM t WHERE id = 1 LIMIT 1", InvalidArgument, "does not parse"),
        ("DELETE FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */", InvalidArgument, "a hint"),
        ("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE", InvalidArgument, "both sides are called"),
        ("MERGE INTO t USING t AS s ON id = id WHEN MATCHED THEN DELETE", InvalidArgument, "column of both sides"),
        ("MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN DO NOTHING", InvalidArgument, "UPDATE or DELETE"),
        ("MERGE INTO t USING t AS s ON t.id = s.id", InvalidArgument, "WHEN MATCHED"),
        ("ALTER TABLE t ADD COLUMN n INT NOT NULL", InvalidArgument, "cannot be NOT NULL"),
        ("ALTER TABLE t CHANGE COLUMN v w INT", InvalidArgument, "not 'w'"),
        ("COPY t FROM 'x.csv'", Unsupported, "COPY INTO t FROM"),
        ("COPY (DELETE FROM t) TO 'x.csv'", InvalidArgument, "not a query"),
        ("CALL sys.create_tag('t')", InvalidArgument, "needs the argument 'tag'"),
        ("CALL sys.compact('t', partition_idle_time => 'x')", InvalidArgument, "x"),
        ("SHOW GRANTS", Unsupported, "SHOW GRANTS"),
        ("BEGIN", Unsupported, "every statement is one commit"),
        ("SELECT (1", InvalidArgument, "does not parse"),
        ("SELECT * FROM t WHERE id =", InvalidArgument, "something is missing"),
    ],
)
def test_what_is_refused_changes_nothing(catalog: morrow.Catalog, text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)) as raised:
        catalog.sql(text)
    assert "sqlglot" not in str(raised.value) and "<class" not in str(raised.value) and "\n" not in str(raised.value)
    assert len(catalog.table("db.t").snapshots()) == 1
    assert catalog.tables("db") == ["t"]


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("DATE", "(NULL), ('2024-01-01'), (DATE '2024-02-29')", ["NULL", "2024-01-01", "2024-02-29"]),
        ("TIME", "('01:02:03'), (TIME '04:05:06')", ["01:02:03", "04:05:06"]),
        ("TIMESTAMP", "('2024-01-01 00:00:00'), (DATE '2024-01-02')", ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]),
        ("STRING", "('01'), (2)", ["01", "2"]),
        ("DECIMAL(10, 2)", "(1), ('2.50')", ["1.00", "2.50"]),
        ("INT", "(1), ('2'), (DEFAULT)", ["1", "2", "NULL"]),
    ],
)
def test_values_spell_a_column_in_several_ways(tmp_path: Path, kind: str, values: str, found: list[str]) -> None:
    catalog = morrow.Catalog(tmp_path / "new")
    catalog.sql("CREATE DATABASE IF NOT EXISTS d")
    catalog.sql(f"CREATE TABLE d.t (v {kind})")
    catalog.sql(f"INSERT INTO d.t VALUES {values}")
    assert sorted(catalog.sql("SELECT coalesce(v::VARCHAR, 'NULL') FROM d.t").fetchall()) == [
        (v,) for v in sorted(found)
    ]


NINE = "TIMESTAMP '2024-01-01 09:00:00'"


@pytest.fixture
def instants(tmp_path: Path) -> morrow.Catalog:
    """Make a table with the instants of nine o'clock in UTC (1) and in Tokyo (2)."""
    catalog = morrow.Catalog(tmp_path)
    catalog.sql("""
        CREATE DATABASE db; CREATE TABLE db.t (id INT, at TIMESTAMP_LTZ(6), clock TIMESTAMP(6)) WITH ('bucket' = '-1');
        INSERT INTO db.t VALUES (1, TIMESTAMPTZ '2024-01-01 09:00:00+00', NULL),
            (2, TIMESTAMPTZ '2024-01-01 00:00:00+00', TIMESTAMP '2024-01-01 09:00:00')
    """)
    return catalog


@pytest.mark.parametrize(
    "change",
    [
        f"DELETE FROM db.t WHERE at = {NINE}",
        "DELETE FROM db.t WHERE at IN ('2024-01-01 09:00:00')",
        f"DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM db.t AS o WHERE o.id = t.id AND t.at = {NINE})",
        f"UPDATE db.t SET id = 0 WHERE at = {NINE}",
        f"MERGE INTO db.t USING (SELECT 1 AS x) s ON at = {NINE} WHEN MATCHED THEN DELETE",
    ],
)
def test_changes_find_the_rows_of_queries_in_any_time_zone(instants: morrow.Catalog, change: str) -> None:
    """On the default connection, instants are compared with clock times in UTC."""
    default, mine = duckdb.default_connection(), duckdb.connect()
    try:
        duckdb.set_default_connection(mine)
        mine.execute("SET GLOBAL TimeZone = 'Asia/Tokyo'")  # like the zone of a machine
        assert instants.sql(f"SELECT id FROM db.t WHERE at = {NINE}").fetchall() == [(1,)]
        instants.sql(change)
        assert instants.sql("SELECT id FROM db.t WHERE id > 0").fetchall() == [(2,)]
    finally:
        duckdb.set_default_connection(default)


@pytest.mark.parametrize(
    "change",
    [
        f"DELETE FROM db.t WHERE at = {NINE}",
        "DELETE FROM db.t WHERE clock = at",
        "DELETE FROM db.t WHERE clock < now()",
        "DELETE FROM db.t WHERE clock = TIMESTAMPTZ '2024-01-01 00:00:00+00'",
        "UPDATE db.t SET id = hour(at)",
        f"MERGE INTO db.t USING (SELECT 1 AS x) s ON at = {NINE} WHEN MATCHED THEN DELETE",
        "MERGE INTO db.t USING (SELECT clock AS at FROM db.t) s ON t.at = s.at WHEN MATCHED THEN DELETE",
    ],
)
def test_changes_by_instants_in_another_time_zone_are_refused(instants: morrow.Catalog, change: str) -> None:
    tokyo = duckdb.connect()
    tokyo.execute("SET TimeZone = 'Asia/Tokyo'")
    assert instants.sql(f"SELECT id FROM db.t WHERE at = {NINE}", connection=tokyo).fetchall() == [(2,)]
    with pytest.raises(Unsupported, match=r"TimeZone is Asia/Tokyo.*SET TimeZone = 'UTC'"):
        instants.sql(change, connection=tokyo)
    assert len(instants.table("db.t").snapshots()) == 1
    tokyo.execute("SET TimeZone = 'Etc/UTC'")
    instants.sql(change, connection=tokyo)


def test_instants_are_copied_and_compared_in_any_time_zone(instants: morrow.Catalog) -> None:
    tokyo = duckdb.connect()
    tokyo.execute("SET TimeZone = 'Asia/Tokyo'")
    instants.sql("UPDATE db.t SET at = at WHERE at IS NOT NULL AND at >= (at)", connection=tokyo)
    instants.sql(
        "MERGE INTO db.t USING (SELECT 7 AS x, at FROM db.t WHERE id = 1) s ON t.at = s.at "
        "WHEN MATCHED THEN UPDATE SET id = s.x, at = s.at",
        connection=tokyo,
    )
    assert instants.sql(f"SELECT id FROM db.t WHERE at = {NINE}").fetchall() == [(7,)]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM d.t AS x USING d.s AS y WHERE x.id = y.id",
        "INSERT OVERWRITE d.t PARTITION (day = 'x') (id, v) SELECT 1, 2",
        "INSERT INTO d.t BY NAME REPLACE WHERE id IS DISTINCT FROM 1 SELECT 2 AS id",
        "MERGE INTO d.t USING d.s VERSION AS OF 3 AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v, w = 1 "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.v > 1 THEN DELETE",
        "CREATE OR REPLACE TABLE d.t (id INT, v STRING COMMENT 'a, b') USING paimon PARTITIONED BY (v) WITH (a = 1)",
        "ALTER TABLE d.t ALTER COLUMN v TYPE DECIMAL(9, 2) COMMENT 'x', id DROP NOT NULL",
        "ALTER TABLE d.t DROP PARTITION (day = 'x'), PARTITION (day = 'y')",
        "ALTER TABLE d.t ADD IF NOT EXISTS PARTITION (day = 'x') PARTITION (day = 'y')",
        "CALL sys.compact(table => 'd.t', order_by => 'a,b')",
        "SHOW PARTITIONS d.t PARTITION (day = 'x')",
    ],
)
def test_both_executors_get_the_same_values(text: str) -> None:
    assert parse_statements(text, SPARK_SYNTAX) == parse_statements(text)


@pytest.mark.parametrize("name", ["USE", "USE DATABASE", "USE CATALOG", "SET CATALOG"])
def test_names_that_are_used(name: str) -> None:
    word = name.split()[-1]
    assert parse_statements(f"{name} `pm`") == [Use(("pm",), None if word == "USE" else word)]


def test_names_of_databases_may_have_a_catalog() -> None:
    assert parse_statements("USE pm.db", SPARK_SYNTAX) == parse_statements("USE pm.db") == [Use(("pm", "db"))]
    assert parse_statements("USE catalog.database") == [Use(("catalog", "database"))]


def test_positions_count_earlier_statements() -> None:
    with pytest.raises(InvalidArgument, match="TO is expected, not 'x' at line 3, column 29"):
        parse_statements("SELECT 1;\n\n ALTER TABLE t RENAME TAG a x")
