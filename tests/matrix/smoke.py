"""Morrow in Spark, in about twenty steps that the matrix runs with each version of PySpark.

    python -m tests.matrix.smoke

prints a line for every step, and exits with 1 if one fails. `REFUSED` lists the steps that a version of Spark lacks:
they have to be refused by a one-line error that says what to do instead.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import morrow
import morrow.spark
from morrow.engine.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "America/New_York",
}

MERGE_SCHEMA = "spark.paimon.write.merge-schema"
CANARY = "c4n4ryOfTheSecret"


@dataclass
class Place:
    """A warehouse and the session that all steps share."""

    folder: Path
    spark: SparkSession = field(init=False)

    @cached_property
    def orders(self) -> str:
        return str(self.folder / "db.db" / "orders")

    def rows(self, frame: DataFrame) -> Rows:
        return sorted(tuple(row) for row in frame.collect())

    def sql(self, text: str) -> Rows:
        return self.rows(self.spark.sql(text))

    def now(self) -> Rows:
        return self.rows(morrow.spark.read(self.spark, self.orders))


def session(at: Place) -> None:
    at.spark = morrow.spark.session("smoke", "local[2]", **SETTINGS)
    assert at.spark.range(3).count() == 3


def write(at: Place) -> None:
    rows = at.spark.sql("SELECT id, concat('n', id) AS name, id * 1.5D AS amount FROM range(6)")
    options = {"bucket": 2}
    morrow.spark.write(rows, at.orders, create={"primary_keys": "id", "options": options})
    morrow.spark.write(rows.where("id > 3"), at.orders, "overwrite")
    assert [row[0] for row in at.now()] == [4, 5]
    morrow.spark.write(rows, at.orders, "overwrite")


def read(at: Place) -> None:
    found = morrow.spark.read(at.spark, at.orders, columns=["id", "name"], filter="id < 3 AND name <> 'n1'")
    assert at.rows(found) == [(0, "n0"), (2, "n2")]
    system = morrow.spark.read(at.spark, at.orders + "$snapshots").select("snapshot_id")
    assert at.rows(system) == [(1,), (2,), (3,)]


def time_travel(at: Place) -> None:
    assert morrow.spark.read(at.spark, at.orders, snapshot=2).count() == 2
    assert morrow.spark.read(at.spark, at.orders, as_of="2").count() == 2


def upsert(at: Place) -> None:
    new = at.spark.sql("SELECT 1L AS id, 'one' AS name, 1.0D AS amount UNION ALL SELECT 9L, 'nine', 9.0D")
    for _ in range(2):
        morrow.spark.upsert(new, at.orders, commit_user="smoke", commit_identifier=1)
    assert at.now()[1] == (1, "one", 1.0)
    assert at.now()[-1] == (9, "nine", 9.0)
    assert morrow.open(at.orders).snapshots()[-1].id == 4


def delete(at: Place) -> None:
    morrow.spark.delete(at.spark.sql("SELECT 9L AS id"), at.orders)
    morrow.spark.delete("id = 0", at.orders, spark=at.spark)
    assert [row[0] for row in at.now()] == [1, 2, 3, 4, 5]


def explain(at: Place) -> None:
    assert "Spark" in morrow.spark.explain(morrow.open(at.orders).scan(filter="id < 3"))


def to_spark(at: Place) -> None:
    scan = morrow.open(at.orders).scan(["id", "name"], "id < 3")
    assert at.rows(scan.to_spark(at.spark)) == [(1, "one"), (2, "n2")]
    assert scan.to_spark(at.spark).where("id < 0").count() == 0
    assert at.rows(morrow.open(at.orders).scan(filter="id < 0").to_spark(at.spark)) == []


def merge_on_read(at: Place) -> None:
    """Read a table whose versions of keys are merged by tasks, and one whose dead rows Spark's scan skips."""
    rows = at.spark.sql("SELECT 1L AS id, CAST(NULL AS STRING) AS a, 'b' AS b UNION ALL SELECT 2L, 'a', NULL")
    feeds = str(at.folder / "db.db" / "feeds")
    options = {"bucket": 1, "merge-engine": "partial-update", "write-only": True}
    morrow.spark.write(rows, feeds, create={"primary_keys": "id", "options": options})
    morrow.spark.upsert(at.spark.sql("SELECT 1L AS id, 'a' AS a, CAST(NULL AS STRING) AS b"), feeds)
    assert at.rows(morrow.spark.read(at.spark, feeds)) == [(1, "a", "b"), (2, "a", None)]
    vectors = str(at.folder / "db.db" / "vectors")
    options = {"bucket": 2, "deletion-vectors.enabled": True}
    morrow.spark.write(rows, vectors, create={"primary_keys": "id", "options": options})
    morrow.spark.upsert(at.spark.sql("SELECT 1L AS id, 'x' AS a, 'y' AS b"), vectors)
    assert at.rows(morrow.spark.read(at.spark, vectors)) == [(1, "x", "y"), (2, "a", None)]


