"""`make demo` runs, shows all that it promises, and fails if a row is wrong."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_shows_rows_time_travel_duckdb_and_the_plan() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    for shown in (
        "16,862 are rows of the table",
        "tag t1 is snapshot",
        "paimon_scan",
        "pushed     id IN (8, 17)",
        "files by bucket: kept 3 of 12",
        "healthy: nothing was found",
    ):
        assert shown in done.stdout
    for row in (
        "1   | 2   | 2   | 2   | 1   | 1   | 1 ",
        "1   | 2   | 2   | 2   | 3   | 3   | 3 ",
        'arg_max_null("a", g_1_rank)',
    ):
        assert row in done.stdout  # the documentation's sequence groups after the second and third INSERT
    assert done.stdout.count("equal to Java's") == 10
    assert "132 events felt by people. 1,707 rows of 1,835 in 5 files, 128 dead" in done.stdout
    assert "[1,707 events, equal to a join of the two files]" in done.stdout


def test_the_demo_fails_when_a_row_differs(
    golden_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = loaded()
    monkeypatch.setattr(demo.golden.Read, "rows", lambda *_: [[1, "wrong", 1.0, 1]])
    monkeypatch.setattr(demo, "unpack", lambda root: (root / "public").symlink_to(golden_root / "public"))

    assert demo.main() == 1
    assert "The rows differ" in capsys.readouterr().err


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
