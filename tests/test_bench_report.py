"""RESULTS.md: a part of it may be measured anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.report import Report, update

RESULTS = """# What was measured

Written by `make bench`. 1 of 1 bounds are met.

## Reading

| what |
| --- |
| old |

## Writing

| what |
| --- |
| rows |
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


def test_bounds_are_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench"):
        update(Report("x", (row("Reading", "new", met=True, bound="<= 2x"),)), tmp_path)
