"""Runs Morrow with other versions of PySpark, the libraries and Python: ``python -m tests.matrix [cell ...]``.

    make test-matrix                      all cells: half an hour and some GB of downloads at first
    make test-matrix ARGS="spark-3.5"     one of them
    make test-matrix ARGS=--list          their names

Each cell has its own environment below ``.matrix``, which is recreated when its packages change. A cell whose
interpreter or packages are not available is skipped, with the reason; exits with 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.matrix.cells import ALWAYS, CELLS, Cell

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".matrix"
README = ROOT / "README.md"
REPORT, SUMMARY = FOLDER / "tests.xml", FOLDER / "summary.txt"
BEGIN, END = "<!-- matrix: written by make test-matrix -->", "<!-- matrix: end -->"
SKIPPED = 77
"""The exit code of a command whose requirements are missing."""


class Skip(Exception):
    """A cell that cannot run here; the message says why."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description="Run the matrix of versions.")
    parser.add_argument("cell", nargs="*", help="names of cells; none: all")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--python", type=Path, help="an interpreter whose environment stands for that of the cell")
    given = parser.parse_args(arguments)
    known = {cell.name: cell for cell in CELLS}
    if unknown := [name for name in given.cell if name not in known]:
        parser.error(f"no cell {unknown[0]!r}; there are {', '.join(known)}")
    if given.list:
        print("\n".join(known))
        return 0
    results = {name: _result(known[name], given.python) for name in given.cell or known}
    print("\n" + "\n".join(f"{name:<14}{result}" for name, result in results.items()))
    README.write_text(write_rows(README.read_text(), {name: _row(known[name], results[name]) for name in results}))
    return int(any(result.startswith("FAILED") for result in results.values()))


def write_rows(text: str, rows: dict[str, str]) -> str:
    """Return the README with these rows in its table of compatibility; rows of other cells stay."""
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    header = [known.pop("cell"), known.pop("--")]
    known |= rows
    lines = [*header, *(known[cell.name] for cell in CELLS if cell.name in known)]
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"


def _row(cell: Cell, result: str) -> str:
    """Return the row of a cell: its name, the versions that it pins, and what came out of it."""
    pins = ", ".join(each.replace("==", " ").removesuffix(".*") for each in cell.packages if "==" in each)
    return f"| {cell.name} | {cell.python} | {pins or 'the newest'} | {result} |"


def _result(cell: Cell, given: Path | None = None) -> str:
    print(f"\n== {cell.name}", flush=True)
    start = time.perf_counter()
    try:
        python = given or _environment(cell)
    except Skip as reason:
        return f"skipped: {reason}"
    said = []
    for command in cell.commands:
        code = _run(python, command)
        counts = f": {_count_tests()}" if command[0] == "pytest" else _read_summary()
        if code not in (0, SKIPPED):
            return f"FAILED: python -m {' '.join(command)}{counts}"
        said.append(f"{command[0]} {'skipped' if code else 'ok'}{counts}")
    return f"{', '.join(said)} ({time.perf_counter() - start:.0f} s)"


def _run(python: Path, command: Sequence[str]) -> int:
    given = [word.format(cache=FOLDER / "ivy") for word in command]
    FOLDER.mkdir(exist_ok=True)
    SUMMARY.unlink(missing_ok=True)
    if command[0] == "pytest":
        given.append(f"--junitxml={REPORT}")
    elif command[0].startswith("tests.campaigns"):
        given.append(f"--summary={SUMMARY}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment = {**kept, "PYTHONPATH": str(ROOT), "HYPOTHESIS_PROFILE": "check"}
    return subprocess.run([python, "-m", *given], cwd=ROOT, env=environment, check=False).returncode


def _count_tests() -> str:
    """Return how many tests the last pytest ran, and how many a version refused (skips)."""
    if not REPORT.is_file():
        return "no test ran"
    suites = ET.parse(REPORT).getroot().findall("testsuite")
    names = ("tests", "skipped", "failures", "errors")
    total, skipped, *bad = (sum(int(s.get(name, 0)) for s in suites) for name in names)
    return f"{total - skipped - sum(bad):,} passed, {skipped} refused, {sum(bad)} failed"


def _read_summary() -> str:
    return f": {SUMMARY.read_text()}" if SUMMARY.is_file() else ""


def _environment(cell: Cell) -> Path:
    """Make the cell's environment if it is missing, and return its Python."""
    folder = FOLDER / cell.name
    python, stamp = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join((*ALWAYS, *cell.packages))
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([_interpreter(cell.python), "-m", "venv", folder], check=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", *ALWAYS, *cell.packages], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Skip(f"pip: {lines[-1]}")
    stamp.write_text(wanted)
    return python


def _interpreter(version: str) -> str:
    """Return a working Python of this minor version."""
    for name in (sys.executable, f"python{version}"):
        found = shutil.which(name)
        if found is None:
            continue
        ask = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(ask, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return found
    raise Skip(f"there is no python{version} on the path")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
