"""Run the week, or some days of it: ``python -m examples.week [--rows N] [monday tuesday ...]``."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from examples.week import friday, monday, thursday, tuesday, wednesday

DAYS = {
    "monday": monday.run,
    "tuesday": tuesday.run,
    "wednesday": wednesday.run,
    "thursday": thursday.run,
    "friday": friday.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of orders")
    parser.add_argument("--warehouse", type=Path, help="a folder that is kept; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="morrow-week-") as folder:
        warehouse = arguments.warehouse or Path(folder)
        for name, run in DAYS.items():
            print(f"== {name}")
            started = time.perf_counter()
            run(warehouse, arguments.rows)
            print(f"   {time.perf_counter() - started:.1f} s\n")


if __name__ == "__main__":
    main()
