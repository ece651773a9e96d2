"""One process of a race, in the environment of its engine. It commits rows one by one and reports the successes.

Called with a JSON object: engine, warehouse (of table `db.t`), storage options, number of the process, commits, rows of
each, and optionally warm (commits before the race, of rows with negative ids) and fsync (false: Morrow does not sync).
Prints ``ready``, waits for a line, then prints one JSON object per commit: the ids and the error, if any.
"""

from __future__ import annotations

import json
import os
import sys

CONFLICTS_REPEATED = 1_000


def morrow(warehouse, storage_options):
    from morrow import Catalog
    from morrow.engine.errors import CommitConflict

    table = Catalog(warehouse, storage_options=storage_options).table("db.t")

    def append(rows):
        for _ in range(CONFLICTS_REPEATED):
            try:
                return table.append(rows)
            except CommitConflict:  # nothing was committed: write again
                continue
        raise RuntimeError("always somebody else was faster")

    return append


def pypaimon(warehouse, storage_options):
    from pypaimon import CatalogFactory

    names = ("fs.s3.endpoint", "fs.s3.region", "fs.s3.accessKeyId", "fs.s3.accessKeySecret")
    catalog = CatalogFactory.create({"warehouse": warehouse, **_named(storage_options, names)})
    return _written(catalog, lambda rows: rows)


def pypaimon_rust(warehouse, storage_options):
    from pypaimon_rust.datafusion import PaimonCatalog

    names = ("s3.endpoint", "s3.region", "s3.access-key", "s3.secret-key")
    path_style = {"s3.path.style.access": "true"} if storage_options else {}
    catalog = PaimonCatalog({"warehouse": warehouse, **_named(storage_options, names), **path_style})
    return _written(catalog, lambda rows: rows.to_batches()[0])


def _written(catalog, form):
    table = catalog.get_table("db.t")

    def append(rows):
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(form(rows))
        commit.commit(write.prepare_commit())

    return append


def _named(storage_options, names):
    keys = ("aws_endpoint_url", "aws_region", "aws_access_key_id", "aws_secret_access_key")
    return {name: storage_options[key] for key, name in zip(keys, names) if key in storage_options}


ENGINES = {"morrow": morrow, "pypaimon": pypaimon, "pypaimon-rust": pypaimon_rust}


def main() -> None:
    import pyarrow as pa

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of an engine must not mix with the answers
    task = json.loads(sys.argv[1])
    if not task.get("fsync", True):
        from morrow.engine.io.local import disable_fsync

        disable_fsync().__enter__()  # until the process ends
    append = ENGINES[task["engine"]](task["warehouse"], task["storage_options"])
    for _ in range(task.get("warm", 0)):
        append(pa.table({"id": pa.array([-1 - task["process"]], pa.int64()), "name": ["warm"]}))
    print("ready", file=answers, flush=True)
    sys.stdin.readline()
    for number in range(task["commits"]):
        first = (task["process"] * task["commits"] + number) * task["rows"]
        ids = list(range(first, first + task["rows"]))
        error = None
        try:
            append(pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {i}" for i in ids]}))
        except Exception as failure:  # noqa: BLE001 - of any engine; the error is counted and the race continues
            error = f"{type(failure).__name__}: {failure}"[:300]
        print(json.dumps({"ids": ids, "error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
