"""The command: ``python -m tests.campaigns.compat [.../paimon-python] [--tests 'reader_*'] [--write]``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.campaigns.compat.hook import FAILED, INTERNAL, MORE, OUTCOMES, PASSED, RECORD, REFUSED, SKIPPED
from tests.campaigns.compat.sources import copy_tests, fetch, find_version

ROOT = Path(__file__).parents[3]
FILES = (
    "branch_manager_test",
    "catalog_branch_manager_test",
    "changelog_producer_test",
    "commit_callback_test",
    "consumer*_test",
    "data_evolution_test",
    "data_types_test",
    "dynamic_bucket_test",
    "file_store_table*_test",
    "filesystem_catalog*_test",
    "identifier_test",
    "nested_type_read_write_test",
    "overwrite_commit_conflict_test",
    "partition_predicate_test",
    "predicates_test",
    "py36/*_test",
    "pushdown_correctness_test",
    "read_builder_explain_test",
    "reader_*_test",
    "schema_*_test",
    "serializable_test",
    "shard_table_updator_test",
    "simple_table_test",
    "snapshot_manager_test",
    "stream*_test",
    "system/*_test",
    "table_*_test",
    "test_*_e2e",
    "test_limit_pushdown",
    "test_read_builder_nested_projection",
    "test_sequence_field_read",
    "time_travel_util_test",
    "torch_read_test",
)
"""The test files that read and write by pypaimon's public interface, as patterns."""
Counts = Mapping[str, Counter[str]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.compat", description=__doc__)
    parser.add_argument("suite", type=Path, nargs="?", help="the folder paimon-python of Paimon's sources; none: fetch")
    parser.add_argument("--tests", nargs="+", metavar="PATTERN", default=FILES, help="names of the test files")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--reasons", nargs="+", choices=OUTCOMES, default=[FAILED], help="list why, by outcome")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        suite = asked.suite or fetch(f"release-{find_version()}", folder)
        tests = copy_tests(suite, folder)
        files = sorted({file for pattern in asked.tests for file in tests.rglob(f"{pattern}.py")})
        cases = run(files, folder, asked.workers)
    for case in cases:
        if case["outcome"] in asked.reasons:
            print(f"{case['outcome']} {case['file']}::{case['test']}: {case['reason']}")
    counts = count(cases)
    for file, found in counts.items():
        print(f"{file:60} " + ", ".join(f"{found[each]} {each}" for each in OUTCOMES if found[each]))
    print(describe(counts))
    return int(not cases)


def run(files: Iterable[Path], folder: Path, workers: int) -> list[dict[str, str]]:
    """Run these files by pytest; return how each test ended."""
    record = folder / "record.jsonl"
    record.touch()
    environment = {**os.environ, RECORD: str(record), "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), *_path()])}
    options = ["-q", "-p", "tests.campaigns.compat.hook", "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=no"]
    options += ["--no-header", "--continue-on-collection-errors", "--rootdir", str(folder), "-n", str(workers)]
    command = [sys.executable, "-m", "pytest", *options, "--import-mode=importlib", *map(str, files)]
    subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in record.read_text().splitlines()]


def _path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def count(cases: Iterable[Mapping[str, str]]) -> Counts:
    """Return the outcomes by file."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        counts.setdefault(case["file"].rpartition("pypaimon_tests/")[2], Counter())[case["outcome"]] += 1
    return dict(sorted(counts.items()))


def describe(counts: Counts) -> str:
    """Return the sum of all files in a line."""
    total = sum(counts.values(), Counter[str]())
    public = sum(total[each] for each in (PASSED, MORE, REFUSED, FAILED))
    return (
        f"{public:,} tests of the public interface: {total[PASSED]:,} passed, "
        f"{total[MORE]:,} answered where pypaimon refuses, {total[REFUSED]:,} refused, "
        f"{total[FAILED]:,} failed; {total[INTERNAL]:,} of internals, {total[SKIPPED]:,} skipped"
    )


if __name__ == "__main__":
    sys.exit(main())
