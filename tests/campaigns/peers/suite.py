"""The files of pypaimon's test suite, each in its own pytest, whose reads this process answers."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Listener
from pathlib import Path

from tests.campaigns.peers import hook
from tests.campaigns.peers.answering import Answers, Case

TESTS = Path("pypaimon", "tests")
PATTERNS = ("*_test.py", "test_*.py")
PASSED, FAILED = (0, 5), (1,)
"""Exit codes of pytest: all tests passed, or there were none; some failed."""


@dataclass
class FileRun:
    """A file of the suite: how its pytest ended, and its cases."""

    file: str
    ended: str
    cases: list[Case]


def files_of(suite: Path, patterns: Sequence[str] = PATTERNS) -> list[Path]:
    """List the test files, relative to the suite."""
    found = {path.relative_to(suite) for pattern in patterns for path in (suite / TESTS).rglob(pattern)}
    return sorted(found)


def run(suite: Path, python: str, files: Sequence[Path], *, workers: int, patience: float) -> Iterator[FileRun]:
    """Run the files, `workers` at a time, each for at most `patience` seconds."""
    with ThreadPoolExecutor(workers) as pool:
        for done in as_completed(pool.submit(_run_file, suite, python, file, patience) for file in files):
            yield done.result()


def _run_file(suite: Path, python: str, file: Path, patience: float) -> FileRun:
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        answers = Answers(Path(folder))
        with Listener(f"{folder}/socket", "AF_UNIX") as listener:
            server = threading.Thread(target=_answer, args=(listener, answers), daemon=True)
            server.start()
            process = subprocess.Popen(
                [python, "-m", "pytest", "-q", "-p", "hook", "-p", "no:cacheprovider", str(file)],
                cwd=suite,
                env={
                    **os.environ,
                    hook.ADDRESS: f"{folder}/socket",
                    "PYTHONPATH": os.pathsep.join([str(Path(hook.__file__).parent), *_list_given_folders()]),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "TMPDIR": folder,
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = process.wait(patience)
                ended = "passed" if code in PASSED else "failed" if code in FAILED else f"exit code {code}"
            except subprocess.TimeoutExpired:
                ended = "stopped"
            finally:
                _kill_group(process)
                with Client(f"{folder}/socket", "AF_UNIX") as last:
                    last.send(None)
                server.join()
        return FileRun(str(file), ended, answers.cases)


def _list_given_folders() -> list[str]:
    """Return the folders of PYTHONPATH, which may hold packages that pypaimon's environment lacks."""
    return [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _answer(listener: Listener, answers: Answers) -> None:
    """Answer messages until one of them is None."""
    while True:
        with listener.accept() as connection:
            try:
                while (message := connection.recv()) is not None:
                    connection.send(answers.answer(message))
            except (EOFError, OSError):  # pytest has ended
                continue
            return


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a pytest and the processes started by its tests."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
