"""Spark through s3a, from an S3 server on the loopback: Morrow against `read.parquet` of the same objects.

Spark gets its S3 file system from Maven Central. If that is not available, nothing is measured. Quick runs skip this
test, like peers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.compare import Measured, put
from bench.spark_s3a_worker import SKIPPED
from bench.tables import HOME
from bench.test_spark import AGAIN, ENGINES, FIRST, QUERIES

ROUNDS = 7
BOUNDS = {"first": FIRST, "again": AGAIN}


@pytest.mark.peers
def test_reads_through_s3a(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> None:
    size = "quick" if request.config.getoption("--quick") else "full"
    engines = {names[0]: engine for engine, names in ENGINES.items()}

    def run() -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "bench.spark_s3a_worker", size, str(ROUNDS), *engines]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=HOME.parent.parent)
        if done.returncode == SKIPPED:
            pytest.skip(done.stdout.strip())
        assert done.returncode == 0
        return [json.loads(line) for line in done.stdout.splitlines()]

    answers = benchmark.pedantic(run, rounds=1)
    put(
        benchmark,
        [
            Measured(
                "Spark: through s3a",
                f"{engine}: {QUERIES[query]}, {when}",
                "read.parquet of its objects",
                answer[query][when],
                answer[query]["scan"],
                BOUNDS[when][engine][query],
            )
            for answer in answers
            for engine in [engines[answer["table"]]]
            for when in BOUNDS
            for query in QUERIES
        ],
    )
