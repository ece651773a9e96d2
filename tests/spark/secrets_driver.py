"""A driver with an event log that reads and writes a table in an object store through every interface, and by name.

python secrets_driver.py <folder of the log> <storage options as JSON>
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import morrow
from tests.spark.conftest import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "s3://lake/wh/db.db/t"


def main(log: str, given: str) -> None:
    options = json.loads(given)
    conf = {"spark.eventLog.enabled": True, "spark.eventLog.dir": f"file://{log}", "spark.eventLog.compress": False}
    spark = morrow.spark.session("canary", "local[2]", **SETTINGS, **conf)
    morrow.spark.register(spark)
    pickles = Path(log, "pickles")
    dump = pickle.dumps
    pickle.dumps = lambda *args, **kinds: _kept(pickles, dump(*args, **kinds))  # type: ignore[assignment]
    morrow.Catalog("s3://lake/wh", storage_options=options).create_table(
        "db.t", schema="a BIGINT, b STRING", primary_keys=["a"], options={"bucket": 2}
    )
    rows = spark.createDataFrame([(1, "x"), (2, "y")], "a BIGINT, b STRING")
    stored = {f"storage.{name}": value for name, value in options.items()}
    morrow.spark.write(rows, TABLE, storage_options=options)
    morrow.spark.write(rows, TABLE, storage_options=options)
    rows.write.format("morrow").options(**stored).mode("append").save(TABLE)
    read = morrow.spark.read(spark, TABLE, storage_options=options)
    read.explain(True)
    assert read.count() == 2
    loaded = spark.read.format("morrow").options(**stored).load(TABLE)
    loaded.explain("formatted")
    assert loaded.filter("a = 1").count() == 1
    morrow.spark.compact(spark, TABLE, True, distributed=True, storage_options=options)
    morrow.spark.remove_orphan_files(spark, TABLE, distributed=True, storage_options=options)
    morrow.spark.attach(spark, "s3://lake/wh", storage_options=options)
    assert spark.sql("SELECT count(*) FROM pm_db_t").collect()[0][0] == 2
    by_name(spark, options)
    stream = spark.readStream.format("morrow").options(**stored).load(TABLE)
    query = stream.writeStream.format("memory").queryName("seen").option("checkpointLocation", f"{log}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    assert spark.sql("SELECT count(*) FROM seen").collect()[0][0] == 2
    sink = morrow.spark.sink(TABLE, storage_options=options)
    again = stream.writeStream.foreachBatch(sink).option("checkpointLocation", f"{log}/checkpoint2")
    again.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def by_name(spark: SparkSession, options: dict[str, str]) -> None:
    """Run statements of the catalog, and print everything that Spark shows about them."""
    morrow.spark.catalog(spark, "pm", warehouse="s3://lake/wh", storage_options=options)
    spark.sql("CREATE TABLE pm.db.log (a BIGINT, b STRING)")
    spark.sql("INSERT INTO pm.db.log SELECT * FROM pm.db.t")
    spark.sql("UPDATE pm.db.log SET b = 'z' WHERE a = 1")
    spark.sql("MERGE INTO pm.db.t USING pm.db.log s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b")
    spark.sql("ALTER TABLE pm.db.t CREATE TAG x")
    spark.sql("CALL pm.sys.create_tag(table => 'db.t', tag => 'y')")
    assert spark.sql("SELECT * FROM pm.db.t WHERE b = 'z'").collect() == [(1, "z")]
    for statement in ("SET -v", "EXPLAIN EXTENDED SELECT * FROM pm.db.t", "DESCRIBE EXTENDED pm.db.t"):
        print(spark.sql(statement).collect())
    print(cast("Any", spark)._jsparkSession.sharedState().statusStore().executionsList().toString())


def _kept(file: Path, data: bytes) -> bytes:
    with file.open("ab") as stream:
        stream.write(data)
    return data


if __name__ == "__main__":
    main(*sys.argv[1:])
