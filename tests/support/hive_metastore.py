"""A real Hive metastore for tests, from PySpark's jars, with a database in memory (Derby).

The JVM is driven by py4j, since the tables for locks have to be made by a call of a Hive class.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from morrow.engine.errors import Unsupported
from morrow.spark.sessions import find_java
from tests.support.spark_cluster import SHORT_LIVED

OPENED = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.nio")
LEFT_OUT = ("spark-", "scala", "breeze", "kubernetes", "arrow-", "parquet-")
CONFIGURATION = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "hikaricp",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
    "hive.metastore.server.min.threads": "2",
}


class MetastoreUnavailable(Exception):
    """No metastore can be started; the message says why."""


@contextmanager
def hive_metastore() -> Iterator[str]:
    """Start a metastore and yield its address. Raises `MetastoreUnavailable`."""
    try:
        import pymetastore  # noqa: F401
    except ImportError:
        raise MetastoreUnavailable("pymetastore is not installed: pip install 'morrow[hive]'") from None
    try:
        import py4j.java_gateway as py4j
        import pyspark
    except ImportError:
        raise MetastoreUnavailable("pyspark is not installed, whose jars hold Hive's metastore") from None
    try:
        java = f"{find_java().home}/bin/java"
    except Unsupported as error:
        raise MetastoreUnavailable(str(error)) from None
    jars = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
    jars = [jar for jar in jars if not jar.name.startswith(LEFT_OUT)]
    if not any(jar.name.startswith("hive-metastore") for jar in jars):
        raise MetastoreUnavailable("PySpark's jars hold no metastore of Hive")
    with tempfile.TemporaryDirectory(prefix="morrow-hive-") as folder:
        site = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in CONFIGURATION.items())
        warehouse = f"<property><name>hive.metastore.warehouse.dir</name><value>{folder}/warehouse</value></property>"
        Path(folder, "hive-site.xml").write_text(f"<configuration>{site}{warehouse}</configuration>")
        command = [java, "-Xmx512m", *SHORT_LIVED.split(), f"-Djava.io.tmpdir={folder}", "-Dlog4j2.level=OFF"]
        command += [part for name in OPENED for part in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        command += ["-cp", ":".join([folder, *map(str, jars)]), "py4j.GatewayServer", "--die-on-broken-pipe", "0"]
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                assert process.stdout is not None
                gateway = py4j.JavaGateway(
                    gateway_parameters=py4j.GatewayParameters(port=int(process.stdout.readline()))
                )
                yield _started(gateway)
                gateway.shutdown()  # otherwise py4j asks the ended JVM to forget its objects
            finally:
                process.kill()


def _started(gateway: object) -> str:
    """Start the metastore in the JVM, and return its address when it listens."""
    java = gateway.jvm  # type: ignore[attr-defined]  # py4j is untyped
    hive = java.org.apache.hadoop.hive
    configuration = hive.conf.HiveConf()
    hive.metastore.txn.TxnDbUtil.prepDb(configuration)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # This starts a thread of the JVM and waits until it listens.
    hive.metastore.MetaStoreUtils.startMetaStore(port, hive.shims.ShimLoader.getHadoopThriftAuthBridge(), configuration)
    return f"thrift://127.0.0.1:{port}"