def procedures(at: Place) -> None:
    morrow.spark.call(at.spark, "create_tag", table=at.orders, tag="monday").collect()
    morrow.spark.call(at.spark, "sys.compact", table="db.orders", warehouse=at.folder).collect()
    assert at.rows(morrow.spark.read(at.spark, at.orders, tag="monday")) == at.now()
    morrow.spark.compact(at.spark, at.orders, full=True, distributed=True)
    morrow.spark.remove_orphan_files(at.spark, at.orders, distributed=True)


def views(at: Place) -> None:
    morrow.spark.attach(at.spark, at.folder, as_="pm")
    assert at.sql("SELECT count(*) FROM pm_db_orders WHERE id > 3") == [(2,)]
    morrow.spark.detach(at.spark, "pm")


def data_source(at: Place) -> None:
    morrow.spark.register(at.spark)
    at.spark.sql("SELECT 6L AS id, 'six' AS name, 6.0D AS amount").write.format("morrow").mode("append").save(at.orders)
    frame = at.spark.read.format("morrow").option("columns", "id,name").option("snapshot", 4).load(at.orders)
    assert at.rows(frame)[:2] == [(0, "n0"), (1, "one")]
    assert at.now()[-1] == (6, "six", 6.0)
    days = str(at.folder / "db.db" / "days")
    at.spark.sql("SELECT DATE'2024-05-14' AS day, 1L AS n").write.format("morrow").partitionBy("day").save(days)
    assert at.spark.read.format("morrow").load(days).count() == 1


def view_using(at: Place) -> None:
    at.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING morrow OPTIONS (path '{at.orders}')")
    assert at.sql("SELECT name FROM v WHERE id = 6") == [("six",)]


