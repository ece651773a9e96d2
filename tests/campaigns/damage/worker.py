"""One process of a campaign: reads jobs, one a line of JSON, and writes what it does and what came of it.

A job names a table, its folder, a kind of file and either seeds of damages or the damages themselves. Before a damaged
table is read, a line says which damage; when the process dies, that line is the last.
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
"""Of processor time for one damage; the tables are small."""
MOST_BYTES = 1 << 29
"""By which the memory of the process may grow for one damage."""
ADDRESS_SPACE = 16 << 30
ENOUGH, ONE_OF = 2, 4
"""When so many readings were all refused, the others are asked after one of so many damages only."""

OPENED: list[str] = []
"""Paths that Python has opened since it was last emptied."""


class Sound:
    """A table as it was, a copy to damage, and what readings give of the sound one."""

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
        # Data files are opened by Polars, of which Python hears nothing.
        plan = morrow.open(self.folder).scan().plan
        data = [file.path for part in plan.parts for file in part.files]
        return frozenset(path.removeprefix(prefix) for path in (*OPENED, *data) if path.startswith(prefix))

    def answer(self, reading: Reading) -> Answer | str:
        """Return what the sound table says; the name of the error where it cannot be read."""
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
    """Return the answer, or the name of a typed error; any other error goes up."""
    try:
        return reading.ask(folder)
    except MorrowError as error:
        return type(error).__name__


def outcome(table: Sound, kind: Kind, file: str, what: str) -> dict[str, Any]:
    """Damages `file` in the copy, reads, and mends it again; return the outcome and the readings that made it so."""
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
        except BaseException as error:  # noqa: BLE001 - whatever is not a MorrowError is what is looked for
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
    """Yield file and damage of each case of a job."""
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
    """Keep all but results from standard output."""
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
