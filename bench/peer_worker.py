"""Runs inside a peer's environment: a request a line in, `{"seconds", "rows", "sum"}` a line out.

`sum` is None for a full read. Every peer is driven as its documentation shows, and keeps what it keeps between reads.
"""

from __future__ import annotations

import json
import os
import sys
import time


def pypaimon(warehouse, query, column):
    import pyarrow.compute as pc
    from pypaimon import CatalogFactory

    builder = CatalogFactory.create({"warehouse": warehouse}).get_table("db.t").new_read_builder()
    if query == "sum":
        builder = builder.with_projection([column])
    data = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return data.num_rows, pc.sum(data[column]).as_py() if query == "sum" else None


def pypaimon_rust(warehouse, query, column):
    if query == "sum":
        return _rust_sql(warehouse, column)
    from pypaimon_rust.datafusion import PaimonCatalog

    builder = PaimonCatalog({"warehouse": warehouse}).get_table("db.t").new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return sum(batch.num_rows for batch in batches), None


def _rust_sql(warehouse, column):
    from pypaimon_rust.datafusion import SQLContext

    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse}, "db")
    (batch,) = context.sql(f'SELECT count(*) AS n, sum("{column}") AS total FROM paimon.db.t')
    return batch["n"][0].as_py(), batch["total"][0].as_py()


READERS = {"pypaimon": pypaimon, "pypaimon-rust": pypaimon_rust}


def main() -> None:
    read = READERS[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints must not mix with the answers
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        rows, total = read(request["warehouse"], request["query"], request["column"])
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "rows": rows, "sum": total}), file=answers, flush=True)


if __name__ == "__main__":
    main()
