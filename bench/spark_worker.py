"""A process with a Spark driver: `-m bench.spark_worker SIZE EXECUTORS ROUNDS TABLE...`; SIZE is "full" or "quick".

Runs a local cluster of Spark: executors are processes with one core and 1 GiB of heap each, and the driver has half a
GiB. For each table of `bench.tables`, it prints the seconds of Morrow and of Spark's own scan, measured in turns, by
query and reader. If ROUNDS is 0, it prints the peak resident memory of the processes of each role while Morrow reads.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

import morrow
import morrow.spark
from bench import spark as sparks
from bench import tables
from bench.compare import timed
from bench.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_HEAP, EXECUTOR_HEAP = 512, 1024
"""MiB."""
SAMPLE_SECONDS = 0.05
DRIVER, DRIVER_JVM, EXECUTORS = "driver, Python", "driver, JVM", "executors, JVM and Python workers together"
EXECUTOR = b"CoarseGrainedExecutorBackend"
"""Part of the command line of an executor."""
WARM, WARMUPS = "bigint", 2
"""The table to read before the clock starts, and how often, so that the JVM is hot."""


def processes(root: int) -> Iterator[tuple[str, int]]:
    """Return role and resident bytes of `root` and every process below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:  # it has ended
                continue
            children[int(parent)].append(int(entry.name))
    waiting = [(root, DRIVER)]
    while waiting:
        process, role = waiting.pop()
        home = Path(f"/proc/{process}")
        try:
            resident = int((home / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            line = (home / "cmdline").read_bytes()
        except OSError:
            continue
        if b"java" in line.partition(b"\0")[0]:
            role = EXECUTORS if EXECUTOR in line else DRIVER_JVM
        yield role, resident
        waiting += [(child, role) for child in children[process]]


class Sampler(threading.Thread):
    """A sampler of the peak memory of all processes of each role, within a ``with`` block."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest: Counter[str] = Counter()
        self._over = threading.Event()

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            held: Counter[str] = Counter()
            for role, resident in processes(os.getpid()):
                held[role] += resident
            self.highest |= held


def main() -> None:
    size, executors, rounds, *names = sys.argv[1:]
    found = {name: tables.make(name, quick=size == "quick") for name in (WARM, *names)}
    master = f"local-cluster[{executors},1,{EXECUTOR_HEAP}]"
    heaps = {"spark.driver.memory": f"{DRIVER_HEAP}m", "spark.executor.memory": f"{EXECUTOR_HEAP}m"}
    spark = sparks.session(master, **heaps)
    time_of(spark, found[WARM], WARMUPS)
    for name in names:
        table = found[name]
        answer = time_of(spark, table, int(rounds)) if int(rounds) else memory_of(spark, table)
        stored = sum(Path(file).stat().st_size for file in table.files)
        print(json.dumps({"table": name, "stored": stored, **answer}), flush=True)
    application = spark.sparkContext.applicationId
    spark.stop()
    # Executors of a local cluster write their logs to Spark's installation folder.
    work = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent), "work")
    shutil.rmtree(work / application, ignore_errors=True)


def time_of(spark: SparkSession, table: Table, rounds: int) -> dict[str, Any]:
    """Return the seconds of every round, by query and reader."""
    return {query: in_turns(spark, table, run, rounds) for query, run in sparks.QUERIES.items()}


def in_turns(
    spark: SparkSession, table: Table, run: Callable[[DataFrame], object], rounds: int
) -> dict[str, list[float]]:
    scan = timed(lambda: run(sparks.plain(spark, table)))
    subject = timed(lambda: run(morrow.spark.read(spark, table.path)))
    seconds: dict[str, list[float]] = {"Morrow": [], "scan": []}
    for _ in range(rounds):
        seconds["scan"].append(scan())
        morrow.clear_caches()
        seconds["Morrow"].append(subject())
    return seconds


def memory_of(spark: SparkSession, table: Table) -> dict[str, Any]:
    """Return the peak bytes of each role during all queries, by Morrow alone."""
    morrow.clear_caches()
    with Sampler() as sampler:
        for run in sparks.QUERIES.values():
            run(morrow.spark.read(spark, table.path))
    return dict(sampler.highest)


if __name__ == "__main__":
    main()
