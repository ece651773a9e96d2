"""The page of ten tasks: Morrow's solutions are right, and missing features of other libraries are named."""

from __future__ import annotations

from pathlib import Path

from bench.tasks.worker import TASKS, load, run
from bench.ten_tasks import HERE, LIBRARIES, TITLES, Answer, lines_of, page


def test_morrows_tasks_do_what_they_should(tmp_path: Path) -> None:
    answers = run(load(HERE / "tasks" / "morrow.py"), tmp_path / "warehouse")

    assert [(answer["task"], answer["right"]) for answer in answers] == [(task, True) for task in TASKS]


def test_every_task_has_a_title_and_lines() -> None:
    assert list(TITLES) == list(TASKS)
    assert lines_of("morrow")["compact"] == 3
    assert {task for library in LIBRARIES for task in lines_of(library)} >= set(TASKS)


def test_wrong_rows_and_missing_tasks_are_shown() -> None:
    right, wrong, missing = (
        Answer((0.5, 0.1, 0.2), True, None),
        Answer((0.1,), False, None),
        Answer((), False, "no way"),
    )
    found = {
        "morrow": dict.fromkeys(TASKS, right),
        "pypaimon": {**dict.fromkeys(TASKS, wrong), "changes": missing},
    }

    lines = page(found, {"morrow": "1", "pypaimon": "2"}).splitlines()

    assert "| upsert 10,000 rows | 1 line, 200 ms | 6 lines, 100 ms, **wrong** |" in lines
    assert "| read what the second version changed | 1 line, 200 ms | not there |" in lines
    assert "- pypaimon: read what the second version changed: no way." in lines
