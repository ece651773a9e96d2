"""Compare this tree with another revision: `python -m bench.revisions REV [--quick] [--rounds N] [-k WORDS]`.

Each revision runs in its own process, in the same environment, and the two take turns. The ratio of a round compares
two successive turns. Work is reported as slower if the low end of the confidence interval of the median ratio (99 %, by
bootstrap) exceeds `TOLERATED`, and again with twice the rounds, since one of many comparisons exceeds it by chance. The
exit code is 1 if any work is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.revision_worker import KEYS, READS, UPSERT
from bench.tables import HOME, make

ROOT = Path(__file__).parent.parent
ROUNDS = 11
TOLERATED = 1.05
"""Ratios this / other up to this value are never reported."""

RESAMPLES, OUTSIDE = 4_000, 0.01

COMPOSITE = "composite"
"""The name of the table without a column `id`."""
TABLES = ("bigint", COMPOSITE, "partial_update", "aggregation", "dv10", "append", "small")
UPSERTED = ("bigint", "partial_update", "small")


@dataclass(frozen=True)
class Work:
    """An action on a table; `first` drops the caches before each turn."""

    table: str
    action: str
    first: bool

    def __str__(self) -> str:
        return f"{self.table}: {self.action}, {'first' if self.first else 'again'}"


@dataclass(frozen=True)
class Verdict:
    """Medians in seconds, and the median of the ratios this / other with its confidence interval."""

    this: float
    other: float
    ratio: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        return self.low > TOLERATED

    @property
    def is_faster(self) -> bool:
        return self.high < 1 / TOLERATED

    @classmethod
    def of(cls, this: Sequence[float], other: Sequence[float]) -> Verdict:
        """Compare the seconds of rounds; the i-th of both were measured one after the other."""
        ratios = np.array(this) / np.array(other)
        drawn = np.random.default_rng(0).choice(ratios, (RESAMPLES, len(ratios)))
        low, high = np.quantile(np.median(drawn, axis=1), [OUTSIDE / 2, 1 - OUTSIDE / 2])
        return cls(float(np.median(this)), float(np.median(other)), float(np.median(ratios)), float(low), float(high))


def works(words: str) -> list[Work]:
    """List the work whose name contains all `words`."""
    found = [Work(table, action, first) for table in TABLES for action in READS for first in (True, False)]
    found += [Work(table, KEYS, first) for table in TABLES if table != COMPOSITE for first in (True, False)]
    found += [Work(table, UPSERT, True) for table in UPSERTED]
    return [work for work in found if all(word in str(work) for word in words.split())]


def unpacked(revision: str) -> Path:
    """Return a folder with the files of a revision, extracted once.

    Raises:
        SystemExit: git does not know the revision.
    """
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        sys.exit(f"git knows no revision {revision!r}")
    folder = HOME / "revisions" / found.stdout.strip()
    if not folder.exists():
        scratch = folder.with_suffix(".part")
        scratch.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", found.stdout.strip()], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x"], cwd=scratch, input=archive.stdout, check=True)
        scratch.rename(folder)
    return folder


class Worker:
    """A process that runs work in the Morrow of `root`."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root)}
        command = [sys.executable, str(ROOT / "bench" / "revision_worker.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=root
        )
        found = self._answer()
        if Path(found) != root:
            raise RuntimeError(f"the Morrow of {found} was imported instead of that of {root}")

    def seconds(self, work: Work, path: str) -> float:
        assert self._process.stdin is not None
        print(
            json.dumps({"action": work.action, "first": work.first, "path": path}), file=self._process.stdin, flush=True
        )
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with code {self._process.wait()}")
        return str(json.loads(line))

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def workers(*roots: Path) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = [Worker(root) for root in roots]
        for worker in started:
            stack.callback(worker.close)
        yield started


def compared(this: Worker, other: Worker, work: Work, path: str, rounds: int) -> Verdict:
    """Measure the work in turns, after a warm-up round. The order changes with each round."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            taken[side].append((this, other)[side].seconds(work, path))
    return Verdict.of(taken[0][1:], taken[1][1:])


def shown(work: Work, verdict: Verdict) -> str:
    word = "slower" if verdict.is_slower else "faster" if verdict.is_faster else ""
    times = f"{verdict.other * 1000:9.1f} ms {verdict.this * 1000:9.1f} ms"
    return f"{work!s:42}{times}  {verdict.ratio:5.2f}  {verdict.low:.2f}-{verdict.high:.2f}  {word}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.revisions", description=__doc__.partition("\n")[0])
    parser.add_argument("revision", help="the other revision, as git names it")
    parser.add_argument("--quick", action="store_true", help="tables of a tenth of the size")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("-k", dest="words", default="", help="measure work with these words in its name only")
    given = parser.parse_args()
    chosen = works(given.words)
    paths = {name: make(name, quick=given.quick).path for name in {work.table for work in chosen}}
    print(f"{'':42}{given.revision[:12]:>12} {'this tree':>12}  ratio  99 %")
    slower = 0
    with workers(ROOT, unpacked(given.revision)) as (this, other):
        for work in chosen:
            verdict = compared(this, other, work, paths[work.table], given.rounds)
            if verdict.is_slower:
                verdict = compared(this, other, work, paths[work.table], 2 * given.rounds)
            slower += verdict.is_slower
            print(shown(work, verdict), flush=True)
    print(f"{slower} of {len(chosen)} slower")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
