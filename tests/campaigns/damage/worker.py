"""A process of a campaign, which reads jobs as lines of JSON, and writes its cases and their outcomes.

A job names a table, its folder, a kind of file and either seeds of damages or the damages themselves. Before a damaged
table is read, a line announces the damage; if the process dies, that line is the last.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import morrow
from morrow.engine.errors import MorrowError
from tests.campaigns.damage.changes import apply, random_change
from tests.campaigns.damage.kinds import KINDS, Kind, files_of
from tests.campaigns.damage.readings import Answer, Reading, is_renamed, is_same, newest

MOST_SECONDS = 10.0
"""Maximum processor time per damage. The tables are small."""
MOST_BYTES = 1 << 29
"""Maximum growth of the process's memory per damage."""
ADDRESS_SPACE = 16 << 30
ENOUGH, ONE_OF = 2, 4
"""If the first 2 reads were all refused, the other reads only run after one damage in 4."""

OPENED: list[str] = []
"""Paths that Python has opened since the list was last cleared."""


class Sound:
    """An intact table, a copy to damage, and the results of reads of the intact table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = Path(tempfile.mkdtemp(prefix="damage-"))
        self.copy = self.scratch / "t"
        shutil.copytree(folder, self.copy)
        self.answers: dict[str, Answer | str] = {}
        self.opened = self._opened()

    def _opened(self) -> frozenset[str]:
        """List the files that a read of the newest rows opens."""
        questions = newest(self.folder)
        morrow.clear_caches()
        OPENED.clear()
        for question in questions:
            self.answer(question)
        prefix = f"{self.folder}/"
        # Polars opens data files without Python's hook.
        plan = morrow.open(self.folder).scan().plan
        data = [file.path for part in plan.parts for file in part.files]
        return frozenset(path.removeprefix(prefix) for path in (*OPENED, *data) if path.startswith(prefix))

    def answer(self, reading: Reading) -> Answer | str:
        """Return the result for the intact table, or the error's name if it cannot be read."""
        if reading.name not in self.answers:
            self.answers[reading.name] = answered(reading, self.folder)
        return self.answers[reading.name]

    def files(self, kind: Kind) -> list[str]:
        """List the files of this kind that may be damaged."""
        found = [file for file in files_of(self.folder) if kind.has(self.folder, file)]
        return [file for file in found if file in self.opened] if kind.opened else found


@lru_cache(maxsize=4)
def sound(folder: str) -> Sound:
    return Sound(Path(folder))


def answered(reading: Reading, folder: Path) -> Answer | str:
    """Return the result or the name of a typed error; other errors are raised."""
    try:
        return reading.ask(folder)
    except MorrowError as error:
        return type(error).__name__


def outcome(table: Sound, kind: Kind, file: str, what: str) -> dict[str, Any]:
    """Damage `file` in the copy, read, and restore it; return the outcome and the reads that caused it."""
    path = table.copy / file
    content = path.read_bytes()
    path.write_bytes(apply(what, content))
    started, memory = time.process_time(), _peak()
    try:
        found = _judged(table, kind.readings(table.folder, file), thorough=crc32(what.encode()) % ONE_OF == 0)
    finally:
        path.write_bytes(content)
    seconds, grown = time.process_time() - started, _peak() - memory
    if found["out"] not in ("silent", "renamed", "untyped") and (seconds > MOST_SECONDS or grown > MOST_BYTES):
        return {"out": "slow", "why": f"{seconds:.1f} s, {grown >> 20} MB"}
    return found


def _judged(table: Sound, readings: Sequence[Reading], thorough: bool) -> dict[str, Any]:
    refused: list[str] = []
    silent: list[str] = []
    renamed = True
    morrow.clear_caches()
    for number, reading in enumerate(readings):
        if number >= ENOUGH and len(refused) == number and not thorough:
            break
        truth = table.answer(reading)
        try:
            found = answered(reading, table.copy)
        except BaseException as error:  # noqa: BLE001 - the campaign looks for anything but a MorrowError
            return {"out": "untyped", "ops": [reading.name], "why": f"{type(error).__name__}: {error}"[:300]}
        if isinstance(found, str):
            refused.append(found)
        elif reading.exact and (isinstance(truth, str) or not is_same(found, truth)):
            silent.append(reading.name)
            renamed = renamed and not isinstance(truth, str) and is_renamed(found, truth)
    if silent:
        return {"out": "renamed" if renamed else "silent", "ops": silent}
    return {"out": "refused", "why": refused[0]} if refused else {"out": "same"}


def damages(job: dict[str, Any], table: Sound, kind: Kind) -> Iterator[tuple[str, str]]:
    """Yield the file and damage of each case of a job."""
    if "cases" in job:
        yield from map(tuple, job["cases"])
        return
    files = table.files(kind)
    if not files:
        _say(none=True)
    for seed in job["seeds"] if files else ():
        random = Random(seed)
        file = random.choice(files)
        content = (table.folder / file).read_bytes()
        if content:
            yield file, random_change(random, content, kind.start(content))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep everything but results from standard output."""
    with Path("/dev/null").open("w") as nothing:
        stdout, sys.stdout = sys.stdout, nothing
        try:
            yield
        finally:
            sys.stdout = stdout


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)
    _say(ready=True)
    for line in sys.stdin:
        job = json.loads(line)
        kind = KINDS[job["kind"]]
        table = sound(job["folder"])
        for file, what in damages(job, table, kind):
            case = {"table": job["table"], "kind": kind.name, "file": file, "what": what}
            _say(begun=case)
            with _quiet():
                found = outcome(table, kind, file, what)
            _say(done={**case, **found})
        _say(ready=True)


if __name__ == "__main__":
    main()
