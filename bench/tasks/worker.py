"""A process that runs the tasks of one library in its environment: `python worker.py LIBRARY FOLDER`.

It prints a line of JSON for each task. It does not import Morrow, which is missing in the environments of peers.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ROWS, UPSERTED, FIRST_UPSERTED = 100_000, 10_000, 95_000
NAMES = 10
PASSES = 3

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("amount", pa.float64())])


def rows(first: int, count: int, amount: float | None = None, **more: list[Any]) -> pa.Table:
    """Make rows with ascending ids; `amount` None: the last two digits of the id."""
    ids = range(first, first + count)
    amounts = [float(i % 100) if amount is None else amount for i in ids]
    table = pa.table([ids, [f"name {i % NAMES}" for i in ids], amounts], schema=SCHEMA)
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    return table


ARGUMENTS = {
    "create": (rows(0, ROWS),),
    "upsert": (rows(FIRST_UPSERTED, UPSERTED, 1.0),),
    "evolve": (rows(0, 1, 5.0, note=["new"]),),
}


def _sum(table: pa.Table) -> float:
    return float(pc.sum(table["amount"]).as_py())


def right(task: str, result: Any, now: pa.Table) -> bool:
    """Return whether the result of a task, or the table's rows after it, are right."""
    upserted = sum(i % 100 for i in range(FIRST_UPSERTED)) + UPSERTED
    checks = {
        "create": lambda: now.num_rows == ROWS,
        "upsert": lambda: (now.num_rows, _sum(now)) == (FIRST_UPSERTED + UPSERTED, upserted),
        "read": lambda: result.num_rows == FIRST_UPSERTED // 100,
        "aggregate": lambda: len(result) == NAMES,
        "update": lambda: _sum(now) == upserted + 1000,
        "delete": lambda: now.num_rows == 104_000,
        "travel": lambda: result.num_rows == ROWS,
        "changes": lambda: len(set(result["id"].to_pylist())) == UPSERTED,
        "evolve": lambda: now.filter(pc.equal(now["id"], 0)).to_pylist()[0].get("note") == "new",
        "compact": lambda: now.num_rows == 104_000,
    }
    return bool(checks[task]())


TASKS = ("create", "upsert", "read", "aggregate", "update", "delete", "travel", "changes", "evolve", "compact")


def run(module: ModuleType, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the tasks one after the other on a table in an empty folder."""
    folder.mkdir()
    for task in TASKS:
        answer: dict[str, Any] = {"task": task, "reason": module.IMPOSSIBLE.get(task)}
        if not answer["reason"]:
            began = time.perf_counter()
            result = getattr(module, task)(str(folder), *ARGUMENTS.get(task, ()))
            answer["seconds"] = time.perf_counter() - began
            answer["right"] = right(task, result, module.everything(str(folder)))
        yield answer


def load(path: Path) -> ModuleType:
    """Import a file by path, since it has the same name as the library that it imports."""
    spec = importlib.util.spec_from_file_location(f"tasks_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != path.parent]
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    library = load(Path(__file__).resolve().parent / f"{sys.argv[1]}.py")
    for number in range(1 + PASSES):  # the first pass includes imports
        for line in run(library, Path(sys.argv[2]) / str(number)):
            if number:
                print(json.dumps(line), flush=True)
