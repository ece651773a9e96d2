"""The command: ``python -m tests.campaigns.peers .../paimon-python --python .../bin/python``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from morrow.engine.io.local import disable_fsync
from tests.campaigns.peers.answering import OUTCOMES, REFUSED, WRONG, Case, reasons, table_of
from tests.campaigns.peers.suite import PATTERNS, FileRun, files_of, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.peers", description=__doc__)
    parser.add_argument("suite", type=Path, help="the folder paimon-python of Paimon's sources, of pypaimon's version")
    parser.add_argument(
        "--python", default=os.environ.get("PEER_PYTHON"), help="of pypaimon's environment (PEER_PYTHON)"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATTERN", default=PATTERNS, help="names of the test files")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds that one file may take")
    parser.add_argument("--reasons", nargs="+", choices=OUTCOMES, default=[REFUSED], help="list why, by outcome")
    parser.add_argument("--record", type=Path, help="JSON lines of the files that ended; a next run does the others")
    asked = parser.parse_args()
    if asked.python is None:
        parser.error("name a Python with pypaimon and pytest: --python or PEER_PYTHON")
    files, began = files_of(asked.suite, asked.tests), time.monotonic()
    ran = {each.file: each for each in _recorded(asked.record)}
    left = [file for file in files if str(file) not in ran]
    with disable_fsync():
        for each in run(asked.suite.resolve(), asked.python, left, workers=asked.workers, patience=asked.patience):
            ran[each.file] = each
            _record(asked.record, each)
            counts = Counter(case.outcome for case in each.cases)
            print(f"{each.file} {each.ended}: " + ", ".join(f"{n} {o}" for o, n in counts.items()), flush=True)
            for case in each.cases:
                if case.outcome == WRONG:
                    print(f"WRONG {case.operation} {case.test}: {case.error} {case.text}", flush=True)
    whole = [ran[str(file)] for file in files]
    ended, cases = Counter(each.ended for each in whole), [case for each in whole for case in each.cases]
    for outcome in asked.reasons:
        for reason, count in reasons(cases, outcome):
            print(f"{count:6} {outcome}: {reason}")
    print(table_of(cases))
    print("refused: " + ", ".join(f"{error} {count}" for error, count in _errors(cases).most_common()))
    print(
        f"{len(files)} files in {time.monotonic() - began:.0f} s: "
        + ", ".join(f"{n} {how}" for how, n in ended.items())
    )
    return int(any(case.outcome == WRONG for case in cases))


def _recorded(record: Path | None) -> list[FileRun]:
    """Read the files that an earlier run has done."""
    lines = record.read_text().splitlines() if record and record.exists() else []
    return [msgspec.json.decode(line, type=FileRun) for line in lines]


def _record(record: Path | None, ran: FileRun) -> None:
    if record:
        with record.open("ab") as file:
            file.write(msgspec.json.encode(ran) + b"\n")


def _errors(cases: list[Case]) -> Counter[str]:
    return Counter(case.error for case in cases if case.outcome == REFUSED)


if __name__ == "__main__":
    sys.exit(main())
