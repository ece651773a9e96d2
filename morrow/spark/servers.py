"""A Spark session for clients without Python: Spark's Thrift server for JDBC, and SQL statements of a terminal.

Spark's server runs in the JVM of a session that this process started, and this process answers for its catalogs. So
the server ends with the process.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from morrow.catalogs.catalog import Catalog
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.catalogs.registration import catalog
from morrow.spark.catalogs.syntax import SPARK_SYNTAX
from morrow.spark.sessions import session
from morrow.statements.tokens import split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOST, PORT = "127.0.0.1", 10_000
SINGLE = "spark.sql.hive.thriftServer.singleSession"
"""The setting by which all clients share the session, and so its catalogs. Spark reads it when a session starts."""
HIVE_HOST, HIVE_PORT = "hive.server2.thrift.bind.host", "hive.server2.thrift.port"


def open_session(warehouse: Catalog, name: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session with a catalog that a Thrift server can share. Raises as `session` and `catalog`."""
    spark = session("morrow", None, **{SINGLE: True, **conf})
    catalog(spark, name, warehouse=warehouse)
    return spark


def start_thrift_server(spark: SparkSession, host: str = HOST, port: int = PORT) -> ThriftServer:
    """Start Spark's Thrift server, whose clients use the session: its catalogs, views and settings.

    There is no password: everyone who reaches the port runs statements with the rights of this process.

    `host`, `port`: the address to listen at, by default this machine alone.

    Raises:
        Unsupported: the session was started without the setting `SINGLE`, or has no JVM of its own.
        InvalidArgument: the server does not start, such as at a port in use.
    """
    from py4j.protocol import Py4JError

    session = cast("Any", spark)
    if str(spark.conf.get(SINGLE, "false")).lower() != "true":
        raise Unsupported("a Thrift server of this session", hint=f"start the session with the setting {SINGLE} = true")
    _check_port(host, port)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(HIVE_HOST, host)
    hadoop.set(HIVE_PORT, str(port))
    server = session.sparkContext._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    try:
        return ThriftServer(f"jdbc:hive2://{host}:{port}", server.startWithContext(session._jsparkSession.sqlContext()))
    except Py4JError as error:
        raise InvalidArgument(f"{host}:{port}: Spark's Thrift server does not start: {error}") from error


def _check_port(host: str, port: int) -> None:
    """Raise `InvalidArgument` if nothing can listen at an address: Spark's server would end the JVM."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise InvalidArgument(
            f"{host}:{port}: a server cannot listen there: {error.strerror}; choose another port"
        ) from error


class ThriftServer:
    """A running Thrift server; `url` is its address for JDBC."""

    def __init__(self, url: str, server: Any) -> None:
        self.url = url
        self._server = server

    def stop(self) -> None:
        """Stop the server. Its session goes on."""
        self._server.stop()


def run_statements(spark: SparkSession, text: str) -> Iterator[DataFrame]:
    """Run the statements of a text, separated by semicolons, and yield the result of each. Raises Spark's errors."""
    for words in split(text, SPARK_SYNTAX):
        yield spark.sql(words.text)
