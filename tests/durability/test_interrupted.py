"""Ctrl-C leaves no snapshot and no files of an unfinished write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import morrow
from morrow.engine.io.local import disable_fsync
from tests.support.written import data_files, new_table, rows

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

WRITING = """
import sys, time
import morrow
from morrow.writers.files import data_files

told = data_files.advance

def slow(**counts):  # a block is in the file, and the file is open
    told(**counts)
    print("half", flush=True)
    time.sleep(60)

data_files.advance = slow
table = morrow.open(sys.argv[1])
table.append({"id": list(range(1000))}) if sys.argv[2] == "append" else table.compact(full=True)
"""


def test_writes_and_compactions(tmp_path: Path) -> None:
    with disable_fsync():
        table = new_table(tmp_path, "id BIGINT", keys=["id"], options={"bucket": 1, "write-only": True})
        table.append([{"id": 1}])
        table.append([{"id": 1}, {"id": 2}])
    before = data_files(tmp_path)

    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITING, table.path, deed],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for deed in (("append", "compact") if LONG else ("compact",))
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
    assert len(data_files(tmp_path)) > len(before)
    time.sleep(0.1)
    for process in running:
        process.send_signal(signal.SIGINT)
    for process in running:
        _, err = process.communicate(timeout=60)
        assert "KeyboardInterrupt" in err
        assert process.returncode != 0

    assert data_files(tmp_path) == before
    assert rows(morrow.open(table.path)) == [(1,), (2,)]
    assert table.doctor().healthy
