"""A process in a peer's environment: it reads a request per line and writes `{"seconds", "rows", "sum"}` per line.

The query ``key`` reads the row of one key, given as ``id=5``. `sum` is None for other queries than ``sum``, `rows` if
the peer does not count them. Every peer is used as its documentation shows, and keeps its own caches between reads.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def pypaimon(warehouse, query, column):
    import pyarrow.compute as pc
    from pypaimon import CatalogFactory

    builder = CatalogFactory.create({"warehouse": warehouse}).get_table("db.t").new_read_builder()
    if query == "sum":
        builder = builder.with_projection([column])
    if query == "key":
        name, key = column.split("=")
        builder = builder.with_filter(builder.new_predicate_builder().equal(name, int(key)))
    data = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return data.num_rows, pc.sum(data[column]).as_py() if query == "sum" else None


def write_pypaimon(warehouse, name, source):
    """Write rows, which are loaded and cast to the table's types before the clock starts."""
    import pyarrow as pa
    from pypaimon import CatalogFactory
    from pypaimon.schema.data_types import PyarrowFieldParser

    table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    rows = pa.ipc.open_file(source).read_all().select(schema.names).cast(schema)
    began = time.perf_counter()
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
    return rows.num_rows, time.perf_counter() - began


def pypaimon_rust(warehouse, query, column):
    if query == "sum":
        return _rust_sql(warehouse, column)
    if query == "sql":
        return sum(batch.num_rows for batch in _rust_context(warehouse).sql(column)), None
    if query == "key":
        return sum(
            batch.num_rows for batch in _rust_context(warehouse).sql(f"SELECT * FROM paimon.db.t WHERE {column}")
        ), None
    from pypaimon_rust.datafusion import PaimonCatalog

    builder = PaimonCatalog({"warehouse": warehouse}).get_table("db.t").new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return sum(batch.num_rows for batch in batches), None


def _rust_context(warehouse):
    from pypaimon_rust.datafusion import SQLContext

    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse}, "db")
    return context


def _rust_sql(warehouse, column):
    (batch,) = _rust_context(warehouse).sql(f'SELECT count(*) AS n, sum("{column}") AS total FROM paimon.db.t')
    return batch["n"][0].as_py(), batch["total"][0].as_py()


def deltalake(folder, query, column):
    from deltalake import DeltaTable, QueryBuilder

    context = QueryBuilder().register("t", DeltaTable(folder))
    if query == "sum":
        answer = context.execute(f'SELECT count(*) AS n, sum("{column}") AS total FROM t').read_all()
        return answer["n"][0].as_py(), answer["total"][0].as_py()
    return context.execute("SELECT * FROM t").read_all().num_rows, None


def spark_session():
    """Start Spark with two cores and the memory that Morrow's session has (`bench.spark.SETTINGS`)."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("Java Paimon")
    settings = {
        "spark.jars": ",".join(map(str, Path(sys.prefix, "ivy", "jars").glob("org.apache.paimon_paimon-spark-*.jar"))),
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()  # returns the running session after the first request
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def paimon_spark(warehouse, query, column):
    """Run a query. A full read does not count rows, since they go to Spark's noop sink."""
    frame = spark_session().read.format("paimon").load(f"{warehouse}/db.db/t")
    if query == "sum":
        return tuple(frame.selectExpr("count(*)", f"sum({column})").collect()[0])
    frame.write.format("noop").mode("overwrite").save()
    return None, None


def write_paimon_spark(warehouse, name, source):
    """Upsert the source; reading it is part of the time, as it is for Morrow on Spark."""
    spark = spark_session()
    database, table = name.split(".")
    began = time.perf_counter()
    rows = spark.read.parquet(source)
    rows.write.format("paimon").mode("append").save(f"{warehouse}/{database}.db/{table}")
    return None, time.perf_counter() - began


READERS = {
    "pypaimon": pypaimon,
    "pypaimon-rust": pypaimon_rust,
    "paimon-spark": paimon_spark,
    "deltalake": deltalake,
}
WRITERS = {"pypaimon": write_pypaimon, "paimon-spark": write_paimon_spark}


def answered(peer, request):
    if request["query"] == "write":
        rows, seconds = WRITERS[peer](request["warehouse"], request["table"], request["source"])
        return {"seconds": seconds, "rows": rows, "sum": None}
    began = time.perf_counter()
    rows, total = READERS[peer](request["warehouse"], request["query"], request["column"])
    return {"seconds": time.perf_counter() - began, "rows": rows, "sum": total}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a peer must not mix with the answers
    for line in sys.stdin:
        print(json.dumps(answered(sys.argv[1], json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
