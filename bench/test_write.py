"""Writing: appends, upserts, deletion vectors, compaction and commits, against the simplest way to write the same rows.

Every turn writes its own table in bench/.data/writing, which is removed before the next. Morrow's time includes commit
and fsync; the baselines only write files.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import data
from bench.compare import Bound, Limit, Measured, compare, record, timed
from bench.conftest import Peers
from bench.tables import HOME
from morrow.engine.io.local import disable_fsync
from morrow.writers.ingest.validation import check_frame, check_table, check_values

SECTION = "Writing"
ROWS, UPDATE_ROWS, UPDATES = 2_000_000, 100_000, 5
QUICK = 10
ROUNDS = 5
COMMITS, EDGE = 2_000, 100
PROJECT = Path(__file__).parents[1]
WORKER = "bench.write_worker"
MEGABYTE = 10**6
ZSTD = {"compression": "zstd", "compression_level": 1}
KEYED = {"bucket": "1"}
VECTORS = {**KEYED, "deletion-vectors.enabled": "true"}


class Workshop:
    """A factory of temporary tables; a quick run has `scale` rows instead of all."""

    def __init__(self, folder: Path, scale: int) -> None:
        self.folder, self.scale = folder, scale
        self._numbers = itertools.count()

    def rows(self, count: int) -> int:
        return count // self.scale

    def base(self) -> pl.DataFrame:
        return self.shuffled(data.rows(data.base_ids(0, self.rows(ROWS)), data.BIGINT_KEY, seed=1))

    def update(self, seed: int) -> pl.DataFrame:
        ids = data.update_ids(self.rows(ROWS), self.rows(UPDATE_ROWS), seed)
        return self.shuffled(data.rows(ids, data.BIGINT_KEY, seed))

    @staticmethod
    def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
        """Shuffle the rows, since writers get them unordered."""
        return frame.sample(fraction=1.0, shuffle=True, seed=7)

    def clean(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def table(self, options: Mapping[str, str], *, keyed: bool = True) -> morrow.Table:
        catalog = morrow.Catalog(self.folder)
        key = data.BIGINT_KEY if keyed else ()
        return catalog.create_table(
            f"db.t{next(self._numbers)}", schema=data.fields(data.BIGINT_KEY), primary_keys=list(key), options=options
        )


@pytest.fixture
def workshop(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    shop = Workshop(HOME / "writing", QUICK if request.config.getoption("--quick") else 1)
    shop.clean()
    yield shop
    shutil.rmtree(shop.folder, ignore_errors=True)


def test_append(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    rows = workshop.base().to_arrow()
    made: list[morrow.Table] = []

    def before() -> None:
        workshop.clean()
        made.append(workshop.table({}, keyed=False))

    plain = timed(lambda: pq.write_table(rows, workshop.folder / "plain.parquet", **ZSTD))
    compare(
        benchmark,
        SECTION,
        f"append of {rows.num_rows:,} rows",
        lambda: made[-1].append(rows),
        baseline=("pyarrow's Parquet writer", plain),
        bound=Bound(0.8),
        before=before,
        rounds=ROUNDS,
    )

    assert made[-1].scan().count() == rows.num_rows


@pytest.mark.parametrize("form", ["Arrow", "Polars"])
def test_checks_of_incoming_rows(benchmark: BenchmarkFixture, workshop: Workshop, form: str) -> None:
    """Compare the checks of all values with the append that includes them."""
    frame = workshop.base()
    rows = frame.to_arrow() if form == "Arrow" else frame
    table = workshop.table({}, keyed=False)
    fields = {field.name: field for field in table._newest.fields}

    def check() -> None:
        check_table(rows, 0) if isinstance(rows, pa.Table) else check_frame(rows, 0)
        for name in frame.columns:
            check_values(rows[name], fields[name], 0)

    compare(
        benchmark,
        SECTION,
        f"checks of {frame.height:,} rows from {form}",
        check,
        baseline=("their append", timed(lambda: table.append(rows))),
        bound=Bound(0.03),
        rounds=ROUNDS,
    )


def test_upsert_into_empty_table(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    rows = workshop.base()
    made: list[morrow.Table] = []

    def before() -> None:
        workshop.clean()
        made.append(workshop.table(KEYED))

    def plain() -> None:
        target = workshop.folder / "plain.parquet"
        rows.sort("id").write_parquet(target, compression="zstd", compression_level=1)

    compare(
        benchmark,
        SECTION,
        f"upsert of {rows.height:,} rows into an empty table",
        lambda: made[-1].upsert(rows),
        baseline=("Polars sort and write_parquet", timed(plain)),
        bound=Bound(1.3),
        before=before,
        rounds=ROUNDS,
    )

    assert made[-1].scan().count() == rows.height


@pytest.mark.peers
def test_upsert_pypaimon(benchmark: BenchmarkFixture, workshop: Workshop, peer: Peers) -> None:
    rows = workshop.base()
    source = workshop.folder.parent / "upsert.arrow"
    rows.write_ipc(source)
    made: list[morrow.Table] = []

    def before() -> None:
        workshop.clean()
        made.append(workshop.table(KEYED))

    def pypaimon() -> float:
        workshop.clean()
        workshop.table(KEYED)
        table = next(workshop.folder.glob("db.db/*")).name
        return peer("pypaimon").write(str(workshop.folder), f"db.{table}", str(source))

    compare(
        benchmark,
        SECTION,
        f"upsert of {rows.height:,} rows into an empty table",
        lambda: made[-1].upsert(rows),
        baseline=("pypaimon 2.1.0", pypaimon),
        bound=Bound(10, faster=True),
        before=before,
        rounds=2,
        warmup=False,
    )
    source.unlink()


def test_upsert_with_deletion_vectors(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    """Measure upserts into copies of the same compacted table."""
    base, update = workshop.base(), workshop.update(10)
    bases = {name: workshop.table(options) for name, options in (("plain", KEYED), ("vectors", VECTORS))}
    for table in bases.values():
        table.upsert(base)
        table.compact(full=True)

    def copy(name: str) -> morrow.Table:
        target = Path(bases[name].path).with_name("copy")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(bases[name].path, target)
        os.sync()
        return morrow.open(target)

    def without() -> float:
        table = copy("plain")
        return timed(lambda: table.upsert(update))()

    made: list[morrow.Table] = []
    compare(
        benchmark,
        SECTION,
        f"upsert of {update.height:,} rows with deletion vectors into {base.height:,}",
        lambda: made[-1].upsert(update),
        baseline=("Morrow without", without),
        bound=Bound(1.8),
        before=lambda: made.append(copy("vectors")),
        rounds=ROUNDS,
    )

    new = update.filter(pl.col("id") % 2 == 1).height
    assert made[-1].scan().count() == base.height + new


def test_full_compaction(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    base, updates = workshop.base(), [workshop.update(seed) for seed in range(UPDATES)]
    made: list[morrow.Table] = []

    def before() -> None:
        workshop.clean()
        table = workshop.table({**KEYED, "num-sorted-run.compaction-trigger": "20"})
        table.upsert(base)
        table.compact(full=True)
        for update in updates:
            table.upsert(update)
        made.append(table)
        morrow.clear_caches()

    def read_and_write() -> float:
        before()
        began = time.perf_counter()
        made[-1].scan().to_polars().write_parquet(
            workshop.folder / "plain.parquet", compression="zstd", compression_level=1
        )
        return time.perf_counter() - began

    compare(
        benchmark,
        SECTION,
        f"full compaction of {base.height:,} rows and {UPDATES} updates of {updates[0].height:,}",
        lambda: made[-1].compact(full=True),
        baseline=("merged read and write_parquet", read_and_write),
        bound=Bound(1.5),
        before=before,
        rounds=3,
        warmup=False,
    )


def test_commit_latency(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    """Append small frames one by one, without fsync, which depends on the disk and not the table."""
    table = workshop.table({}, keyed=False)
    row = data.rows(np.arange(1, dtype=np.int64), data.BIGINT_KEY, seed=1)
    commits = workshop.rows(COMMITS)
    seconds: list[float] = []

    def all_commits() -> float:
        with disable_fsync():
            for _ in range(commits):
                began = time.perf_counter()
                table.append(row)
                seconds.append(time.perf_counter() - began)
        return statistics.median(seconds)

    measured = record(benchmark, SECTION, f"p50 of {commits:,} commits", all_commits, bound=Limit(5, "ms"), rounds=1)
    first, last = statistics.median(seconds[:EDGE]), statistics.median(seconds[-EDGE:])
    manifests = table.snapshots()[-1]
    measured.note = f"first {EDGE}: {first * 1000:.1f} ms, last {EDGE}: {last * 1000:.1f} ms ({last / first:.2f}x)"
    benchmark.extra_info.update(measured.info())

    assert manifests.total_record_count == commits


def test_memory_of_a_large_upsert(benchmark: BenchmarkFixture, workshop: Workshop) -> None:
    rows = workshop.rows(10 * ROWS)
    answers = []

    def peak() -> float:
        workshop.clean()
        table = workshop.table(KEYED)
        command = [sys.executable, "-m", WORKER, table.path, str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
        answers.append(json.loads(done.stdout))
        return float(answers[-1]["peak"] / MEGABYTE)

    measured: Measured = record(
        benchmark, SECTION, f"peak memory, upsert of {rows:,} rows", peak, bound=Limit(1000, "MB"), rounds=1
    )
    measured.note = f"{answers[0]['seconds']:.0f} s"
    benchmark.extra_info.update(measured.info())

    assert answers[0]["rows"] == rows
