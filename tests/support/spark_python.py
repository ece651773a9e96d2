"""Python processes of Spark that are forked from one with all imports: ``python -m tests.support.spark_python SOCKET``.

Spark starts a Python for each streaming query, for each kind of question to a data source and after each failed task.
Each imports PySpark from a zip file, Arrow, Polars and Morrow, which takes 2 to 4 seconds of CPU; a fork takes 0.05.
`test_cluster` and `test_pipeline` have processes of their own, and `job/test_imports.py` imports each module of tasks
first in a new process.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from morrow.spark.job.tasks import MIN_THREADS

VARIABLE = "MORROW_TESTS_PYTHON"
START = Path(__file__).parent / "warm"
ROOT = Path(__file__).parents[2]
LIBRARIES = ("pandas", "polars", "pyarrow.dataset", "pyarrow.parquet", "pyspark.worker")
PLANNERS = tuple(
    f"pyspark.sql.worker.{name}"
    for name in (
        "commit_data_source_write",
        "create_data_source",
        "data_source_pushdown_filters",
        "lookup_data_sources",
        "plan_data_source_read",
        "write_into_data_source",
    )
)
STREAMS = tuple(f"pyspark.sql.streaming.{name}" for name in ("python_streaming_source_runner", "datasource"))


@contextmanager
def forked_pythons() -> Iterator[dict[str, str]]:
    """Start the server, and yield the variables for the environment of the JVM."""
    with tempfile.TemporaryDirectory(prefix="morrow-python-") as folder:
        path = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(64)  # processes may ask before the imports are done
            command = [sys.executable, "-W", "ignore", "-m", "tests.support.spark_python", str(listening.fileno())]
            server = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, pass_fds=[listening.fileno()])
        try:
            paths = filter(None, (str(START), os.environ.get("PYTHONPATH")))
            yield {VARIABLE: path, "PYTHONPATH": os.pathsep.join(paths)}
        finally:
            server.communicate()


def main(listening: socket.socket) -> None:
    """Fork a process for each connection, until the tests have ended."""
    os.environ["POLARS_MAX_THREADS"] = str(MIN_THREADS)  # as tasks do before they import Polars
    import_all()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            attend(connection)
        connection.close()


def import_all() -> None:
    import morrow.spark

    modules = pkgutil.walk_packages(morrow.spark.__path__, "morrow.spark.")
    for name in (*LIBRARIES, *PLANNERS, *STREAMS, *(module.name for module in modules)):
        with suppress(ImportError):  # needs a newer PySpark
            import_module(name)


def attend(connection: socket.socket) -> None:
    """Fork the process that was asked for, and report its exit code; end it if the one that asked has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    told = b""
    while len(told) < int.from_bytes(size, "big"):
        told += connection.recv(1 << 16)
    child = os.fork()
    if child == 0:
        connection.close()
        run(*json.loads(told), files)
    for file in files:
        os.close(file)

    def wait() -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(OSError):  # the one that asked may have ended
            connection.sendall(bytes([code if code >= 0 else 128 - code]))
        os._exit(0)

    waiting = threading.Thread(target=wait)
    waiting.start()
    connection.recv(1)
    os.kill(child, signal.SIGTERM)
    waiting.join()


def run(arguments: list[str], environment: dict[str, str], folder: str, files: list[int]) -> None:
    """Run a module as ``python -m`` does."""
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path and "pyspark" not in path]
    sys.argv = arguments
    sys.modules.pop(arguments[0], None)
    code = 1
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
