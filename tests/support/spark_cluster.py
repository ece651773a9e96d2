"""A standalone Spark cluster on this machine, bound to loopback, with a master and workers that end together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from morrow.spark.sessions import find_java

LOOPBACK = "127.0.0.1"
MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_STARTED = re.compile(r"Successfully registered with master")
EXECUTOR_STARTED = re.compile(r"Started daemon with process name: (\d+)@")
UNVERIFIED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""JVM options that skip the verification of classes, which takes a sixth of the CPU of starting Spark."""
SHORT_LIVED = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC {UNVERIFIED}"
"""Options for a JVM that ends before optimizing its code pays off.

Without the second tier Java reserves 48 MB for code. The tests of Spark fill it, so that Java would remove code and
compile it again.
"""

START_SECONDS, POLL_SECONDS = 120, 0.05


@dataclass(frozen=True)
class Cluster:
    """A cluster; `url` is the master for sessions, and the logs of executors are below `folder`."""

    url: str
    folder: Path

    def launched(self) -> int:
        """Count the executors launched so far."""
        return len(list(self.folder.glob("work-*/app-*/*")))

    def executors(self) -> list[int]:
        """Return the process ids of executors that have started, including finished ones."""
        logs = self.folder.glob("work-*/app-*/*/stderr")
        return [int(pid) for log in sorted(logs) for pid in EXECUTOR_STARTED.findall(log.read_text())]


@contextmanager
def cluster(folder: Path, workers: int, memory: str = "1g", *, apart: bool = False) -> Iterator[Cluster]:
    """Start a cluster whose workers have one core each; `folder` takes logs and scratch files.

    `apart`: each worker has its own loopback address, so that they look like several machines to Spark (Linux).
    """
    with ExitStack() as running:

        def start(name: str, kind: str, *arguments: str, host: str = LOOPBACK) -> Path:
            log = folder / f"{name}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [_spark_class(), f"org.apache.spark.deploy.{kind}", "--host", host, *_ports(), *arguments],
                    env=_environment(folder),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # executors are started by a worker and end with its process group
                )
            running.callback(_end, process)
            return log

        url = _said(start("master", "master.Master"), MASTER_STARTED)[1]
        of_worker = ("--cores", "1", "--memory", memory)
        logs = []
        for n in range(workers):
            arguments = (*of_worker, "--work-dir", str(folder / f"work-{n}"), url)
            host = f"127.0.0.{1 + n}" if apart else LOOPBACK
            logs.append(start(f"worker-{n}", "worker.Worker", *arguments, host=host))
        for log in logs:
            _said(log, WORKER_STARTED)
        yield Cluster(url, folder)


def _spark_class() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "bin" / "spark-class"


def _ports() -> tuple[str, ...]:
    """Find free ports for the daemon and its web page."""
    return ("--port", "0", "--webui-port", "0")


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    }


def _said(log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    """Wait for a line in a log."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if found := pattern.search(log.read_text()):
            return found
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"{log.name} does not say {pattern.pattern!r} in {START_SECONDS} s:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
