"""A process of one revision of Morrow: it reads a request per line and writes the seconds of its work.

A request names an action of `ACTIONS`, the folder of a table, and whether to drop caches first. The actions use only
methods that every revision has.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

import morrow

UPSERTED_ROWS = 100_000


def full(path: str) -> Callable[[], object]:
    return lambda: morrow.open(path).scan().to_polars()


def total(path: str) -> Callable[[], object]:
    scan = morrow.open(path).scan(columns=["amount"])
    return lambda: scan.lazy().select(pl.len(), pl.col("amount").sum()).collect()


def keys(path: str) -> Callable[[], object]:
    return lambda: morrow.open(path).scan(filter="id BETWEEN 1000 AND 2000").to_polars()


def upsert(path: str) -> Callable[[], object]:
    """Copy the table, and return a function that upserts existing rows into the copy."""
    copy = Path(tempfile.mkdtemp()) / "warehouse" / "db.db" / "t"
    shutil.copytree(path, copy)
    table = morrow.open(copy)
    rows = table.scan(limit=UPSERTED_ROWS).to_arrow()

    def work() -> None:
        table.upsert(rows)
        shutil.rmtree(copy.parents[2])

    return work


READS = {"full": full, "count and sum": total}
KEYS, UPSERT = "1,000 keys", "upsert"
ACTIONS = {**READS, KEYS: keys, UPSERT: upsert}
"""Name -> a function that prepares the work on a table. The preparation is not measured."""


def main() -> None:
    print(json.dumps(str(Path(morrow.__file__).parent.parent)), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["first"]:
            morrow.clear_caches()
        work = ACTIONS[request["action"]](request["path"])
        began = time.perf_counter()
        work()
        print(json.dumps(time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    main()
