"""Writes with injected failures, the second part of `cluster_driver`.

It kills its own process when the files of its last write exist but are not committed. The folder ``attempts`` records
the attempts of tasks.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.spark import write
from morrow.spark.job import execution
from morrow.spark.job.tasks import Tasks, Work
from morrow.spark.writing import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, KEYS = 200, 50
LONGER_THAN_THE_TEST = 600


@dataclass(frozen=True)
class Troubled:
    """A write task with an injected failure after it has written its files and before it reports them."""

    tasks: Tasks
    name: str
    trouble: Callable[[int, int], None]
    attempts: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        result = list(self.tasks(batches))
        self.trouble(context.partitionId(), self._attempt(context.partitionId()))
        yield from result

    def _attempt(self, task: int) -> int:
        """Count the earlier attempts of this task that got this far, and record this one in the folder."""
        for attempt in count():
            with suppress(FileExistsError):
                (self.attempts / f"{self.name} {task}.{attempt}").touch(exist_ok=False)
                return attempt
        raise AssertionError


def fails_then_dies(_task: int, attempt: int) -> None:
    """Let each task fail once, then kill its process once, then succeed."""
    if attempt == 0:
        raise OSError("failed once")
    if attempt == 1:
        os._exit(1)


def is_slow(task: int, attempt: int) -> None:
    """Let the first attempt of a task run forever."""
    if (task, attempt) == (0, 0):
        time.sleep(LONGER_THAN_THE_TEST)


def kills_executor(task: int, attempt: int) -> None:
    """Kill the executor, which is the parent of the daemon from which workers are forked."""
    if (task, attempt) == (0, 0):
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(daemon[1]), signal.SIGKILL)


def no_trouble(_task: int, _attempt: int) -> None: ...


CASES: dict[str, tuple[str, Callable[[int, int], None], str]] = {
    "append": ("append", fails_then_dies, "id % 50"),
    "vectors": ("vectors", fails_then_dies, "id % 50"),
    "slow": ("slow", is_slow, "id % 50"),
    "lost": ("lost", kills_executor, "CAST(rand() * 50 AS BIGINT)"),
}
"""Maps names to the table, the failure, and a column; the last column changes with each recomputation."""


def run_until_killed(spark: SparkSession, folder: Path) -> None:
    for name, (table, trouble, column) in CASES.items():
        update(spark, folder, name, folder / "db.db" / table, trouble, column)
    job.commit_messages = killed
    update(spark, folder, "driver", folder / "db.db" / "driver", no_trouble, "id % 50")


def update(
    spark: SparkSession, folder: Path, name: str, table: Path, trouble: Callable[..., None], column: str
) -> None:
    """Write the keys 0 to 199 as commit 1 of "loader"."""

    def troubled(work: Work, shared: object) -> Troubled | Tasks:
        tasks = Tasks.of(work, shared)
        return Troubled(tasks, name, trouble, folder / "attempts") if work is Work.WRITE else tasks

    execution.Tasks = SimpleNamespace(of=troubled)  # type: ignore[misc, assignment]  # injects the failure
    rows = spark.range(0, ROWS, numPartitions=2).selectExpr("id", f"{column} AS v")
    write(rows, table, commit_user="loader", commit_identifier=1)


def killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
