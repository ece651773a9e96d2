"""On a terminal: progress on standard error, tables as wide as the screen, no binary data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from morrow.cli import progress
from morrow.engine import progress as engine_progress
from tests.support.terminals import on_terminal

Table = Callable[[str], Path]


def test_arrow_is_not_written_to_a_terminal(table: Table) -> None:
    done = on_terminal("read", table("pk_big"), "--format", "arrow")

    assert done.code == 2
    assert "not for a terminal" in done.err


def test_no_progress_where_standard_error_is_no_terminal(table: Table) -> None:
    done = on_terminal("read", table("pk_big"), "--limit", 3)

    assert (done.code, done.err) == (0, "")


def test_progress_counts_rows_and_passes_the_batches_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [pa.record_batch({"x": range(1000)}), pa.record_batch({"x": range(500)})]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(engine_progress, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(engine_progress, "REFRESH_SECONDS", 0.01)
    monkeypatch.delenv(engine_progress.SWITCH, raising=False)

    seen, told = [], ""
    for batch in progress.counted(batches):
        seen.append(batch)
        until = time.monotonic() + (0 if len(seen) < 2 else 20)  # the display is imported first
        while "1,500 rows" not in told and time.monotonic() < until:
            time.sleep(0.02)
            told += capsys.readouterr().err
    assert seen == batches
    assert "1,500 rows" in told
    capsys.readouterr()
    assert list(progress.counted(batches, shown=False)) == batches
    assert capsys.readouterr().err == ""
