"""Errors pickle, and IPython shows the user's own lines of their tracebacks."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import morrow
from morrow.engine import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptFile("t/manifest/m", "ends too soon"),
        errors.Unsupported("the engine 'x'", where="t", hint="upgrade"),
        errors.FileMissing("t/bucket-0/a"),
        errors.UnclearOutcome("no answer"),
        errors.ColumnNotFound("no column 'x'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_they_come_back_as_they_were(error: errors.MorrowError) -> None:
    back = pickle.loads(pickle.dumps(error))

    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


MARKS = re.compile(r" *[~^]+")
"""Lines with which Python 3.13 marks a part of the line before."""


def test_ipython_shows_the_lines_of_the_user_and_the_message(tmp_path: Path) -> None:
    cell = compile("def load(path):\n    return morrow.open(path)\n\nload(path)", "<cell 1>", "exec")
    with pytest.raises(errors.TableNotFound) as caught:
        exec(cell, {"morrow": morrow, "path": tmp_path / "none"})
    caught.value.add_note("a note")
    lines = caught.value._render_traceback_()
    shown = [line for line in lines if __file__ not in line and "exec(cell" not in line and not MARKS.fullmatch(line)]
    assert shown == [
        '  File "<cell 1>", line 4, in <module>',
        '  File "<cell 1>", line 2, in load',
        *f"morrow.engine.errors.TableNotFound: {caught.value}".split("\n"),
        "a note",
    ]
