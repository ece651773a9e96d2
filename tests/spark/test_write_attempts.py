"""Tasks that fail and processes that die: each row is written once, and nothing else stays.

Spark's own retries need a session of their own: ``local[2]`` gives a task one chance.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import morrow
from tests.support.written import data_files, new_table
from tests.support.written import rows as rows_of

ROOT = Path(__file__).parents[2]

PROGRAM = """
import dataclasses, os, sys
from morrow.spark.sessions import session
from morrow.spark.writing import write
from morrow.writers.spark import job
from morrow.writers.spark.tasks import WriteTasks

@dataclasses.dataclass(frozen=True)
class Troubled:
    job: bytes
    def __call__(self, batches):
        from pyspark import TaskContext
        result = list(WriteTasks(self.job)(batches))
        attempt = TaskContext.get().attemptNumber()
        if attempt == 0:
            raise OSError("failed once")
        if attempt == 1:
            os._exit(1)
        yield from result

def upstream(batches):
    from pyspark import TaskContext
    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise OSError("failed upstream")

settings = {"ui.enabled": False, "driver.memory": "512m", "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1"}
spark = session("attempts", "local[2, 4]", **{f"spark.{name}": value for name, value in settings.items()})
spark.sparkContext.setLogLevel("OFF")
job.WriteTasks = Troubled
for path in sys.argv[1:]:
    rows = spark.range(0, 200, numPartitions=2).selectExpr("id", "id % 50 AS v").mapInArrow(upstream, "id long, v long")
    write(rows, path, commit_user="loader", commit_identifier=1)
spark.stop()
"""


def test_tasks_that_fail_and_executors_that_die(tmp_path: Path) -> None:
    """Each task fails after its files are written, then its process dies, then it is done."""
    kinds = {
        "append": ([], {"manifest.compression": "none"}),
        "vectors": (["id"], {"manifest.compression": "none", "bucket": 2, "deletion-vectors.enabled": True}),
    }
    tables = [
        new_table(tmp_path, "id BIGINT, v BIGINT", keys=keys, options=options, name=name)
        for name, (keys, options) in kinds.items()
    ]
    tables[1].append({"id": [0, 1], "v": [-1, -1]})
    subprocess.run([sys.executable, "-c", PROGRAM, *(table.path for table in tables)], cwd=ROOT, check=True)
    for table in tables:
        assert rows_of(table) == [(i, i % 50) for i in range(200)]
        assert strays(table) == set()
        table.compact(full=True)
        assert rows_of(table) == [(i, i % 50) for i in range(200)]


def strays(table: morrow.Table) -> set[str]:
    """Files of data and indexes, and of the writes themselves, that no commit has ever named."""
    manifests = b"".join(path.read_bytes() for path in (Path(table.path) / "manifest").iterdir())
    names = {path.name for path in data_files(Path(table.path)) if path.parent.name not in ("manifest", "snapshot")}
    return {name for name in names if name.encode() not in manifests}
