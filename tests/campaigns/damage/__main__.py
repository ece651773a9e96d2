"""The command: ``python -m tests.campaigns.damage --count 20000 --seed 7``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from tests.campaigns.damage.campaign import PROJECT, random_jobs, replayed_jobs, run
from tests.campaigns.damage.kinds import KINDS
from tests.campaigns.damage.tables import tables
from tests.support import golden


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.damage", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many damages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="only tables with one of these in their name")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=Path, metavar="FILE", help="JSON: a list of {table, kind, file, what}")
    parser.add_argument("--findings", type=Path, metavar="FILE", help="write what was found there, to be replayed")
    arguments = parser.parse_args()
    known = tables(golden.unpack(PROJECT / ".cache"))
    if arguments.tables:
        known = {name: path for name, path in known.items() if any(part in name for part in arguments.tables)}
    started = time.monotonic()
    if arguments.replay:
        jobs = replayed_jobs(known, json.loads(arguments.replay.read_text()))
    else:
        jobs = random_jobs(known, arguments.kinds, arguments.count, arguments.seed)
    outcomes = run(jobs, arguments.workers)
    for case in outcomes.bad:
        print(json.dumps(case, ensure_ascii=False))
    print(outcomes.table())
    print(f"seed {arguments.seed}, {len(outcomes.cases)} damages in {time.monotonic() - started:.0f} s")
    if arguments.findings:
        arguments.findings.write_text(json.dumps(outcomes.bad, ensure_ascii=False, indent=1))
    return 1 if outcomes.bad else 0


if __name__ == "__main__":
    sys.exit(main())
