"""Expiry, orphans and tags of a table with 100,000 files in an object store: requests, seconds and CPU.

    python -m bench.listing                          100,000 files in 100 partitions
    python -m bench.listing --files 20000            compare with the above to find quadratic work

The server (`tests.support.s3_server`) runs on the loopback, in memory, in its own process. Data files are empty
objects, metadata are real. The newest snapshot replaces a tenth of the files, so that expiry deletes the old ones. One
object in a hundred is an orphan.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import polars as pl

import morrow
from bench.planning import SCHEMA, fill
from morrow.engine.format.manifest import DELETE
from morrow.engine.plan.manifests import list_manifests, read_manifest_entries
from morrow.engine.structs import replace
from morrow.writers.commit.committer import SnapshotLog
from morrow.writers.commit.manifests import ManifestWriter
from tests.support.s3_server import BUCKET, running

FILES, PARTITIONS = 100_000, 100
REPLACED, ORPHANS = 10, 100
"""The newest snapshot replaces every 10th file, and there is one orphan for every 100 files."""


def serve(pipe: Connection) -> None:
    """Run the server. Answers with its options and request counts, and stores empty objects on request."""
    with running() as server:
        pipe.send(server.options)
        while (asked := pipe.recv()) is not None:
            if isinstance(asked, list):
                bucket = server.objects._buckets[BUCKET]
                for key in asked:
                    bucket.put(key, b"", {})
            pipe.send(len(server.asked))


def replace_some(table: morrow.Table) -> None:
    """Commit a snapshot that replaces some files with files of other names."""
    log, writer = SnapshotLog(table._metadata), ManifestWriter(table._target())
    first = log.latest()
    assert first is not None
    old = list_manifests(table._metadata, first)
    gone = pl.concat(read_manifest_entries(table._metadata, old)).gather_every(REPLACED)
    written: list[str] = []
    deleted = gone.with_columns(pl.lit(DELETE, dtype=gone.schema["_KIND"]).alias("_KIND"))
    added = gone.with_columns(pl.concat_str([pl.lit("data-new-"), "_FILE_NAME"]).alias("_FILE_NAME"))
    new = writer.entries(pl.concat([deleted, added]), written)
    base, base_size = writer.manifest_list(old, written)
    delta, delta_size = writer.manifest_list(new, written)
    snapshot = replace(
        first,
        id=first.id + 1,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        delta_record_count=0,
    )
    writer.settle()
    assert log.add(snapshot)
    log.hint(snapshot)


def keys_of(table: morrow.Table) -> list[str]:
    """Return the keys of the data files of the newest snapshot in their bucket."""
    return [file.path.removeprefix(f"s3://{BUCKET}/") for file in table.scan().plan.files]


def measure(files: int, partitions: int) -> None:
    """Create the table, and print requests and times of each operation."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    options = ours.recv()

    def told(what: Any) -> int:
        ours.send(what)
        return int(ours.recv())

    def timed(name: str, work: Callable[[], object]) -> None:
        before, cpu, wall = told("count"), time.process_time(), time.perf_counter()
        found = work()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"{name:32} {told('count') - before:>8,} requests {wall:>7.2f} s {cpu:>7.2f} s CPU  {found}", flush=True)

    table = morrow.Catalog(f"s3://{BUCKET}/w", storage_options=options).create_table(
        "db.t", schema=SCHEMA, partition_keys=["p"]
    )
    fill(table, files, partitions)
    told(keys_of(table))
    before = table.snapshots()[-1].id
    replace_some(table)
    told(keys_of(table))
    table = morrow.open(f"s3://{BUCKET}/w/db.db/t", storage_options=options)
    folder = keys_of(table)[0].rpartition("/")[0]
    told([f"{folder}/data-orphan-{number}.parquet" for number in range(files // ORPHANS)])

    timed("tag of the older snapshot", lambda: table.tags.create("old", snapshot=before))
    timed("list tags", lambda: len(table.tags.names))
    expire: dict[str, Any] = {"retain_max": 1, "retain_min": 1, "older_than": "0 s"}
    timed("expiry beside the tag", lambda: table.expire_snapshots(**expire))
    timed("delete the tag", lambda: table.tags.delete("old"))
    timed("orphans, dry run", lambda: len(table.remove_orphan_files(older_than="0 s", dry_run=True).paths))
    timed("orphans", lambda: len(table.remove_orphan_files(older_than="0 s", dry_run=False).paths))
    replace_some(table)
    timed("expiry", lambda: table.expire_snapshots(**expire))
    ours.send(None)


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.listing", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    asked = parser.parse_args(given)
    measure(asked.files, asked.partitions)


if __name__ == "__main__":
    main(sys.argv[1:])
