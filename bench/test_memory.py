"""Peak memory of streaming and of an aggregate over 20 million rows, above the interpreter's after `import morrow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.compare import Limit, record
from bench.conftest import Tables

PROJECT = Path(__file__).parents[1]
WORKER = "bench.memory_worker"
TABLES = {"big_merged": "merge-on-read", "big_dv": "10 % deleted"}
WORK = {
    "batches": ("to_batches()", 400),
    "aggregate": ("count and sum", 400),
    "arrow": ("to_arrow(), beside its rows", 150),
}
"""Task -> its name and its bound in megabytes."""
MEGABYTE = 10**6


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("name", TABLES)
def test_peak_memory(benchmark: BenchmarkFixture, table: Tables, name: str, work: str) -> None:
    data = table(name)
    answers = []

    def peak() -> float:
        command = [sys.executable, "-m", WORKER, data.path, work]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
        answers.append(json.loads(done.stdout))
        held = answers[-1]["bytes"] if work == "arrow" else 0
        return float((answers[-1]["peak"] - held) / MEGABYTE)

    measured = record(
        benchmark,
        "Peak memory of a large table",
        f"{WORK[work][0]}, {TABLES[name]}",
        peak,
        bound=Limit(WORK[work][1], "MB"),
    )
    anonymous = max(answer["anonymous"] for answer in answers) / MEGABYTE
    seconds = sorted(answer["seconds"] for answer in answers)[len(answers) // 2]
    measured.note = f"{answers[0]['rows']:,} rows in {seconds:.1f} s; {anonymous:.0f} MB without mapped files"
    benchmark.extra_info.update(measured.info())

    assert {answer["rows"] for answer in answers} == {data.live_rows}
