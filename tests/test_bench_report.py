"""RESULTS.md: parts of it can be measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.report import Report, Row, growth, update

RESULTS = """# What was measured

Written by `make bench`. 1 of 1 bounds are met.

## Reading

| what |
| --- |
| old |

## Writing

| what | Morrow | bound |  |
| --- | --: | --: | --- |
| rows | 1 ms | <= 2 ms | met |
"""


def row(section: str, what: str, **more: Any) -> dict[str, Any]:
    measured = {"value": 1.0, "spread": [1.0, 1.0], "unit": "ms", "baseline": "", "baseline_value": None, "ratio": None}
    told = {"bound": "", "met": None, "note": "", "load": 0.5}
    return {"section": section, "what": what, **measured, **told, **more}


def test_sections_take_the_place_of_those_of_their_names(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text(RESULTS)

    update(Report("python -m bench.run --update x.py", (row("Reading", "new"), row("Expiry", "first"))), tmp_path)

    found = path.read_text()
    assert [line for line in found.splitlines() if line.startswith("## ")] == ["## Reading", "## Writing", "## Expiry"]
    assert "| old |" not in found
    assert "| new |" in found
    assert found.count("Measured by `python -m bench.run --update x.py`") == 2
    assert found.startswith(RESULTS.partition("## ")[0])


def test_bounds_of_a_part_are_counted_with_those_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text(RESULTS)
    bounded = {"ratio": 2.5, "baseline": "scan", "baseline_value": 0.4, "faster": False, "bound": "<= 2x"}

    update(
        Report("x", (row("Spark", "sum", met=False, **bounded), row("Spark", "full", met=True, **bounded))), tmp_path
    )

    head = path.read_text().partition("## ")[0]
    assert "2 of 3 bounds are met." in head
    assert head.endswith("Not met:\n\n- Spark: 1 of 2; the farthest is sum: 2.50, bound <= 2x\n\n")

    update(Report("x", (row("Spark", "sum", met=True, **bounded),)), tmp_path)

    head = path.read_text().partition("## ")[0]
    assert head == RESULTS.partition("## ")[0].replace("1 of 1", "2 of 2")


def test_the_row_farthest_from_its_bound_is_named(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text(RESULTS)
    near = {"ratio": 2.4, "baseline": "scan", "baseline_value": 0.4, "faster": False, "bound": "<= 2x", "met": False}
    slow = {"ratio": 1.5, "faster": True, "baseline": "peer", "baseline_value": 1.5, "bound": ">= 3x faster"}

    update(Report("x", (row("Spark", "sum", **near), row("Spark", "full", met=False, **slow))), tmp_path)

    told = "- Spark: 2 of 2; the farthest is full: 1.5x faster, bound >= 3x faster"
    assert told in path.read_text().splitlines()


def test_a_benchmark_may_have_several_rows(tmp_path: Path) -> None:
    measured = {"extra_info": {"rows": [row("Reading", "scan"), row("Writing", "peer")]}}
    path = tmp_path / "benchmark.json"
    path.write_text(json.dumps({"benchmarks": [measured]}))

    assert [(each["section"], each["what"]) for each in Report.read(path, "x").rows] == [
        ("Reading", "scan"),
        ("Writing", "peer"),
    ]


def test_the_ratios_that_matter_come_first(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text(RESULTS)
    merged = row(
        "Merge-on-read, deduplicate: full read", "key BIGINT, again", baseline="scan", baseline_value=0.5, ratio=2.0
    )
    peer = row(
        "Other readers, merge-on-read, deduplicate",
        "full read to Arrow, first",
        baseline="peer",
        baseline_value=4.0,
        ratio=4.0,
        faster=True,
    )

    for _ in range(2):  # the second update replaces the first summary
        update(Report("x", (row("Reading", "new"), {"faster": False, **merged}, peer)), tmp_path)

    head = path.read_text().partition("## ")[0]
    assert head.count("At a glance:") == 1
    assert "| full read of a merged table, again | 1 ms | scan | 0.5 ms | 2.00 |" in head
    assert "| full read of a merged table, first | 1 ms | peer | 4 ms | 0.25 |" in head
    assert (tmp_path / "plots" / "headline.svg").read_text().count("<rect") == 2


def _point(at: int, value: float, baseline: float | None) -> Row:
    curve = {"at": at, "axis": "files", "each": "file"}
    return {"value": value, "unit": "ms", "baseline": "a scan", "baseline_value": baseline, "curve": curve}


def test_growth_tells_the_exponent_and_where_it_is_steep() -> None:
    told = growth([_point(10, 1, 1), _point(100, 10, 2), _point(1000, 400, 4)])
    assert "From 10 to 1000 files: Morrow 1 ms to 400 ms (400.0 times), a scan 1 ms to 4 ms (4.0 times)." in told
    assert "Morrow grows with the exponent 1.30, steeper than linear from 100 to 1,000 (1.60)." in told
    assert told.endswith("a scan grows with the exponent 0.30, nowhere steeper than linear.")


def test_growth_without_a_baseline() -> None:
    told = growth([_point(10, 3, None), _point(1000, 3, None)])
    assert told.endswith("(1.0 times). Morrow grows with the exponent 0.00, nowhere steeper than linear.")
