"""Memory of reads and writes of tables larger than memory: ``python -m bench.memory``.

Each task runs in its own process: a read in batches, a full read, an aggregate, and, on a copy, an upsert and a
compaction. ``--cap MB`` limits the memory that the process may map (RLIMIT_AS, which includes libraries, mapped files
and reserved but unused addresses). With ``--data`` it limits writable memory (RLIMIT_DATA):

    python -m bench.memory --rows 180 --cap 1250 --work batches aggregate upsert compact

Tasks that need more memory end with an error, which is printed. Without the settings below, libraries reserve 3 GB of
addresses for a stream that uses 0.3 GB, so a cap would not be informative. Results on a busy machine with two cores;
for 100 million rows, the caps were 800 MB for reads and 1,000 MB for the compaction:

    rows          work            peak    of that, not mapped files    most addresses under RLIMIT_AS
    100 million   batches         281 MB  200 MB                       753 MB (7.2 GB of rows in Arrow)
    100 million   aggregate       284 MB  204 MB                       728 MB
    100 million   upsert          585 MB  490 MB                       1,147 MB
    100 million   compact         482 MB  390 MB                       1,000 MB
    180 million   batches         310 MB  229 MB                       808 MB (13.0 GB of rows in Arrow)
    180 million   aggregate       319 MB  238 MB                       748 MB
    180 million   upsert          590 MB  493 MB                       1,176 MB
    180 million   compact         485 MB  390 MB                       1,014 MB

Each peak includes 138 MB for Polars and pyarrow themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import tables
from morrow.engine.structs import replace

PROJECT = Path(__file__).parents[1]
WORKER = "bench.memory_worker"
MILLION, MEGABYTE = 10**6, 10**6
READS, WRITES = ("batches", "aggregate", "arrow", "polars"), ("upsert", "compact")
STACK = 1 << 20
SETTINGS = {
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "_RJEM_MALLOC_CONF": "narenas:2,dirty_decay_ms:0,muzzy_decay_ms:0,background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Settings with a cap: allocators reserve little and release memory at once, and threads have small stacks."""
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", "TMPDIR")
"""The variables that a process inherits, without the cache folder, which would contain measured metadata."""


def made(millions: int) -> Path:
    """Return a merge-on-read table of `millions` million rows with five updates of 5 %, written on first use."""
    path = tables.HOME / "memory" / f"merged_{millions}" / "db.db" / "t"
    if not (path / "done").exists():
        shutil.rmtree(path, ignore_errors=True)
        spec = tables.Spec(rows=millions * MILLION, files=millions, updates=5, update_rows=millions * MILLION // 20)
        tables.write(replace(spec), path)
        (path / "done").touch()
    return path


def measured(path: Path, work: str, limit: list[str]) -> str:
    """Run one task; return a line with its memory and time."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"MORROW_CACHE": "off", **(SETTINGS if limit else {})}
    command = [sys.executable, "-m", WORKER, str(path.absolute()), work, *limit]
    # The stack size of threads is the limit at the start of the process.
    stacks = ["prlimit", f"--stack={STACK}"] if limit else []
    done = subprocess.run([*stacks, *command], capture_output=True, text=True, env=environment, cwd=PROJECT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
        return f"{work:10} failed: {last[:160]}"
    found = json.loads(done.stdout)
    result = f", its rows are {found['bytes'] / MEGABYTE:,.0f} MB" if "bytes" in found else ""
    sizes = " ".join(f"{name} {found[name] / MEGABYTE:,.0f} MB" for name in ("peak", "anonymous", "space"))
    return f"{work:10} {found['rows']:,} rows in {found['seconds']:.1f} s: {sizes}{result}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20, help="of the table, in millions")
    parser.add_argument("--cap", type=int, help="megabytes that a process may hold")
    parser.add_argument("--data", action="store_true", help="cap what may be written to, not the address space")
    parser.add_argument("--work", nargs="+", choices=[*READS, *WRITES], default=[*READS, *WRITES])
    given = parser.parse_args()
    limit = [] if given.cap is None else ["data" if given.data else "as", str(given.cap * MEGABYTE)]
    path = made(given.rows)
    for work in given.work:
        if work in WRITES:
            copy = path.parents[1] / "copy" / "db.db" / "t"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            print(measured(copy, work, limit), flush=True)
            shutil.rmtree(copy)
        else:
            print(measured(path, work, limit), flush=True)


if __name__ == "__main__":
    main()
