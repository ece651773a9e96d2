"""On a terminal: progress on standard error, tables as wide as the screen, no binary data."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from morrow.cli import progress

Table = Callable[[str], Path]


def on_terminal(*args: object) -> tuple[int, str]:
    """Exit code of a command whose standard output is a terminal, and what it wrote to standard error (a pipe)."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "morrow.cli", *map(str, args)]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stderr


def test_arrow_is_not_written_to_a_terminal(table: Table) -> None:
    code, err = on_terminal("read", table("pk_big"), "--format", "arrow")

    assert code == 2
    assert "not for a terminal" in err


def test_no_progress_where_standard_error_is_no_terminal(table: Table) -> None:
    assert on_terminal("read", table("pk_big"), "--limit", 3) == (0, "")


def test_progress_counts_rows_and_passes_the_batches_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [pa.record_batch({"x": range(1000)}), pa.record_batch({"x": range(500)})]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1)

    assert list(progress.counted(batches)) == batches
    assert "1,500 rows" in capsys.readouterr().err
    assert list(progress.counted(batches, shown=False)) == batches
    assert capsys.readouterr().err == ""