def table_using(at: Place) -> None:
    """Create a table in Spark's own catalog."""
    at.sql(
        f"CREATE TABLE mine (id BIGINT, name STRING) USING morrow LOCATION '{at.folder}/mine' "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    at.sql("INSERT INTO mine VALUES (1, 'a'), (2, 'b')")
    at.spark.sql("SELECT 2L AS id, 'B' AS name").writeTo("mine").append()
    assert at.sql("SELECT name FROM mine WHERE id > 1") == [("B",)]
    at.sql("DROP TABLE mine")


def stream_in(at: Place) -> None:
    stream = at.spark.readStream.format("morrow").option("starting-snapshot", 1).load(at.orders)
    sink = morrow.spark.sink(str(at.folder / "db.db" / "copy"), create={"primary_keys": "id"})
    _run(stream.writeStream.foreachBatch(sink), at, "copied")
    assert len(at.rows(morrow.spark.read(at.spark, str(at.folder / "db.db" / "copy")))) > 5


def stream_out(at: Place) -> None:
    _run(_landing(at).writeStream.format("morrow").option("path", at.orders), at, "out")
    assert at.now()[0] == (0, "zero", 0.5)


def for_each_batch(at: Place) -> None:
    sink = morrow.spark.sink(str(at.folder / "db.db" / "landed"), create={"primary_keys": "id"})
    for _ in range(2):
        _run(_landing(at).writeStream.foreachBatch(sink), at, "landed")
    assert at.rows(morrow.spark.read(at.spark, str(at.folder / "db.db" / "landed"))) == [(0, "zero", 0.5)]


def _landing(at: Place) -> DataFrame:
    landing = at.folder / "landing"
    landing.mkdir(exist_ok=True)
    (landing / "one.json").write_text('{"id": 0, "name": "zero", "amount": 0.5}')
    return at.spark.readStream.schema("id BIGINT, name STRING, amount DOUBLE").json(str(landing))


def _run(writer: Any, at: Place, name: str) -> None:
    checkpoint = str(at.folder / "checkpoints" / name)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def catalog(at: Place) -> None:
    morrow.spark.catalog(at.spark, "pm", warehouse=at.folder)
    at.sql(
        "CREATE TABLE pm.db.t (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    at.sql("INSERT INTO pm.db.t VALUES (1, 'a'), (2, 'b')")
    assert at.sql("SELECT id, name FROM pm.db.t WHERE id > 1") == [(2, "b")]
    assert ("db", "t", False) in at.sql("SHOW TABLES IN pm.db")


def sql(at: Place) -> None:
    at.sql("CREATE TABLE pm.db.u AS SELECT id, name FROM pm.db.t")
    at.sql("ALTER TABLE pm.db.u ADD COLUMN amount DECIMAL(10, 2)")
    at.sql("INSERT OVERWRITE pm.db.u VALUES (7, 'g', 1.25)")
    assert at.sql("SELECT count(*), max(id) FROM pm.db.u") == [(1, 7)]
    assert at.sql("SELECT count(*) FROM pm.db.u VERSION AS OF 1") == [(2,)]
    assert [row[0] for row in at.spark.sql("DESCRIBE pm.db.u").collect()] == ["id", "name", "amount"]
    at.sql("TRUNCATE TABLE pm.db.u")
    at.sql("DROP TABLE pm.db.u")


def options(at: Place) -> None:
    """Write with columns that a statement leaves out, and with options by name."""
    at.sql("CREATE TABLE pm.db.p (id INT, s STRING DEFAULT 'x', p STRING) PARTITIONED BY (p)")
    at.sql("INSERT INTO pm.db.p (p, id) VALUES ('a', 1)")
    rows = at.spark.sql("SELECT 2 AS id, 'y' AS s, 'b' AS p, 5 AS more")
    rows.writeTo("pm.db.p").option("write.merge-schema", "true").append()
    rows.write.option("mergeSchema", "true").insertInto("pm.db.p")
    new = at.spark.sql("SELECT 3 AS id, 'z' AS s, 'b' AS p, 6 AS more").write.mode("overwrite")
    new.option("replaceWhere", "p = 'b'").insertInto("pm.db.p")
    assert at.sql("SELECT id, s, p, more FROM pm.db.p") == [(1, "x", "a", None), (3, "z", "b", 6)]
    new.option("replaceWhere", "p >= 'a'").option("file.format", "avro").saveAsTable("pm.db.p")
    assert at.sql("SELECT count(*) FROM pm.db.p") == [(1,)]
    (made,) = at.sql("SHOW CREATE TABLE pm.db.p")[0]
    assert "s STRING DEFAULT 'x',\n" in made


def merge(at: Place) -> None:
    at.sql("UPDATE pm.db.t SET name = 'c' WHERE id = 1")
    at.sql(
        "MERGE INTO pm.db.t USING (SELECT 2L AS id, 'd' AS name UNION ALL SELECT 3L, 'e') AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"
    )
    at.sql("DELETE FROM pm.db.t WHERE name = 'c'")
    assert at.sql("SELECT * FROM pm.db.t") == [(2, "d"), (3, "e")]


def evolving_merge(at: Place) -> None:
    """MERGE that adds a column; Spark 4.0 lacks a statement for it."""
    at.sql("CREATE TABLE pm.db.m (id BIGINT)")
    at.spark.conf.set(MERGE_SCHEMA, "true")
    try:
        at.sql(
            "MERGE INTO pm.db.m AS t USING (SELECT 1L AS id, 'a' AS name) AS s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        at.spark.conf.unset(MERGE_SCHEMA)
    assert at.sql("SELECT id, name FROM pm.db.m") == [(1, "a")]


def statements(at: Place) -> None:
    """Run statements without a catalog in the JVM, as on 3.5."""
    from tests.spark.statements.test_execution import check

    folder = at.folder / "statements"
    folder.mkdir()
    check(at.spark, folder)


def call(at: Place) -> None:
    at.sql("CALL pm.sys.create_tag(table => 'db.t', tag => 'done')")
    assert at.sql("SELECT count(*) FROM pm.db.t VERSION AS OF 'done'") == [(2,)]
    assert at.sql("SELECT tag_name FROM pm.db.`t$tags`") == [("done",)]


def secrets(at: Place) -> None:
    """Check that the secret of a store that is not reached is in no plan and in no setting of Spark."""
    options = {"aws_access_key_id": f"{CANARY}Id", "aws_secret_access_key": CANARY}
    frame = morrow.spark.read(at.spark, at.orders, storage_options=options)
    assert frame.count() == len(at.now())
    told = [frame._jdf.queryExecution().toString(), str(at.spark.sparkContext.getConf().getAll())]
    assert [text for text in told if CANARY in text] == []


Step = Callable[[Place], None]
STEPS: tuple[Step, ...] = (
    session,
    write,
    read,
    time_travel,
    upsert,
    delete,
    explain,
    to_spark,
    merge_on_read,
    procedures,
    views,
    data_source,
    view_using,
    table_using,
    for_each_batch,
    stream_in,
    stream_out,
    catalog,
    sql,
    options,
    merge,
    evolving_merge,
    statements,
    call,
    secrets,
)

REFUSED: Mapping[str, tuple[Step, ...]] = {
    "3.5": (table_using, stream_in, stream_out, catalog),
}
"""Steps that versions of PySpark do not support."""
NEEDS: Mapping[Step, Step] = {sql: catalog, options: catalog, merge: catalog, evolving_merge: catalog, call: catalog}
"""Steps that are skipped if another one is refused."""


def main() -> int:
    import pyspark

    refused = REFUSED.get(".".join(pyspark.__version__.split(".")[:2]), ())
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        at = Place(Path(folder))
        for step in STEPS:
            name = step.__name__.replace("_", " ")
            if NEEDS.get(step) in refused:
                continue
            start = time.perf_counter()
            said = _tried(step, at, refused)
            failed += said.startswith("FAILED")
            print(f"  {name:<16}{said}  ({time.perf_counter() - start:.1f} s)", flush=True)
        at.spark.stop()
    return 1 if failed else 0


def _tried(step: Step, at: Place, refused: tuple[Step, ...]) -> str:
    try:
        step(at)
    except Unsupported as error:
        return f"refused: {error}" if step in refused else f"FAILED: {error}"
    except Exception:  # noqa: BLE001 - the next step runs after any error
        return f"FAILED\n{traceback.format_exc(limit=-8)}"
    return "FAILED: expected to be refused" if step in refused else "ok"


if __name__ == "__main__":
    sys.exit(main())
