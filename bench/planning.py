"""Planning of a table of a million files: CPU, time and memory of the driver, on metadata without data files.

    python -m bench.planning                                        1,000,000 files in 100,000 partitions
    python -m bench.planning --files 10000 --partitions 1500
    python -m bench.planning --spark                                the same for a read by Spark, up to its physical
    plan python -m bench.planning --spark --master 'local-cluster[2,1,1024]'   in a cluster whose tasks decode the
    manifests

Each measurement runs in its own process, which opens the table and plans a full read. It reports CPU and wall seconds,
the peak memory, and the memory after imports (and the start of Spark). For Spark the files are named as Avro, so that
all of them are sent to tasks. CPU and memory are measured in the driver's Python process; the memory of its JVM is
reported, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

import morrow
import morrow.spark
from bench.tables import HOME
from morrow.engine.format.binary_row_encoder import encode_columns
from morrow.engine.plan.manifests import list_manifests, read_manifest_entries
from morrow.engine.structs import replace
from morrow.writers.commit.committer import SnapshotLog
from morrow.writers.commit.manifests import ARITY, ManifestWriter

FORMATS = {False: "parquet", True: "avro"}
"""The file format by "planned by Spark". Spark checks whether Parquet files exist, so it gets Avro."""
LOCAL = "local[2]"
FILES, PARTITIONS, ROWS = 1_000_000, 100_000, 1000
SCHEMA = "id BIGINT, p INT, a DOUBLE, s STRING"
PIECE = 50_000
"""Number of entries per write."""
KIB_PER_MIB = 1024


def made(folder: Path, files: int, partitions: int, form: str = "parquet") -> str:
    """Create a table whose newest snapshot lists `files` files that do not exist; return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    options = {"file.format": form}
    table = morrow.Catalog(folder).create_table("db.t", SCHEMA, partition_keys=["p"], options=options)
    fill(table, files, partitions)
    return table.path


def fill(table: morrow.Table, files: int, partitions: int) -> None:
    """Commit a snapshot with `files` files that do not exist to a new table."""
    table.append(pl.DataFrame({"id": [1], "p": [1], "a": [0.5], "s": ["x"]}, schema_overrides={"p": pl.Int32}))
    log, writer = SnapshotLog(table._metadata), ManifestWriter(table._target())
    first = log.latest()
    assert first is not None
    (like,) = read_manifest_entries(table._metadata, list_manifests(table._metadata, first))
    written: list[str] = []
    pieces = (np.arange(at, min(at + PIECE, files)) for at in range(0, files, PIECE))
    manifests = pl.concat([writer.entries(_entries(table, like, numbers, partitions), written) for numbers in pieces])
    base, base_size = writer.manifest_list(manifests, written)
    delta, delta_size = writer.manifest_list(manifests.clear(), written)
    snapshot = replace(
        first,
        id=first.id + 1,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        total_record_count=files * ROWS,
        delta_record_count=files * ROWS,
    )
    writer.settle()
    assert log.add(snapshot)
    log.hint(snapshot)


def _entries(table: morrow.Table, like: pl.DataFrame, numbers: np.ndarray, partitions: int) -> pl.DataFrame:
    """Return entries of files with these numbers, with the statistics of an existing file."""
    values = pl.Series((numbers % partitions).astype(np.int32))
    stored = encode_columns([values], [field.type for field in table._target().partition_fields])
    writer, arity, ending = uuid.uuid4(), ARITY.pack(1), Path(like["_FILE_NAME"][0]).suffix
    return like.sample(len(numbers), with_replacement=True).with_columns(
        pl.Series("_PARTITION", [arity + stored.row(i) for i in range(len(numbers))], dtype=pl.Binary),
        pl.Series("_FILE_NAME", [f"data-{writer}-{number}{ending}" for number in numbers.tolist()]),
        pl.lit(ROWS, dtype=like.schema["_ROW_COUNT"]).alias("_ROW_COUNT"),
    )


@dataclass(frozen=True)
class Taken:
    """The cost of planning: seconds and peak MiB. `before` is the memory after imports and the start of Spark."""

    cpu: float
    wall: float
    memory: float
    before: float
    jvm: float = 0
    tasks: int = 0


def measure(path: str) -> Taken:
    """Plan a read of the table."""
    before, cpu, wall = _memory(), time.process_time(), time.perf_counter()
    plan = morrow.open(path).scan().plan
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert plan.sections
    return Taken(cpu, wall, _memory(), before)


def measure_spark(path: str, master: str) -> Taken:
    """Plan a read of the table by Spark. `cpu` and `memory` are measured in the driver's Python process."""
    spark = morrow.spark.session(master=master)
    gateway = spark.sparkContext._gateway.proc.pid
    before, cpu, wall = _memory(), time.process_time(), time.perf_counter()
    frame = morrow.spark.read(spark, path)
    frame._jdf.queryExecution().executedPlan()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Taken(cpu, wall, _memory(), before, _memory(gateway), frame.rdd.getNumPartitions())


def taken(path: str, *, spark: bool, master: str = LOCAL) -> Taken:
    """Plan a read of the table in a new process."""
    how = ["--spark", "--master", master] if spark else []
    command = [sys.executable, "-m", "bench.planning", *how, "--of", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Taken(**json.loads(done.stdout.splitlines()[-1]))


def _memory(process: int | str = "self") -> float:
    """Return the peak memory of a process in MiB. (The value of `resource` includes the parent's.)"""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / KIB_PER_MIB


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planning", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--spark", action="store_true", help="plan a read by Spark")
    parser.add_argument("--master", default=LOCAL, help="where Spark's tasks run")
    parser.add_argument("--of", help="plan this table and make none")
    asked = parser.parse_args(given)
    if asked.of is not None:
        print(json.dumps(asdict(measure_spark(asked.of, asked.master) if asked.spark else measure(asked.of))))
        return
    folder = HOME / "planning"
    try:
        path = made(folder, asked.files, asked.partitions, FORMATS[asked.spark])
        found = taken(path, spark=asked.spark, master=asked.master)
        spark = f"; JVM {found.jvm:,.0f} MiB, {found.tasks:,} tasks" if asked.spark else ""
        print(
            f"{asked.files:,} files in {asked.partitions:,} partitions: {found.cpu:.1f} s CPU, {found.wall:.1f} s, "
            f"{found.memory:,.0f} MiB (of them {found.before:,.0f} MiB before){spark}"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
