"""Paimon tables in Spark, through PySpark: read and written by the executors, without a jar.

    import morrow.spark
    spark = morrow.spark.session("pipeline", "local[4]")
    orders = morrow.spark.read(spark, "warehouse/db.db/orders", filter="amount > 10")
    morrow.spark.write(orders.groupBy("customer").count(), "warehouse/db.db/counts", "overwrite")

`pip install 'morrow[spark]'`: Spark 3.5 or 4, and on a machine without Java 17 a Java runtime in a wheel (`find_java`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from morrow.spark.catalogs.registration import catalog, register
    from morrow.spark.maintenance.commands import compact, remove_orphan_files
    from morrow.spark.procedures import call
    from morrow.spark.reading.read import explain, read
    from morrow.spark.sessions import Java, find_java, session
    from morrow.spark.source.sinks import sink
    from morrow.spark.statements.execution import sql
    from morrow.spark.views import attach, detach
    from morrow.spark.writing.changes import update
    from morrow.spark.writing.delete import delete
    from morrow.spark.writing.merge import merge
    from morrow.spark.writing.schema_evolution import Evolution
    from morrow.spark.writing.write import upsert, write

__all__ = [
    "Evolution",
    "Java",
    "attach",
    "call",
    "catalog",
    "compact",
    "delete",
    "detach",
    "explain",
    "find_java",
    "merge",
    "read",
    "register",
    "remove_orphan_files",
    "session",
    "sink",
    "sql",
    "update",
    "upsert",
    "write",
]

_HOMES = {
    "Evolution": "morrow.spark.writing.schema_evolution",
    "Java": "morrow.spark.sessions",
    "attach": "morrow.spark.views",
    "call": "morrow.spark.procedures",
    "catalog": "morrow.spark.catalogs.registration",
    "compact": "morrow.spark.maintenance.commands",
    "delete": "morrow.spark.writing.delete",
    "detach": "morrow.spark.views",
    "explain": "morrow.spark.reading.read",
    "find_java": "morrow.spark.sessions",
    "merge": "morrow.spark.writing.merge",
    "read": "morrow.spark.reading.read",
    "register": "morrow.spark.catalogs.registration",
    "remove_orphan_files": "morrow.spark.maintenance.commands",
    "session": "morrow.spark.sessions",
    "sink": "morrow.spark.source.sinks",
    "sql": "morrow.spark.statements.execution",
    "update": "morrow.spark.writing.changes",
    "upsert": "morrow.spark.writing.write",
    "write": "morrow.spark.writing.write",
}


def __getattr__(name: str) -> Any:
    # As in morrow, imports are lazy: an executor process imports only one module of this package.
    from importlib import import_module

    from morrow.engine.plugins import require_extra

    if name in _HOMES:
        with require_extra("morrow.spark", "pyspark", "spark"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'morrow.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
