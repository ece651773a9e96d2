"""A driver in a process of its own: `-m bench.spark_worker SIZE EXECUTORS ROUNDS TABLE...`; SIZE is "full" or "quick".

Executors are processes of their own with one core and 1 GiB of heap each, the driver has half a GiB: what Spark calls a
local cluster. For each table of `bench.tables` it prints the seconds of Morrow and of Spark's own scan, in turns, and
the peak resident memory of the processes of each role while Morrow reads.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import morrow
import morrow.spark
from bench import spark as sparks
from bench import tables
from bench.compare import timed
from bench.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_HEAP, EXECUTOR_HEAP = 512, 1024
"""MiB."""
SAMPLE_SECONDS = 0.05
DRIVER, DRIVER_JVM, EXECUTORS = "driver, Python", "driver, JVM", "executors, JVM and Python workers together"
EXECUTOR = b"CoarseGrainedExecutorBackend"
"""In the command line of an executor."""
WARM, WARMUPS = "bigint", 3
"""What is read before the clock starts: a hot JVM is measured."""
Readers = dict[str, list[float]]


def processes(root: int) -> Iterator[tuple[str, int]]:
    """Role and resident bytes of every process under `root`, that one included."""
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
    """The most that the processes of each role have held together, while it is `on`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.on = threading.Event()
        self.highest: Counter[str] = Counter()

    def run(self) -> None:
        while True:
            self.on.wait()
            held: Counter[str] = Counter()
            for role, resident in processes(os.getpid()):
                held[role] += resident
            self.highest |= held
            threading.Event().wait(SAMPLE_SECONDS)


def main() -> None:
    size, executors, rounds, *names = sys.argv[1:]
    found = {name: tables.make(name, quick=size == "quick") for name in (WARM, *names)}
    master = f"local-cluster[{executors},1,{EXECUTOR_HEAP}]"
    heaps = {"spark.driver.memory": f"{DRIVER_HEAP}m", "spark.executor.memory": f"{EXECUTOR_HEAP}m"}
    spark = sparks.session(master, **heaps)
    sampler = Sampler()
    sampler.start()
    measured(spark, found[WARM], WARMUPS, sampler)
    for name in names:
        sampler.highest.clear()
        seconds = measured(spark, found[name], int(rounds), sampler)
        print(json.dumps({"table": name, "seconds": seconds, "memory": sampler.highest}), flush=True)
    spark.stop()


def measured(spark: SparkSession, table: Table, rounds: int, sampler: Sampler) -> dict[str, Readers]:
    """Seconds of every round, by query and reader."""
    seconds: dict[str, Readers] = {}
    for query, run in sparks.QUERIES.items():
        limit = timed(lambda run=run: run(sparks.plain(spark, table)))  # type: ignore[misc]  # of this turn of the loop
        subject = timed(lambda run=run: run(morrow.spark.read(spark, table.path)))  # type: ignore[misc]  # likewise
        seconds[query] = {"Morrow": [], "scan": []}
        for _ in range(rounds):
            seconds[query]["scan"].append(limit())
            morrow.clear_caches()
            sampler.on.set()
            seconds[query]["Morrow"].append(subject())
            sampler.on.clear()
    return seconds


if __name__ == "__main__":
    main()
