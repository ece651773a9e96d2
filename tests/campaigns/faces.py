"""A search for wrong results in reads of random tables through every interface, for any length of time.

    python -m tests.campaigns.faces                       # 200 tables
    python -m tests.campaigns.faces --seed 1000 --tables 5000
    python -m tests.campaigns.faces --seed 17 --tables 1  # one table again

Each table is read with three conditions in SQL, three in Polars and three in pyarrow, by scans of every form, DuckDB,
datasets, deletes and updates; see `tests.faces.looking`. Exits with 1 if any result is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from morrow.engine.io.local import disable_fsync
from tests.faces.looking import look


def main() -> int:
    parser = argparse.ArgumentParser(description="Look at random tables through every face.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--tables", type=int, default=200, help="how many (200)")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with disable_fsync(), tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.seed, asked.seed + asked.tables):
            looked = look(seed, Path(folder) / str(seed))
            counts.update({"looks": looked.looks, "wrong": len(looked.wrong), looked.kind: 1})
            for wrong in looked.wrong:
                print(f"WRONG seed {seed}, {looked.kind}: {wrong}", flush=True)
    print(f"{asked.tables} tables from seed {asked.seed} in {time.monotonic() - began:.0f} s")
    for what, count in counts.most_common():
        print(f"{count:8} {what}")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
