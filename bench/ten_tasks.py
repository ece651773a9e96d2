"""Measure the ten tasks of `bench/tasks` with each library, and write docs/ten-tasks.md: `python -m bench.ten_tasks`.

Lines count the task's function without imports and definitions. Seconds are the median of three passes in one process,
after a warm-up pass. A task with wrong rows is shown as wrong.
"""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import peers

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "ten-tasks.md"

LIBRARIES = ("morrow", "pypaimon", "deltalake", "pyiceberg")
TITLES = {
    "create": "make a table with a key, write 100,000 rows",
    "upsert": "upsert 10,000 rows",
    "read": "read two columns of some rows",
    "aggregate": "aggregate lazily in Polars",
    "update": "update 1,000 rows by a condition",
    "delete": "delete 1,000 rows by a condition",
    "travel": "read the first version",
    "changes": "read what the second version changed",
    "evolve": "write a row with a new column",
    "compact": "compact, and drop old versions",
}

HEAD = """# Ten tasks

The same ten tasks, on one table of 100,000 rows, with Morrow and with other libraries, each as its
documentation shows. Written by `python -m bench.ten_tasks`; the code is in `bench/tasks`, one file
for each library. Lines are lines of code of the task, without imports; times are medians of three
passes in one process, after one that is not counted. Morrow's writes wait until the disk has every
file and folder (fsync); the others do not wait for data files.
"""


@dataclass(frozen=True)
class Answer:
    """The result of a task: its seconds in each pass and whether its result is right, or why it is impossible."""

    seconds: tuple[float, ...]
    is_right: bool
    reason: str | None


def interpreter(library: str) -> Path:
    return Path(sys.executable) if library == "morrow" else peers.interpreter(library)


def lines_of(library: str) -> dict[str, int]:
    """Count the lines of each task's function."""
    source = (HERE / "tasks" / f"{library}.py").read_text()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: (node.end_lineno or node.lineno) - node.body[0].lineno + 1 for node in functions}


def measured(library: str) -> dict[str, Answer]:
    """Run the tasks in the environment of a library."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or library == "morrow"}
        command = [str(interpreter(library)), str(HERE / "tasks" / "worker.py"), library, folder]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[dict[str, object]]] = {}
    for line in map(json.loads, done.stdout.splitlines()):
        found.setdefault(line["task"], []).append(line)
    return {task: _answer(lines) for task, lines in found.items()}


def _answer(lines: Sequence[Mapping[str, object]]) -> Answer:
    reason = lines[0]["reason"]
    if reason:
        return Answer((), False, str(reason))
    return Answer(tuple(float(str(line["seconds"])) for line in lines), all(line["right"] for line in lines), None)


def cell(answer: Answer, lines: int) -> str:
    if answer.reason:
        return "not there"
    counted = "1 line" if lines == 1 else f"{lines} lines"
    return f"{counted}, {statistics.median(answer.seconds) * 1000:,.0f} ms" + ("" if answer.is_right else ", **wrong**")


def page(found: Mapping[str, Mapping[str, Answer]], versions: Mapping[str, str]) -> str:
    """Return the page: one row for each task, one column for each library, and reasons for missing results."""
    names = [f"{library} {versions[library]}".strip() for library in found]
    counted = {library: lines_of(library) for library in found}
    rows = [
        [title, *(cell(answers[task], counted[library].get(task, 0)) for library, answers in found.items())]
        for task, title in TITLES.items()
    ]
    table = [_line(["task", *names]), _line(["--"] * (1 + len(names))), *map(_line, rows)]
    reasons = [
        f"- {library}: {TITLES[task]}: {answer.reason}."
        for library, answers in found.items()
        for task, answer in answers.items()
        if answer.reason
    ]
    return "\n".join([HEAD, *table, "", *reasons, ""])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def version_of(library: str) -> str:
    asked = f"import importlib.metadata as m; print(m.version({library!r}))"
    done = subprocess.run([str(interpreter(library)), "-c", asked], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    for library in LIBRARIES[1:]:
        peers.install(library)
    found = {library: measured(library) for library in LIBRARIES}
    PAGE.write_text(page(found, {library: version_of(library) for library in LIBRARIES}))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
