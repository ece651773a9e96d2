"""Races of processes that commit to one table at the same time, to find lost acknowledged commits.

    python -m bench.races morrow pypaimon pypaimon-rust [--store s3] [--processes 8] [--commits 50]

Each engine writes to its own append table, which Morrow creates before and reads after the race. The S3 server runs on
the loopback (`tests.support.s3_server`). Peers need their environments: `make bench-peers`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import morrow
from bench import peers
from bench.race_worker import ENGINES

WORKER = Path(__file__).with_name("race_worker.py")
PROCESSES, COMMITS, ROWS = 8, 50, 2
SECONDS = 600
"""Timeout of a race."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one race."""

    engine: str
    seconds: float
    acknowledged: int
    """Number of commits that the engine reported as successful."""
    refused: Mapping[str, int]
    """Class of error -> number of commits that the engine reported as failed or unclear."""
    snapshots: tuple[int, ...]
    lost: frozenset[int]
    """Ids of acknowledged rows that are missing in the table."""
    twice: frozenset[int]
    """Ids of rows that are in the table more than once."""

    @property
    def contiguous(self) -> bool:
        return self.snapshots == tuple(range(1, len(self.snapshots) + 1))

    def __str__(self) -> str:
        errors = ", ".join(f"{count} {name}" for name, count in self.refused.items()) or "none"
        return (
            f"{self.engine}: {self.acknowledged} commits acknowledged in {self.seconds:.1f} s, "
            f"{len(self.snapshots)} snapshots, {len(self.lost)} rows lost, {len(self.twice)} twice; errors: {errors}"
        )


def race(
    engine: str,
    warehouse: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    processes: int = PROCESSES,
    commits: int = COMMITS,
    options: Mapping[str, object] | None = None,
    warm: int = 0,
    fsync: bool = True,
) -> Outcome:
    """Run `processes` processes of `engine`, each with `commits` commits to a new table `db.t` of a warehouse.

    `warm` is the number of commits of each process before the race, of rows with negative ids. Without `fsync`, Morrow
        does not sync.
    """
    catalog = morrow.Catalog(warehouse, storage_options=storage_options)
    table = catalog.create_table("db.t", schema="id BIGINT, name STRING", options={"bucket": "-1", **(options or {})})
    where = {"warehouse": warehouse, "storage_options": dict(storage_options or {})}
    task = {"engine": engine, "warm": warm, "fsync": fsync, **where}
    with _running(
        [{**task, "process": number, "commits": commits, "rows": ROWS} for number in range(processes)]
    ) as racers:
        for racer in racers:
            assert racer.stdout is not None
            if racer.stdout.readline() != "ready\n":
                raise RuntimeError(f"a process of {engine} ended with code {racer.wait()} before the race")
        began = time.perf_counter()
        for racer in racers:
            print("go", file=racer.stdin, flush=True)
        said = [line for racer in racers for line in racer.communicate(timeout=SECONDS)[0].splitlines()]
        seconds = time.perf_counter() - began
    answers = [json.loads(line) for line in said]
    acknowledged = [answer for answer in answers if answer["error"] is None]
    there = Counter(table.scan(columns=["id"]).to_arrow().column("id").to_pylist())
    return Outcome(
        engine,
        seconds,
        len(acknowledged),
        Counter(answer["error"].partition(":")[0] for answer in answers if answer["error"] is not None),
        tuple(snapshot.id for snapshot in table.snapshots()),
        frozenset(i for answer in acknowledged for i in answer["ids"]) - there.keys(),
        frozenset(i for i, count in there.items() if count > 1 and i >= 0),
    )


@contextmanager
def _running(tasks: Sequence[Mapping[str, object]]) -> Iterator[list[subprocess.Popen[str]]]:
    racers: list[subprocess.Popen[str]] = []
    try:
        for task in tasks:
            name = str(task["engine"])
            python = sys.executable if name == "morrow" else str(peers.interpreter(name))
            command = [python, str(WORKER), json.dumps(task)]
            root = WORKER.parents[1] if name == "morrow" else None
            racers.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if name == "morrow" else subprocess.DEVNULL,
                    text=True,
                    cwd=root,
                )
            )
        yield racers
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Race processes that commit to one table.")
    parser.add_argument("engines", nargs="+", choices=[*ENGINES])
    parser.add_argument("--store", choices=["local", "s3"], default="local")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--commits", type=int, default=COMMITS)
    asked = parser.parse_args()
    for engine in asked.engines:
        with tempfile.TemporaryDirectory() as folder:
            if asked.store == "local":
                print(race(engine, folder, processes=asked.processes, commits=asked.commits), flush=True)
                continue
            from tests.support.s3_server import BUCKET, s3_server

            with s3_server() as storage:
                warehouse = f"s3://{BUCKET}/wh"
                print(race(engine, warehouse, storage, processes=asked.processes, commits=asked.commits), flush=True)


if __name__ == "__main__":
    main()
