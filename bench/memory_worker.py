"""Runs in a process of its own: `memory_worker.py TABLE WORK` prints how many bytes of memory the work took.

The work is "batches" (every batch of the table, one after the other) or "aggregate" (count and sum). What the
interpreter holds after `import morrow` is subtracted. `peak` is the resident set, pages of mapped files included;
`anonymous` is without those, which the system takes back when it needs them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import morrow

STATUS = Path("/proc/self/status")
SAMPLE_SECONDS = 0.01


def status(name: str) -> int:
    """Bytes of a line of /proc/self/status, where they stand as "VmHWM:  1234 kB"."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


class Sampler(threading.Thread):
    """The highest anonymous memory seen; the kernel keeps a high-water mark only of the whole."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest = 0

    def run(self) -> None:
        while True:
            self.highest = max(self.highest, status("RssAnon"))
            time.sleep(SAMPLE_SECONDS)


def batches(path: str) -> int:
    return sum(batch.num_rows for batch in morrow.open(path).scan().to_batches())


def aggregate(path: str) -> int:
    import polars as pl

    result = morrow.open(path).scan(columns=["amount"]).lazy().select(pl.len(), pl.col("amount").sum()).collect()
    return int(result["len"][0])


WORK = {"batches": batches, "aggregate": aggregate}


def main() -> None:
    path, work = sys.argv[1:]
    resident, anonymous = status("VmRSS"), status("RssAnon")
    sampler = Sampler()
    sampler.start()
    began = time.perf_counter()
    rows = WORK[work](path)
    answer = {
        "rows": rows,
        "seconds": time.perf_counter() - began,
        "peak": status("VmHWM") - resident,
        "anonymous": max(sampler.highest, status("RssAnon")) - anonymous,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
