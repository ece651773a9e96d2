"""A search for histories that are not serializable, for any length of time.

    python -m tests.campaigns.isolation                 # of each kind of table 200 schedules and a race of 10 s
    python -m tests.campaigns.isolation --schedules 5000 --seconds 60 --s3
    python -m tests.campaigns.isolation --kind vectors --seed 17 --schedules 1 --seconds 0   # one again

Schedules interleave threads in an order that depends only on the seed; races run processes and threads freely. See
`tests.isolation.history` for the checks. Exits with 1 if a violation was found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from morrow.engine.io.local import disable_fsync
from tests.isolation.history import History, anomalies
from tests.isolation.kinds import KINDS
from tests.isolation.racing import race
from tests.isolation.schedules import play
from tests.support.s3_server import BUCKET, s3_server


@dataclass
class Tally:
    """Counts of histories, operations and violations."""

    answers: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    histories: int = 0
    wrong: int = 0

    def add(self, name: str, history: History) -> None:
        self.histories += 1
        self.answers.update(did.answer for did in history.did)
        self.reads += len(history.saw)
        if found := anomalies(history):
            self.wrong += 1
            print(f"WRONG {name}\n  " + "\n  ".join(found), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Look for histories that are not serializable.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="kinds of tables (all)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--schedules", type=int, default=200, help="schedules of each kind (200)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a race lasts (10); 0: no races")
    parser.add_argument("--processes", type=int, default=3, help="of a race, with two threads each (3)")
    parser.add_argument("--s3", action="store_true", help="also race in an object store on the loopback")
    asked = parser.parse_args()
    print(
        f"{'table':24}{'how':12}{'histories':>10}{'committed':>10}{'nothing':>9}{'refused':>9}{'reads':>8}{'wrong':>7}"
    )
    wrong = 0
    for name in asked.kind or KINDS:
        for how, tally in _played(name, asked):
            a = tally.answers
            counts = f"{a['committed']:10}{a['nothing']:9}{a['refused']:9}{tally.reads:8}{tally.wrong:7}"
            print(f"{name:24}{how:12}{tally.histories:10}{counts}", flush=True)
            wrong += tally.wrong
    return int(wrong > 0)


def _played(name: str, asked: argparse.Namespace) -> Iterator[tuple[str, Tally]]:
    if asked.schedules:
        tally = Tally()
        with disable_fsync(), _folder() as folder:
            KINDS[name].create(str(folder / "template"), asked.seed)
            for seed in range(asked.seed, asked.seed + asked.schedules):
                tally.add(f"{name}, schedule {seed}", play(name, seed, folder / "template", folder / str(seed)))
        yield "schedules", tally
    if not asked.seconds:
        return
    tally = Tally()
    with _folder() as folder:
        played = race(name, str(folder), asked.seed, processes=asked.processes, seconds=asked.seconds)
        tally.add(f"{name}, race", played)
    yield "race", tally
    if asked.s3:
        tally = Tally()
        with s3_server() as storage:
            where = f"s3://{BUCKET}/{time.time_ns()}"
            played = race(
                name, where, asked.seed, processes=asked.processes, seconds=asked.seconds, storage_options=storage
            )
            tally.add(f"{name}, race in S3", played)
        yield "race in S3", tally


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
