"""A process that upserts ROWS rows in batches and one commit: `python -m bench.write_worker TABLE ROWS`.

Prints the peak resident memory above that of the interpreter after `import morrow`, the seconds, and the rows.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import morrow
from bench import data
from bench.memory_worker import status

BATCH = 500_000


def main() -> None:
    path, rows = sys.argv[1], int(sys.argv[2])
    resident = status("VmRSS")
    began = time.perf_counter()
    random = np.random.default_rng(3)
    # Batches interleave: each spans the whole range of keys.
    ids = np.arange(rows, dtype=np.int64)
    batches = max(rows // BATCH, 1)
    table = morrow.open(path)
    with table.writer() as writer:
        for number in range(batches):
            chosen = ids[number::batches] * 2
            random.shuffle(chosen)
            writer.write(data.rows(chosen, data.BIGINT_KEY, seed=number))
    seconds = time.perf_counter() - began
    print(json.dumps({"peak": status("VmHWM") - resident, "seconds": seconds, "rows": table.scan().count()}))


if __name__ == "__main__":
    main()
