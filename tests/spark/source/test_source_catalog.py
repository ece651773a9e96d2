"""Tables and views of Spark's own catalog: every statement that succeeds has an effect that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import IllegalArgumentException, UnsupportedOperationException
from pyspark.sql.functions import expr

import morrow
import morrow.spark
from morrow.spark import register
from morrow.spark.reading.read import read
from morrow.spark.source.refusals import is_table_creation, strip_literals
from morrow.spark.views import attach, detach
from tests.spark.conftest import settings
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    register(spark)
    yield spark
    assert not spark.catalog.tableExists("made")


@pytest.fixture
def people(tmp_path: Path) -> morrow.Table:
    """Make two snapshots with a row each."""
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
    assert [text for text in MAKING if not is_table_creation(strip_literals(text), "parquet")] == []
    assert [text for text in OTHERS if is_table_creation(strip_literals(text), "parquet")] == []
    assert [text for text in OTHERS if is_table_creation(strip_literals(text), "Morrow")] == [
        "CREATE TABLE made (id INT)"
    ]


def answers(session: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, session.sql(statement).collect()), key=str)


def test_a_table_that_is_there_by_its_location(session: SparkSession, people: morrow.Table) -> None:
    session.sql(f"CREATE TABLE made USING morrow LOCATION '{people.path}'")
    try:
        assert answers(session, "SELECT id FROM made WITH ('snapshot' = '1')") == [(1,)]
        people.alter.add_column("x", "INT")
        session.sql("INSERT INTO made VALUES (3L, 'c', 1)")
        assert answers(session, "SELECT * FROM made") == [(1, "a", None), (2, "b", None), (3, "c", 1)]
        assert "FileScan parquet" in str(session.table("made")._jdf.queryExecution().executedPlan())
        session.table("made").where("id = 3").writeTo("made").append()
        session.sql("INSERT OVERWRITE made SELECT id, v, 7 FROM made WHERE id = 3")
        assert answers(session, "SELECT * FROM made") == [(3, "c", 7), (3, "c", 7)]
        for statement in ("ALTER TABLE made ADD COLUMNS (z INT)", "ALTER TABLE made SET LOCATION '/tmp'"):
            with pytest.raises(UnsupportedOperationException, match=r"by a catalog of morrow\.spark\.catalog"):
                session.sql(statement)
    finally:
        session.sql("DROP TABLE made")
    assert morrow.open(people.path).scan().count() == 2


def test_rows_of_a_table_by_its_location_are_changed(session: SparkSession, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE made (id BIGINT, v VARCHAR(5) DEFAULT 'new' COMMENT \"a'b\", x INT) USING morrow "
        f"PARTITIONED BY (x) COMMENT 'mine' LOCATION '{tmp_path}/made' "
        "TBLPROPERTIES ('primary-key' = 'id,x', 'bucket' = '1')"
    )
    try:
        session.sql("INSERT INTO made VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', 3)")
        session.sql(f"CREATE TABLE first USING morrow OPTIONS (snapshot 1) LOCATION '{tmp_path}/made'")
        session.sql("CACHE TABLE made")
        session.sql("INSERT OVERWRITE made PARTITION (x = 1) VALUES (5, 'e'), (6, 'f')")
        with settings(session, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
            session.sql("INSERT OVERWRITE made VALUES (7, 'g', 2)")
        assert answers(session, "SELECT * FROM made") == [(4, "d", 3), (5, "e", 1), (6, "f", 1), (7, "g", 2)]
        session.sql("DELETE FROM made WHERE id = (SELECT min(id) FROM made)")
        session.sql("UPDATE made SET v = concat(v, '!') WHERE id = 6")
        session.sql(
            "MERGE INTO made t USING (SELECT 7L AS id, 2 AS x, 'm' AS v UNION ALL SELECT 8L, 2, 'n') s "
            "ON t.id = s.id AND t.x = s.x "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, x) VALUES (s.id, s.x)"
            " WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE"
        )
        assert answers(session, "SELECT * FROM made") == [(6, "f!", 1), (7, "m", 2), (8, "new", 2)]
        session.sql("TRUNCATE TABLE made PARTITION (x = 1)")
        assert answers(session, "SHOW PARTITIONS made") == [("x=2",), ("x=3",)]
        session.sql("DELETE FROM made")
        assert answers(session, "SELECT * FROM made") == []
        for statement in (
            "MERGE WITH SCHEMA EVOLUTION INTO made t USING (SELECT 7L AS id, 2 AS x, 'v' AS v, 1 AS y) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            "INSERT INTO made REPLACE WHERE id = 1 VALUES (1, 'a', 1)",
            "DELETE FROM first WHERE id = 1",
            "UPDATE first SET v = 'x'",
            "TRUNCATE TABLE first",
            f"CREATE TABLE other (id BIGINT, c STRING COLLATE UNICODE) USING morrow LOCATION '{tmp_path}/other'",
        ):
            with pytest.raises(Exception, match=r"not support|not a partition column"):
                session.sql(statement)
                raise AssertionError(statement)
        session.sql(f"CREATE TABLE padded (id BIGINT, c CHAR(2)) USING morrow LOCATION '{tmp_path}/padded'")
        session.sql("INSERT INTO padded VALUES (1, 'a')")
        assert answers(session, "SELECT *, c = 'a' FROM padded") == [(1, "a ", True)]
        more = session.sql("SELECT 7L AS id, 2 AS x, 'v' AS v, 1 AS y").alias("s")
        for name in ("made", "default.made"):
            evolving = more.mergeInto(name, expr("made.id = s.id")).whenNotMatched().insertAll().withSchemaEvolution()
            with pytest.raises(UnsupportedOperationException, match="add the columns by ALTER TABLE"):
                evolving.merge()
        assert not (tmp_path / "other").exists()
        assert morrow.open(str(tmp_path / "made")).comment == "mine"
    finally:
        session.sql("DROP TABLE made")
        session.sql("DROP TABLE IF EXISTS first")
        session.sql("DROP TABLE IF EXISTS padded")


def test_what_refused_schema_evolution_recommends(session: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT", name="made")
    session.sql(f"CREATE TABLE made USING morrow LOCATION '{table.path}'")
    merge = "MERGE INTO {} t USING (SELECT 1L AS id, 2 AS y) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    setting = "spark.paimon.write.merge-schema"
    advice = "add the columns by ALTER TABLE, and name the table by a catalog of morrow.spark.catalog"
    try:
        with settings(session, {setting: "true"}), pytest.raises(UnsupportedOperationException) as caught:
            session.sql(merge.format("made"))
        assert f"MERGE under the setting {setting} is not supported; RESET it, and {advice}" in str(caught.value)
        with settings(session, {setting: "true"}):
            session.sql("INSERT INTO made SELECT 7L AS id")
            with pytest.raises(Exception, match=r"made|y") as caught_too:
                session.sql("INSERT INTO made BY NAME SELECT 8L AS id, 2 AS y")
        assert "KeyError" not in str(caught_too.value)
    finally:
        session.sql("DROP TABLE made")
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    session.sql("ALTER TABLE pm.db.made ADD COLUMNS (y INT)")
    session.sql(merge.format("pm.db.made"))
    assert sorted(table.to_polars().rows()) == [(1, 2), (7, None)]


def test_settings_of_writes_are_heeded_by_path(session: SparkSession, people: morrow.Table, tmp_path: Path) -> None:
    new, more = str(tmp_path / "new"), session.sql("SELECT 3 AS id, 'c' AS v, 1.5D AS extra")

    def save(path: str, **options: str) -> None:
        more.write.format("morrow").options(**options).mode("append").save(path)

    formats = {"spark.paimon.file.format": "avro", f"spark.paimon.*.{tmp_path.name}.new.file.format": "orc"}
    with settings(session, {**formats, "spark.paimon.write.merge-schema": "true"}):
        save(people.path)
        save(new, bucket="-1")
        save(new, **{"file.format": "parquet"})  # options of the call take precedence
        checkpoint = str(tmp_path / "checkpoint")
        stream = session.readStream.format("morrow").load(people.path).writeStream.format("morrow")
        query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(str(tmp_path / "copy"))
        query.awaitTermination()
    assert morrow.open(people.path).schema.names[-1] == "extra"
    made = morrow.open(new)
    assert (sorted(_formats(made)), dict(made.options)) == (["orc", "parquet"], {"bucket": "-1"})
    assert _formats(morrow.open(str(tmp_path / "copy"))) == ["avro"]
    for setting, words in {"sequence.field": "is not supported", "bukcet": "no option 'bukcet'"}.items():
        with settings(session, {f"spark.paimon.{setting}": "id"}), pytest.raises(Exception, match=words):
            save(people.path)
    assert morrow.open(people.path).scan().count() == 3


def _formats(table: morrow.Table) -> list[str]:
    return [name.rpartition(".")[2] for name in table.system("files").to_arrow()["file_path"].to_pylist()]


def test_options_of_paimons_format_that_name_a_table_or_its_changes(
    session: SparkSession, people: morrow.Table
) -> None:
    reader = session.read.format("morrow")
    assert rows_of(reader.option("incremental-between", "1,2").load(people.path)) == [(2, "b")]
    for options, words in (
        ({"table": "t"}, r"spark\.table\('pm\.db\.t'\)"),
        ({"read.changelog": "true"}, r"\$audit_log"),
        ({"incremental-between": "1,2", "snapshot": "1"}, "both say what is read"),
        ({"incremental-between-scan-mode": "delta"}, "says which changes"),
        ({"incremental-between": "1,2", "columns": "id"}, "'columns' and 'filter' while incremental-between chooses"),
    ):
        with pytest.raises(Exception, match=words):
            session.read.format("morrow").options(**options).load(people.path).collect()


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_settings_choose_the_state_of_a_table_by_its_location(session: SparkSession, people: morrow.Table) -> None:
    session.sql(f"CREATE TABLE made USING morrow LOCATION '{people.path}'")
    database = Path(people.path).parent.name.removesuffix(".db")
    try:
        for name in ("", f"spark_catalog.{database}.people.", "*.*.people."):
            with settings(session, {f"spark.paimon.{name}scan.snapshot-id": "1"}):
                assert answers(session, "SELECT * FROM made") == [(1, "a")]
                assert session.read.format("morrow").load(people.path).count() == 1
                assert session.read.format("morrow").option("snapshot", 2).load(people.path).count() == 2
                for statement in ("DELETE FROM made", "UPDATE made SET v = 'x'"):
                    with pytest.raises(UnsupportedOperationException, match=r"chooses what is read is not supported"):
                        session.sql(statement)
                with pytest.raises(UnsupportedOperationException, match=r"a stream while .* chooses what is read"):
                    session.readStream.format("morrow").load(people.path)
        with settings(session, {"spark.paimon.incremental-between": "1,2"}):
            assert answers(session, "SELECT * FROM made") == [(2, "b")]
        with (
            settings(session, {"spark.paimon.*.other.people.scan.snapshot-id": "1"}),
            settings(session, {"spark.paimon.target-file-size": "1 mb"}),
        ):
            assert answers(session, "SELECT * FROM made") == [(1, "a"), (2, "b")]
        session.conf.set("spark.paimon.sequence.field", "id")
        with pytest.raises(UnsupportedOperationException, match=r"the setting spark\.paimon\.sequence\.field"):
            session.sql("SELECT * FROM made")
    finally:
        session.conf.unset("spark.paimon.sequence.field")
        session.sql("DROP TABLE made")


MADE: dict[str, Callable[[Any, str], object]] = {
    "sql": lambda rows, path: rows.sparkSession.sql(
        f"CREATE TABLE made (id BIGINT, v STRING) USING morrow PARTITIONED BY (v) LOCATION '{path}' "
        "TBLPROPERTIES ('primary-key' = 'id,v', 'bucket' = '1')"
    ),
    "as select": lambda rows, path: rows.sparkSession.sql(
        f"CREATE TABLE made USING morrow PARTITIONED BY (v) OPTIONS (path '{path}') "
        "TBLPROPERTIES ('primary-key' = 'id,v') AS SELECT 9L AS id, 'z' AS v"
    ),
    "saveAsTable": lambda rows, path: (
        rows.write.format("morrow").partitionBy("v").option("path", path).saveAsTable("made")
    ),
    "createTable": lambda rows, path: rows.sparkSession.catalog.createTable("made", path, "morrow", rows.schema),
}


@pytest.mark.parametrize("call", MADE)
def test_a_new_table_by_its_location(session: SparkSession, people: morrow.Table, tmp_path: Path, call: str) -> None:
    MADE[call](read(session, people.path), str(tmp_path / "new"))
    try:
        before = session.table("made").count()
        session.sql("INSERT INTO made (v, id) VALUES ('c', 3L)")
        made = morrow.open(str(tmp_path / "new"))
        assert made.scan(filter="id = 3").to_arrow().to_pylist() == [{"id": 3, "v": "c"}]
        assert (made.scan().count(), made.partition_keys) == (before + 1, () if call == "createTable" else ("v",))
        assert made.primary_keys == (("id", "v") if call in ("sql", "as select") else ())
    finally:
        session.sql("DROP TABLE made")
    assert (tmp_path / "new" / "schema").is_dir()


def test_a_table_without_a_place_is_refused(session: SparkSession, people: morrow.Table) -> None:
    rows = read(session, people.path)
    for call in (
        lambda: session.sql("CREATE TABLE made (id BIGINT) USING morrow"),
        lambda: rows.writeTo("made").using("morrow").create(),
        lambda: rows.write.format("morrow").saveAsTable("made"),
    ):
        with pytest.raises(IllegalArgumentException, match="there is no table: give its path"):
            call()


def test_a_stream_from_before_the_oldest_snapshot(session: SparkSession, people: morrow.Table) -> None:
    session.sql(f"CREATE TABLE made USING morrow LOCATION '{people.path}'")

    seen: list[int] = []

    def counted(batch: DataFrame, _number: int) -> None:
        seen.append(batch.count())
        # A batch query inside of a stream is not a stream.
        with pytest.raises(Exception, match="no snapshot or tag is at or before"):
            session.read.option("scan.timestamp", "2001-01-01").table("made").collect()

    try:
        stream = session.readStream.option("scan.timestamp", "2001-01-01").table("made")
        query = stream.writeStream.foreachBatch(counted).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        assert sum(seen) == 2
    finally:
        session.sql("DROP TABLE made")


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
    finally:
        session.sql("USE spark_catalog.default")


def test_the_name_paimon(session: SparkSession, people: morrow.Table) -> None:
    """This session lacks a Paimon jar."""
    rows = session.read.format("paimon").option("scan.snapshot-id", 1).load(people.path)
    rows.write.format("PAIMON").mode("append").save(people.path)
    session.sql(f"CREATE OR REPLACE TEMP VIEW by_paimon USING paimon OPTIONS (path '{people.path}')")
    try:
        assert sorted(map(tuple, session.table("by_paimon").collect())) == [(1, "a"), (1, "a"), (2, "b")]
    finally:
        session.catalog.dropTempView("by_paimon")
    assert session.readStream.format("paimon").load(people.path).columns == ["id", "v"]


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
        assert session.table(name).count() == people.scan().count()
        assert "FileScan" in str(session.table(name)._jdf.queryExecution().executedPlan())
        session.sql(f"INSERT INTO {name} VALUES (3L, 'c')")
        session.sql(f"DROP VIEW {name}")  # leaves the table untouched
    assert people.scan().count() == 4
    with pytest.raises(IllegalArgumentException, match="no option 'snapshots'"):
        session.sql(f"CREATE TEMPORARY VIEW by_sql USING morrow OPTIONS (path '{people.path}', snapshots 1)")
    with pytest.raises(IllegalArgumentException, match="the schema of the table is"):
        session.sql(f"CREATE TEMPORARY VIEW by_sql (id INT) USING morrow OPTIONS (path '{people.path}')")
    with pytest.raises(IllegalArgumentException, match="TableNotFound"):
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
            with pytest.raises(
                UnsupportedOperationException, match=r"which Spark ignores.*morrow\.spark\.read\(spark, path, snapshot="
            ):
                session.sql(statement)
        with pytest.raises(IllegalArgumentException, match="Spark does not heed the option 'snapshot' of a view"):
            session.read.option("snapshot", 1).table(view)
        with pytest.raises(Exception, match="TIME_TRAVEL"):
            session.sql(f"SELECT * FROM {view} VERSION AS OF 1")
        assert session.sql(f"WITH newest AS (SELECT * FROM {view}) SELECT * FROM newest").count() == 2
    finally:
        detach(session, "wh")


def test_sessions_that_are_not_registered(session: SparkSession, people: morrow.Table) -> None:
    other = session.newSession()
    rows = read(other, people.path)
    for call in (
        lambda: other.sql("CREATE TABLE made (id BIGINT) USING morrow"),
        lambda: other.sql(f"CREATE TEMPORARY VIEW made USING morrow OPTIONS (path '{people.path}')"),
        lambda: rows.writeTo("made").using("morrow").create(),
        lambda: rows.write.format("morrow").saveAsTable("made"),
        lambda: other.catalog.createTable("made", people.path, "morrow", rows.schema),
    ):
        with pytest.raises(UnsupportedOperationException, match=r"call morrow\.spark\.register\(spark\)"):
            call()
    rows.createOrReplaceTempView("bare")
    with pytest.raises(Exception, match="UNSUPPORTED_INSERT"):
        other.sql("INSERT OVERWRITE bare VALUES (9L, 'z')")
    assert people.scan().count() == 2
