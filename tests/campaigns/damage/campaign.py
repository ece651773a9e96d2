"""A campaign: sends jobs to worker processes and shows the outcomes by kind of file."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

from tests.campaigns.damage.kinds import KINDS, files_of

OUTCOMES = ("refused", "same", "renamed", "silent", "crash", "untyped", "slow")
"""In order: a typed error; the same rows; the same rows in renamed columns; other rows; a dead process; another error;
too much time or memory."""
GOOD = frozenset(("refused", "same"))
SMALLEST_BATCH, LARGEST_BATCH, BATCHES = 5, 50, 400
"""Damages per job, all to one kind of file of one table; a campaign has about `BATCHES` jobs."""
MOST_TRIED = 50
"""Maximum number of tables to search for a file of the kind that is read."""
PATIENCE = 120.0
"""Maximum seconds of silence before a worker counts as hanging."""
PROJECT = Path(__file__).parents[3]

Case = dict[str, Any]
Job = dict[str, Any]


@dataclass
class Outcomes:
    """All cases with their outcomes."""

    cases: list[Case] = field(default_factory=list)

    @property
    def bad(self) -> list[Case]:
        return [case for case in self.cases if case["out"] not in GOOD | KINDS[case["kind"]].tolerated]

    def table(self) -> str:
        """Format a table with a row for each kind of file and a column for each outcome."""
        counts = Counter((case["kind"], case["out"]) for case in self.cases)
        kinds = [kind for kind in KINDS if any(counts[kind, out] for out in OUTCOMES)]
        width = max(map(len, (*kinds, "kind")), default=0)
        lines = [f"{'kind':{width}} {'damages':>8} " + " ".join(f"{out:>8}" for out in OUTCOMES)]
        for kind in (*kinds, "all"):
            numbers = [sum(counts[k, out] for k in (kinds if kind == "all" else [kind])) for out in OUTCOMES]
            lines.append(f"{kind:{width}} {sum(numbers):8} " + " ".join(f"{number:8}" for number in numbers))
        return "\n".join(lines)


def random_jobs(tables: Mapping[str, Path], kinds: Sequence[str], count: int, seed: int) -> list[Job]:
    """Draw jobs with `count` damages in total, spread evenly over the kinds of files that the tables have."""
    random = Random(seed)
    batch = min(max(count // BATCHES, SMALLEST_BATCH), LARGEST_BATCH)
    having: dict[str, list[str]] = {name: [] for name in kinds}
    for table, folder in tables.items():
        files = files_of(folder)
        for name in kinds:
            if any(KINDS[name].has(folder, file) for file in files):
                having[name].append(table)
    present = [name for name in kinds if having[name]]
    jobs: list[Job] = []
    for number, name in enumerate(present):
        left = count * (number + 1) // len(present) - count * number // len(present)
        while left:
            size = min(batch, left)
            places = [(table, str(tables[table])) for table in random.sample(having[name], k=len(having[name]))]
            seeds = [random.randrange(1 << 62) for _ in range(size)]
            jobs.append({**_at(places), "kind": name, "seeds": seeds})
            left -= size
    return sorted(jobs, key=lambda job: str(job["table"]))


def _at(places: Sequence[tuple[str, str]]) -> Job:
    """Return the table of a job, and the `others` to try if no read opens such a file in it."""
    (table, folder), *others = places
    return {"table": table, "folder": folder, "others": others[:MOST_TRIED]}


def replayed_jobs(tables: Mapping[str, Path], cases: Sequence[Case]) -> list[Job]:
    """Return jobs that repeat these damages, each given by table, kind, file and damage."""
    return [
        {**case, "folder": str(tables[case["table"]]), "cases": [(case["file"], case["what"])]}
        for case in cases
        if case["table"] in tables
    ]


class Worker:
    """A worker process and its current job."""

    def __init__(self) -> None:
        environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.damage.worker"],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.job: Job | None = None
        self.begun: Case | None = None
        self.heard = time.monotonic()
        self.rest = b""

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def give(self, job: Job | None) -> None:
        """Send a job, or None if there are no more."""
        self.job = job
        assert self.process.stdin is not None
        if job is None:
            self.process.stdin.close()
            return
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def lines(self) -> list[dict[str, Any]] | None:
        """Read the lines written since the last call; return None at the end of the output."""
        data = os.read(self.output.fileno(), 1 << 16)
        self.heard = time.monotonic()
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def died(self) -> Case | None:
        """Return the case at which the process died."""
        code = self.process.wait()
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return None if self.begun is None else {**self.begun, "out": "crash", "why": why}

    def hangs(self) -> bool:
        return self.job is not None and time.monotonic() - self.heard > PATIENCE


def run(jobs: Sequence[Job], workers: int) -> Outcomes:
    """Run the jobs in `workers` processes; if one dies, another takes over the rest of its job."""
    outcomes, waiting = Outcomes(), list(reversed(jobs))
    crew = [Worker() for _ in range(min(workers, len(jobs)))]
    try:
        while crew:
            for worker in list(_speaking(crew)):
                if not _heard(worker, waiting, outcomes):
                    crew.remove(worker)
                    if waiting:
                        crew.append(Worker())
            for worker in crew:
                if worker.hangs():
                    worker.process.kill()
    except KeyboardInterrupt:
        pass  # results so far are still useful
    finally:
        for worker in crew:
            worker.process.kill()
            worker.process.wait()
    return outcomes


def _speaking(crew: Sequence[Worker]) -> Iterator[Worker]:
    ready, _, _ = select.select([worker.output for worker in crew], [], [], 1.0)
    return (worker for worker in crew if worker.output in ready)


def _heard(worker: Worker, waiting: list[Job], outcomes: Outcomes) -> bool:
    """Process a worker's output; return False if the worker has ended."""
    lines = worker.lines()
    if lines is None:
        case = worker.died()
        if case is not None:
            outcomes.cases.append(case)
            _give_back(worker, waiting)
        elif worker.job is not None:
            raise RuntimeError(f"a worker died before it damaged anything: {worker.job}")
        return False
    for line in lines:
        if "begun" in line:
            worker.begun = line["begun"]
        elif "done" in line:
            outcomes.cases.append(line["done"])
            worker.begun = None
            if worker.job is not None and "seeds" in worker.job:
                worker.job["seeds"] = worker.job["seeds"][1:]
        elif "none" in line:
            if worker.job is not None and worker.job["others"]:
                waiting.append({**worker.job, **_at(worker.job["others"])})
        else:
            worker.give(waiting.pop() if waiting else None)
    return True


def _give_back(worker: Worker, waiting: list[Job]) -> None:
    """Queue the rest of a dead worker's job, without the case that killed it."""
    job = worker.job
    if job is not None and len(job.get("seeds", ())) > 1:
        waiting.append({**job, "seeds": job["seeds"][1:]})
