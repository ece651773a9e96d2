"""SQL, and calls that make tables of Spark's catalog: what says that it did something can be read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import morrow
from morrow.engine.errors import InvalidArgument, TableNotFound, Unsupported
from morrow.spark.reading.read import read
from morrow.spark.source import register
from morrow.spark.source.statements import bare, makes_table
from morrow.spark.views import attach, detach
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    register(spark)
    yield spark
    assert not spark.catalog.tableExists("made")


@pytest.fixture
def people(tmp_path: Path) -> morrow.Table:
    """Two snapshots of a row each."""
    table = new_table(tmp_path, "id BIGINT, v STRING", name="people")
    table.append({"id": [1], "v": ["a"]})
    table.append({"id": [2], "v": ["b"]})
    return table


MAKING = [
    "CREATE TABLE made (id BIGINT, v STRING) USING morrow",
    "CREATE TABLE IF NOT EXISTS made (id BIGINT) USING morrow LOCATION '{path}'",
    "create external table made using `MORROW` location '{path}'",
    "CREATE TABLE made USING morrow OPTIONS (path '{path}')",
    "CREATE TABLE made USING morrow LOCATION '{path}/new' AS SELECT 1L AS id",
    "CREATE OR REPLACE TABLE made (id BIGINT) USING morrow PARTITIONED BY (id)",
    "REPLACE TABLE made USING morrow AS SELECT 'it''s; USING parquet' AS v",
    "CREATE TABLE made LIKE people USING morrow",
    "/* first */ CREATE -- a comment's\n TABLE made (id BIGINT)\nUSING morrow",
    "EXECUTE IMMEDIATE 'CREATE TABLE made (id BIGINT) USING morrow'",
    "BEGIN CREATE TABLE made (id BIGINT) USING morrow; END",
]


OTHERS = [
    "CREATE TABLE made USING parquet AS SELECT 'USING morrow' AS v, 1 AS `using morrow`",
    "CREATE TABLE made (morrow INT) STORED AS orc",
    "CREATE TABLE made (id INT)",
    "CREATE TABLE made USING parquet AS SELECT * FROM a JOIN b USING (morrow)",
    "CREATE TEMPORARY VIEW made USING morrow OPTIONS (path 'CREATE TABLE x USING morrow')",
    "SELECT \"CREATE TABLE made USING morrow\" AS v, 'it\\'s CREATE TABLE t USING morrow'",
    "DROP TABLE made -- CREATE TABLE made USING morrow",
]


def test_statements_that_make_tables_of_the_format() -> None:
    assert [text for text in MAKING if not makes_table(bare(text), "parquet")] == []
    assert [text for text in OTHERS if makes_table(bare(text), "parquet")] == []
    assert [text for text in OTHERS if makes_table(bare(text), "Morrow")] == ["CREATE TABLE made (id INT)"]


@pytest.mark.parametrize("statement", MAKING[:3])
def test_sql_makes_no_table_that_cannot_be_read(session: SparkSession, people: morrow.Table, statement: str) -> None:
    with pytest.raises(Unsupported, match=r"CREATE TABLE with format.*write by \.write\.format.*morrow\.spark\.attach"):
        session.sql(statement.format(path=people.path))
    assert people.scan().count() == 2


CALLS: dict[str, Callable[[Any, str], object]] = {
    "using": lambda rows, path: rows.writeTo("made").using("Morrow").option("path", path).create(),
    "saveAsTable": lambda rows, path: rows.write.format("morrow").option("path", path).saveAsTable("made"),
    "toTable": lambda rows, path: (
        rows.sparkSession.readStream.format("morrow").load(path).writeStream.format("morrow").toTable("made")
    ),
    "createTable": lambda rows, path: rows.sparkSession.catalog.createTable("made", path, "morrow", rows.schema),
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_make_none_either(session: SparkSession, people: morrow.Table, call: str) -> None:
    with pytest.raises(Unsupported, match=f"{call}.* with format"):
        CALLS[call](read(session, people.path), people.path)


def test_other_catalogs_make_tables_of_the_format(session: SparkSession, people: morrow.Table, tmp_path: Path) -> None:
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    rows = read(session, people.path)
    session.sql("CREATE TABLE pm.db.a (id BIGINT) USING morrow")
    rows.writeTo("`pm`.db.`b.c`").using("paimon").create()
    rows.write.format("morrow").saveAsTable("pm.db.c")
    session.sql("USE pm.db")
    try:
        session.sql("CREATE TABLE IF NOT EXISTS d USING Paimon AS SELECT * FROM c")
        assert sorted(row.tableName for row in session.sql("SHOW TABLES").collect()) == ["a", "b.c", "c", "d", "people"]
        assert session.table("d").count() == session.table("`b.c`").count() == 2
        with pytest.raises(Unsupported, match="CREATE TABLE with format"):
            session.sql("CREATE TABLE spark_catalog.default.made (id INT) USING paimon")
    finally:
        session.sql("USE spark_catalog.default")


def test_the_name_paimon(session: SparkSession, people: morrow.Table) -> None:
    """No jar has it here."""
    rows = session.read.format("paimon").option("scan.snapshot-id", 1).load(people.path)
    rows.write.format("PAIMON").mode("append").save(people.path)
    session.sql(f"CREATE OR REPLACE TEMP VIEW by_paimon USING paimon OPTIONS (path '{people.path}')")
    try:
        assert sorted(map(tuple, session.table("by_paimon").collect())) == [(1, "a"), (1, "a"), (2, "b")]
    finally:
        session.catalog.dropTempView("by_paimon")
    with pytest.raises(Unsupported, match="CREATE TABLE with format"):
        session.sql("CREATE TABLE made (id INT) USING paimon")
    assert session.readStream.format("paimon").load(people.path).columns == ["id", "v"]


def test_no_table_is_made_behind_a_view(session: SparkSession, people: morrow.Table) -> None:
    rows = read(session, people.path)
    rows.createOrReplaceTempView("made")
    try:
        with pytest.raises(Unsupported, match="saveAsTable with the name of the view made"):
            rows.limit(1).write.mode("overwrite").saveAsTable("made")
        assert session.table("made").count() == 2
    finally:
        session.catalog.dropTempView("made")


def test_nor_does_the_format_of_the_session(session: SparkSession, people: morrow.Table) -> None:
    rows, default = read(session, people.path), "spark.sql.sources.default"
    session.conf.set(default, "morrow")
    try:
        for call in (
            lambda: session.sql("CREATE TABLE made (id BIGINT)"),
            lambda: rows.writeTo("made").create(),
            lambda: rows.write.saveAsTable("made"),
            lambda: session.catalog.createTable("made", people.path, schema=rows.schema),
        ):
            with pytest.raises(Unsupported):
                call()
    finally:
        session.conf.unset(default)


def test_what_only_looks_alike_is_sparks(session: SparkSession) -> None:
    assert session.sql("SELECT 'CREATE TABLE t USING morrow' AS v, id FROM range(1) /* USING morrow */").count() == 1
    session.sql("CREATE TABLE made USING parquet AS SELECT 'USING morrow' AS v, 1 AS `using morrow`")
    try:
        session.sql("INSERT INTO made WITH ('compression' = 'zstd') VALUES ('b', 2)")
        assert session.sql("SELECT /*+ BROADCAST(made) */ * FROM made WITH ('mergeSchema' = 'true')").count() == 2
        assert session.read.option("mergeSchema", True).table("made").count() == 2
    finally:
        session.sql("DROP TABLE made")


def test_a_view_by_sql_is_a_view_of_what_load_gives(session: SparkSession, people: morrow.Table) -> None:
    for kind, name in (("", "by_sql"), ("GLOBAL ", "global_temp.by_sql")):
        options = f"OPTIONS (path '{people.path}', `snapshot` 1)"
        session.sql(f"CREATE {kind}TEMPORARY VIEW by_sql USING morrow {options}")
        assert [tuple(row) for row in session.table(name).collect()] == [(1, "a")]
        with pytest.raises(Exception, match="already exists"):
            session.sql(f"CREATE {kind}TEMPORARY VIEW by_sql USING morrow {options}")
        session.sql(f"CREATE OR REPLACE {kind}TEMP VIEW by_sql USING morrow OPTIONS (path '{people.path}')")
        assert session.table(name).count() == 2
        assert "FileScan" in str(session.table(name)._jdf.queryExecution().executedPlan())
        with pytest.raises(Exception, match="UNSUPPORTED_INSERT"):
            session.sql(f"INSERT INTO {name} VALUES (3L, 'c')")
        session.sql(f"DROP VIEW {name}")  # of the table it touches nothing
    assert people.scan().count() == 2
    with pytest.raises(InvalidArgument, match="no option 'snapshots'"):
        session.sql(f"CREATE TEMPORARY VIEW by_sql USING morrow OPTIONS (path '{people.path}', snapshots 1)")
    with pytest.raises(InvalidArgument, match="the schema of the table is"):
        session.sql(f"CREATE TEMPORARY VIEW by_sql (id INT) USING morrow OPTIONS (path '{people.path}')")
    with pytest.raises(TableNotFound):
        session.sql("CREATE TEMPORARY VIEW by_sql USING morrow OPTIONS (path '/nowhere')")


@pytest.mark.usefixtures("people")
def test_options_of_a_view_are_not_ignored(session: SparkSession, tmp_path: Path) -> None:
    view = attach(session, tmp_path, "wh")["db.people"]
    try:
        for statement in (
            f"SELECT /*+ OPTIONS('scan.snapshot-id' = '1') */ * FROM {view}",
            f"SELECT * FROM {view} /*+ OPTIONS('scan.snapshot-id' = '1') */",
            f"SELECT count(*) FROM (SELECT /*+ COALESCE(1), options('scan.snapshot-id', '1') */ * FROM {view})",
            f"SELECT * FROM `{view}` WITH ('scan.snapshot-id' = '1')",
        ):
            with pytest.raises(Unsupported, match=r"which Spark ignores.*morrow\.spark\.read\(spark, path, snapshot="):
                session.sql(statement)
        with pytest.raises(InvalidArgument, match="Spark does not heed the option 'snapshot' of a view"):
            session.read.option("snapshot", 1).table(view)
        with pytest.raises(Exception, match="TIME_TRAVEL"):
            session.sql(f"SELECT * FROM {view} VERSION AS OF 1")
        assert session.sql(f"WITH newest AS (SELECT * FROM {view}) SELECT * FROM newest").count() == 2
    finally:
        detach(session, "wh")


def test_sessions_that_are_not_registered_know_no_such_format(session: SparkSession, people: morrow.Table) -> None:
    other = session.newSession()
    rows = read(other, people.path)
    for call in (
        lambda: other.sql("CREATE TABLE made (id BIGINT) USING morrow"),
        lambda: other.sql(f"CREATE TEMPORARY VIEW made USING morrow OPTIONS (path '{people.path}')"),
        lambda: rows.writeTo("made").using("morrow").create(),
        lambda: rows.write.format("morrow").saveAsTable("made"),
        lambda: other.catalog.createTable("made", people.path, "morrow", rows.schema),
    ):
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            call()
    rows.createOrReplaceTempView("bare")
    with pytest.raises(Exception, match="UNSUPPORTED_INSERT"):
        other.sql("INSERT OVERWRITE bare VALUES (9L, 'z')")
    assert people.scan().count() == 2
