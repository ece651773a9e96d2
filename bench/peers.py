"""Other libraries to compare Morrow with, each in its own environment under bench/.peers.

`python -m bench.peers install` creates the environments. A peer runs as a process that reads one request per line and
answers with the seconds of its work. It measures them itself, so neither its start nor the pipe is included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morrow.spark.sessions import find_java

HERE = Path(__file__).parent
HOME = HERE / ".peers"

PEERS = {
    "pypaimon": ("pypaimon==2.1.0",),
    "pypaimon-rust": ("pypaimon-rust==0.4.0", "pyarrow>=18"),
    "paimon-spark": ("pyspark==3.5.*", "setuptools<81"),
    "deltalake": ("deltalake==1.6.6", "pyarrow>=26", "polars>=2.1"),
}
"""Name of the environment -> the packages installed in it."""
OTHERS = {
    "pyiceberg": ("pyiceberg[sql-sqlite,pyarrow]==0.12.0", "polars>=2.1"),
}
"""Further libraries, for `bench.ten_tasks` alone."""

JARS = {"paimon-spark": "org.apache.paimon:paimon-spark-3.5:0.9.0"}
"""Name of the environment -> the jar that its Spark downloads by `spark.jars.packages`."""

BRING_JAR = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""


def interpreter(name: str) -> Path:
    return HOME / name / "bin" / "python"


def installed(name: str) -> bool:
    return (HOME / name / ".ready").exists()


def install(name: str) -> None:
    """Create the environment of a peer unless it exists."""
    if installed(name):
        return
    wanted = (PEERS | OTHERS)[name]
    print(f"installing {' '.join(wanted)} in bench/.peers/{name}", flush=True)
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    venv.create(HOME / name, with_pip=True, clear=True)
    pip = [str(interpreter(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)
    if jar := JARS.get(name):
        bring = [str(interpreter(name)), "-c", BRING_JAR, jar, str(HOME / name / "ivy")]
        subprocess.run(bring, check=True, env=_environment(name), stdout=subprocess.DEVNULL)
    (HOME / name / ".ready").touch()


def _environment(name: str) -> dict[str, str]:
    """Return the environment variables of a peer's process. Peers with a jar use the same Java as Morrow."""
    return {**os.environ, "JAVA_HOME": str(find_java().home)} if name in JARS else dict(os.environ)


class Peer:
    """A running peer; `read` returns its answer, `clock` only the seconds."""

    def __init__(self, name: str) -> None:
        command = [str(interpreter(name)), str(HERE / "peer_worker.py"), name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(name)
        )
        self.name = name

    def close(self) -> None:
        self._process.communicate()

    def read(self, warehouse: str, query: str, column: str) -> dict[str, Any]:
        """Read table `db.t`, or the Delta table at `warehouse`.

        The query is "full" (to Arrow), "sum" (rows, and the sum of `column`), "key" (`column` is ``id=5``),
        or for pypaimon-rust "sql" (`column` is the query).
        """
        return self._ask({"warehouse": warehouse, "query": query, "column": column})

    def write(self, warehouse: str, table: str, source: str) -> float:
        """Upsert the rows of `source`, an Arrow file (Spark: Parquet), in one commit; return the seconds."""
        request = {"warehouse": warehouse, "query": "write", "table": table, "source": source}
        return float(self._ask(request)["seconds"])

    def _ask(self, request: Mapping[str, str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended with code {self._process.wait()}")
        return dict(json.loads(answer))

    def clock(self, warehouse: str, query: str, column: str) -> float:
        return float(self.read(warehouse, query, column)["seconds"])


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m bench.peers install")
    for peer in PEERS:
        install(peer)
