"""The command: ``python -m tests.campaigns.compat [.../paimon-python] [--own] [--write]``."""

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

from tests.campaigns.compat.hook import FAILED, INTERNAL, MORE, OUTCOMES, OWN, PASSED, RECORD, REFUSED
from tests.campaigns.compat.sources import change_imports, copy_tests, fetch, find_version, rename_package

ROOT = Path(__file__).parents[3]
GUARANTEES = ROOT / "docs" / "guarantees.md"
BEGIN, END = "<!-- compat: written by python -m tests.campaigns.compat --write -->", "<!-- compat: end -->"
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
    "py36/ao_*_test",
    "py36/data_evolution_test",
    "py36/reader_*_test",
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


SKIP = 77
"""The exit code if the tests cannot be fetched."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.compat", description=__doc__)
    place_of = os.environ.get("PYPAIMON_SUITE")
    parser.add_argument(
        "suite",
        type=Path,
        nargs="?",
        default=Path(place_of) if place_of else None,
        help="the folder paimon-python of Paimon's sources (PYPAIMON_SUITE); none: fetch",
    )
    parser.add_argument("--tests", nargs="+", metavar="PATTERN", default=FILES, help="names of the test files")
    parser.add_argument("--own", action="store_true", help="run the tests of pypaimon itself, beside Morrow")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--reasons", nargs="*", choices=OUTCOMES, default=[FAILED], help="list why, by outcome")
    parser.add_argument("--least", type=int, default=1, help="exit with 1 if fewer tests passed")
    parser.add_argument("--summary", type=Path, help="a file for the line with the counts")
    parser.add_argument("--write", action="store_true", help="write the counts by file to docs/guarantees.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        try:
            suite = asked.suite or fetch(f"release-{find_version()}", folder)
        except subprocess.CalledProcessError as error:
            print(f"the tests of pypaimon cannot be fetched: {error}")
            return SKIP
        tests = copy_tests(suite, folder, rename_package if asked.own else change_imports)
        files = sorted({file for pattern in asked.tests for file in tests.rglob(f"{pattern}.py")})
        cases = run(files, folder, asked.workers, own=asked.own)
    for case in cases:
        if case["outcome"] in asked.reasons:
            print(f"{case['outcome']} {case['file']}::{case['test']}: {case['reason']}")
    counts = count(cases)
    total = sum(counts.values(), Counter[str]())
    print(f"{write_table(counts)}\n\n{describe(total)}")
    if asked.summary:
        asked.summary.write_text(describe(total))
    if asked.write:
        GUARANTEES.write_text(replace_table(GUARANTEES.read_text(), counts))
    return int(total[PASSED] < asked.least)


def write_table(counts: Counts) -> str:
    """Return the outcomes by file as a table of Markdown; files of internals alone are left out."""
    shown = (PASSED, MORE, REFUSED, FAILED, INTERNAL)
    rows = [("file", *shown), ("--",) * (len(shown) + 1)]
    rows += [
        (file, *(str(found[each] or "") for each in shown))
        for file, found in counts.items()
        if any(found[each] for each in (PASSED, MORE, REFUSED, FAILED))
    ]
    total = sum(counts.values(), Counter[str]())
    rows.append(("all", *(f"{total[each]:,}" for each in shown)))
    return "\n".join(f"| {' | '.join(row)} |".replace("  ", " ") for row in rows)


def replace_table(text: str, counts: Counts) -> str:
    """Return a page with this table between its marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{write_table(counts)}\n\n{END}{rest.partition(END)[2]}"


def run(files: Iterable[Path], folder: Path, workers: int, *, own: bool = False) -> list[dict[str, str]]:
    """Run these files by pytest; return how each test ended."""
    record = folder / "record.jsonl"
    record.touch()
    environment = {**os.environ, RECORD: str(record), "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), *_path()])}
    environment |= {OWN: "1"} if own else {}
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


def describe(total: Mapping[str, int]) -> str:
    """Return the sums of all files as a line."""
    return ", ".join(f"{total[each]:,} {each}" for each in OUTCOMES if total[each])


if __name__ == "__main__":
    sys.exit(main())
