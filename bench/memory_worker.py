"""A process that prints the memory of one task in bytes: `python -m bench.memory_worker TABLE WORK [LIMIT BYTES]`.

The task is one of `WORK`. The memory of the interpreter after `import morrow` is subtracted. `peak` is the resident
set, including pages of mapped files; `anonymous` excludes them, since the system can reclaim them. LIMIT is "data"
(RLIMIT_DATA: writable memory) or "as" (RLIMIT_AS: all mapped memory, including files), and applies from the start.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")
SAMPLE_SECONDS = 0.01
LIMITS = {"data": resource.RLIMIT_DATA, "as": resource.RLIMIT_AS}
UPSERTED = 1_000_000


def status(name: str) -> int:
    """Return the bytes of a line of /proc/self/status, such as "VmHWM:  1234 kB"."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


class Sampler(threading.Thread):
    """A sampler of the highest anonymous memory, since the kernel's high-water mark includes mapped files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(SAMPLE_SECONDS):
            self.highest = max(self.highest, status("RssAnon"))


Answer = dict[str, int]


def batches(path: str) -> Answer:
    import morrow

    rows = largest = 0
    for batch in morrow.open(path).scan().to_batches():
        rows += batch.num_rows
        largest += batch.nbytes
    return {"rows": rows, "bytes": largest}


def arrow(path: str) -> Answer:
    import morrow

    table = morrow.open(path).scan().to_arrow()
    return {"rows": table.num_rows, "bytes": table.nbytes}


def polars(path: str) -> Answer:
    import morrow

    frame = morrow.open(path).scan().to_polars()
    return {"rows": frame.height, "bytes": int(frame.estimated_size())}


def aggregate(path: str) -> Answer:
    import polars as pl

    import morrow

    result = morrow.open(path).scan(columns=["amount"]).lazy().select(pl.len(), pl.col("amount").sum()).collect()
    return {"rows": int(result["len"][0])}


def upsert(path: str) -> Answer:
    """Update a million keys spread over the table, in batches as from a stream."""
    import numpy as np

    import morrow
    from bench import data

    table = morrow.open(path)
    pieces = 10
    with table.writer() as writer:
        for number in range(pieces):
            ids = np.arange(number, UPSERTED, pieces, dtype=np.int64) * 2
            writer.write(data.rows(ids, data.BIGINT_KEY, seed=number))
    return {"rows": UPSERTED}


def compact(path: str) -> Answer:
    import morrow

    table = morrow.open(path)
    table.compact(full=True)
    return {"rows": table.scan().count()}


WORK: dict[str, Callable[[str], Answer]] = {
    "batches": batches,
    "arrow": arrow,
    "polars": polars,
    "aggregate": aggregate,
    "upsert": upsert,
    "compact": compact,
}


def main() -> None:
    path, work, *limit = sys.argv[1:]
    if limit:
        resource.setrlimit(LIMITS[limit[0]], (int(limit[1]), int(limit[1])))
    import morrow  # noqa: F401 - its imports are not part of the task

    resident, anonymous = status("VmRSS"), status("RssAnon")
    sampler = Sampler()
    sampler.start()
    began = time.perf_counter()
    answer = WORK[work](path)
    found = {
        **answer,
        "seconds": time.perf_counter() - began,
        "peak": status("VmHWM") - resident,
        "anonymous": max(sampler.highest, status("RssAnon")) - anonymous,
        "space": status("VmPeak"),
    }
    sampler.stopped.set()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
