"""Progress is shown on terminals with rows, bytes and the time left, and never makes the work fail."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from morrow.engine import progress
from morrow.engine.progress import Work, advance, is_shown, show_progress, track_calls
from morrow.readers.execution import execute
from morrow.writers.operations import compaction
from tests.support.written import new_table


def look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_shown", lambda: True)
    monkeypatch.setattr(progress, "MIN_SHOWN_SECONDS", 0.02)
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.01)
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_words() -> None:
    work = Work("writing", all_rows=4_000, began=time.monotonic() - 30)
    assert str(work) == "writing  4,000 rows  30 seconds"
    work.rows, work.bytes = 1_000, 2048
    assert str(work).startswith(f"writing  {'━' * 6}{' ' * 18}  25%  1,000 of 4,000 rows  2.0 KiB  30 seconds  ")
    assert str(work).endswith("minute left") or str(work).endswith("minutes left")
    assert str(Work("expiring", files=1)) == "expiring  1 file  0 ms"


def test_shown_while_it_lasts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    look(monkeypatch)
    with show_progress("writing", rows=10), show_progress("inner"):
        advance(rows=5, bytes=1)
        told, until = "", time.monotonic() + 20  # importing the display takes a while
        while "5 of 10 rows" not in told and time.monotonic() < until:
            time.sleep(0.02)
            told += capsys.readouterr().err
    assert "5 of 10 rows" in told
    assert "inner" not in told
    with pytest.raises(KeyboardInterrupt), show_progress("interrupted"):
        raise KeyboardInterrupt
    advance(rows=1)
    assert progress._running is None


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_compaction_tells_how_many_rows_it_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: list[str]
) -> None:
    table = new_table(tmp_path, "id INT", keys=keys, options={"write-only": "true"})
    for rows in (3, 4):
        table.append({"id": range(rows)})
    monkeypatch.setattr(compaction, "is_shown", lambda: True)
    look(monkeypatch)
    with show_progress("compacting"):
        work = progress._running
        table.compact(full=True)
    assert work is not None
    assert (work.all_rows, work.rows) == (7, 4 if keys else 7)


def test_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_shown()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delenv(progress.SWITCH, raising=False)
    assert is_shown()
    monkeypatch.setenv(progress.SWITCH, "off")
    monkeypatch.setattr(progress, "MIN_SHOWN_SECONDS", 0)
    with show_progress("writing"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert not is_shown()


def test_the_rows_of_what_is_written_are_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    look(monkeypatch)

    class Frame:
        height = 7

    @track_calls("writing")
    def write(_self: object, _data: object) -> int:
        assert progress._running is not None
        return progress._running.all_rows

    assert write(None, Frame()) == 7
    assert write(None, [1, 2]) == 0


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_reads_tell_the_rows_that_they_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: str) -> None:
    """Rows are counted as they are read; for files that Arrow decodes, stored rows are counted."""
    table = new_table(tmp_path, "id INT, v STRING", keys=["id"], options={"bucket": 1, "file.format": format})
    for ids in ([1, 2, 3], [3, 4]):
        table.append({"id": ids, "v": ["a"] * len(ids)})
    expected = table.scan().to_polars()
    told: list[int] = []
    monkeypatch.setattr(execute, "MIN_SHOWN_ROWS", 1)
    monkeypatch.setattr(progress, "is_shown", lambda: True)
    for module in (execute, execute):
        monkeypatch.setattr(module, "advance", lambda rows: told.append(rows))

    assert table.scan().to_polars().equals(expected)
    assert sum(told) == 4
    told.clear()
    assert table.scan().to_arrow().equals(expected.to_arrow().cast(table.scan().schema))
    assert sum(told) == {"parquet": 4, "orc": 5}[format]
    told.clear()
    with show_progress("a whole of which the read is a part"):
        assert table.scan().to_polars().equals(expected)
    assert told == []
