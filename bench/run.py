"""Measure and report: `python -m bench.run [--quick | --update] [arguments of pytest]`.

Creates missing tables in bench/.data, runs the suite, and writes bench/RESULTS.md and bench/plots. With --quick the
tables are a tenth of the size, peers are left out, and the report is only printed. With --update and the name of a
file, the measured sections replace the previous ones in RESULTS.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from bench import report

HERE = Path(__file__).parent
JSON = HERE / ".data" / "benchmark.json"

# Garbage collection is not measured; the fixed order keeps the sections of the report stable.
PYTEST = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--benchmark-disable-gc",
    "--benchmark-columns=median,min,max,rounds",
)


def main(arguments: list[str]) -> int:
    quick, updating = "--quick" in arguments, "--update" in arguments
    arguments = [argument for argument in arguments if argument != "--update"]
    JSON.parent.mkdir(exist_ok=True)
    JSON.unlink(missing_ok=True)
    named = any(Path(argument.split("::")[0]).exists() for argument in arguments)
    suite = [] if named else [str(HERE)]
    if not quick and not named:
        os.environ.setdefault("MORROW_BENCH_HUGE", "1")
    command = [sys.executable, "-m", "pytest", *suite, *PYTEST, f"--benchmark-json={JSON}", *arguments]
    code = subprocess.run(command, cwd=HERE.parent, check=False).returncode
    if not JSON.exists() or JSON.stat().st_size == 0:
        print("nothing was measured", file=sys.stderr)
        return code or 1
    by_hand = f"python -m bench.run --update {shlex.join(arguments)}"
    measured = report.Report.read(JSON, "make bench-quick" if quick else by_hand if updating else "make bench")
    if updating and not quick and not code:
        report.update(measured, HERE)
    elif quick or code or len(arguments) > int(quick):
        print(report.markdown(measured))
    else:
        report.write(measured, HERE)
        print(f"written: {(HERE / 'RESULTS.md').relative_to(HERE.parent)}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
