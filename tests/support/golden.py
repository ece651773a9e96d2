"""The golden reads as data: the table, the arguments of the scan, and the expected rows."""

from __future__ import annotations

import fcntl
import functools
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from morrow.engine.format.types import DataField, from_json_field
from tests.support.profile import IS_LONG

GOLDEN = Path(__file__).parents[1] / "golden"
ARCHIVE = GOLDEN / "tables.tar.xz"
INDEX = GOLDEN / "index.json"
REFUSED = {
    f"public/dv_enabled_later/snapshot-{number}": "not compacted, of before deletion vectors were enabled"
    for number in (1, 2, 3)
}
"""Reads that Morrow refuses on purpose, with the reason: Java silently returns none of their rows."""


@dataclass(frozen=True)
class Read:
    """One read of a case.

    `scan` holds the arguments of ``Table.scan``. Exactly one of `rows_file`, `inputs` and `error` is given:

    * `rows_file`: the file with the expected rows;
    * `inputs`: the written files (each row begins with its kind), if Java could not read them back;
    * `error`: Java's message if the rows are unknown, or the reason in `REFUSED`.
    """

    case: str
    id: str
    engine: str
    scan: Mapping[str, Any]
    schema_id: int
    rows_file: str | None = None
    inputs: tuple[str, ...] = ()
    error: str | None = None
    set_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.case}/{self.id}"

    def table(self, root: Path) -> Path:
        return root / self.case / "warehouse" / "db.db" / "t"

    def fields(self, root: Path) -> tuple[DataField, ...]:
        """Read the columns of the rows in order."""
        folder = self.table(root)
        if branch := self.scan.get("branch"):
            folder = folder / "branch" / f"branch-{branch}"
        schema = json.loads((folder / "schema" / f"schema-{self.schema_id}").read_text())
        return tuple(from_json_field(node) for node in schema["fields"])

    def rows(self, root: Path) -> list[list[Any]]:
        """Read the expected rows as parsed JSON."""
        folder = root / self.case
        if self.rows_file is not None:
            return jsonl(folder / self.rows_file)
        return [row[1:] for name in self.inputs for row in jsonl(folder / name)]


@dataclass(frozen=True)
class Case:
    """A golden table, such as ``public/pk_dedup_b1``."""

    name: str
    engine: str
    reads: tuple[Read, ...] = field(default=())
    traits: frozenset[str] = frozenset()
    """The options, types, formats and operations that it exercises."""


@functools.cache
def cases() -> tuple[Case, ...]:
    """List every case of the index in order; this is cheap, since nothing is unpacked."""
    return tuple(_case(entry) for entry in json.loads(INDEX.read_text()))


def reads() -> list[Read]:
    return [read for case in cases() for read in case.reads]


def sample_cases(among: Iterable[str]) -> frozenset[str]:
    """Choose few cases that together have each trait of all given ones: the case with the most new traits goes first.

    `make test-long` takes all.
    """
    traits = {case.name: case.traits for case in cases()}
    left = {name: traits[name] for name in sorted(among)}
    if IS_LONG:
        return frozenset(left)
    chosen, missing = set(), set().union(*left.values())
    while missing:
        chosen.add(richest := max(left, key=lambda name: len(left[name] & missing)))
        missing -= left[richest]
    return frozenset(chosen)


def _case(entry: dict[str, Any]) -> Case:
    name, engine = entry["case"], entry["engine"]
    return Case(
        name,
        engine,
        tuple(_read(name, engine, tuple(entry.get("set_columns", ())), r) for r in entry["reads"]),
        frozenset(entry["traits"]),
    )


def _read(case: str, engine: str, set_columns: tuple[str, ...], entry: dict[str, Any]) -> Read:
    error = REFUSED.get(f"{case}/{entry['id']}", entry.get("error"))
    untold = error is None and "inputs" not in entry
    return Read(
        case=case,
        id=entry["id"],
        engine=engine,
        scan=entry["scan"],
        schema_id=entry["schema"],
        rows_file=entry.get("file", f"expected/{entry['id']}.jsonl") if untold else None,
        inputs=tuple(entry.get("inputs", ())),
        error=error,
        set_columns=set_columns,
    )


def jsonl(path: Path) -> list[list[Any]]:
    lines = path.read_bytes().splitlines()
    return json.loads(b"[%s]" % b",".join(lines))  # type: ignore[no-any-return]  # JSON rows


def unpack(cache: Path) -> Path:
    """Return the folder ``<cache>/golden-<hash>`` with the archive's files, and unpack the archive if it is missing.

    If several processes call this at once, one unpacks and the others wait for it.
    """
    target = cache / f"golden-{sha256(ARCHIVE.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    waiting = cache / "unpacking"
    with waiting.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            draft = Path(tempfile.mkdtemp(prefix="golden-draft-", dir=cache))
            _extract(draft)
            draft.rename(target)
        waiting.unlink(missing_ok=True)
    return target


def _extract(folder: Path) -> None:
    """Unpack the archive with `tar` if it is installed, since Python's module takes ten times as much CPU."""
    command = ("tar", "-x", "-f", str(ARCHIVE), "-C", str(folder))
    if not shutil.which("tar") or subprocess.run(command, check=False, capture_output=True).returncode:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
