"""A simple check for missing and unneeded files of a table, by looking at all files.

This module does not use the code under test: snapshots are read as JSON, manifests as Avro, record by record. Files
with unique names (data, manifests, indexes, statistics) are identified by name, other metadata by path.

    snapshot   its lists and manifests, index files, statistics; the data files that live in it, the ones that it added
               (streams read them) and its changelog files
    tag        the same except for the files that only streams read
    changelog  its changelog files, or the data files that it added without a changelog producer

A branch has all three, and the table needs everything that its branches need.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

ADD = 0
"""The manifest entry kind of an added file."""
APPEND = 0
"""The source of a data file that was written, not compacted."""
HINTS = ("LATEST", "EARLIEST")
METADATA_FOLDERS = frozenset({"schema", "snapshot", "changelog", "tag", "consumer", "branch"})

Json = dict[str, Any]


@dataclass
class Needed:
    """Names or paths of files."""

    required: set[str] = field(default_factory=set)
    tolerated: set[str] = field(default_factory=set)
    """Files that may exist or not: hints, and lists that Java keeps with a changelog although nothing reads them."""


@dataclass(frozen=True)
class Balance:
    """Missing and unneeded files of a table; both sets are empty for an intact table."""

    missing: frozenset[str]
    unneeded: frozenset[str]


def balance(table: str | Path) -> Balance:
    """Compare the existing files with the needed ones."""
    root = Path(table)
    there, needed = present(root), needed_files(root)
    return Balance(frozenset(needed.required - there), frozenset(there - needed.required - needed.tolerated))


def present(root: Path) -> set[str]:
    """List all files below a table's folder."""
    return {_label(root, path) for path in root.rglob("*") if path.is_file()}


def needed_files(root: Path) -> Needed:
    needed = Needed()
    for line in (root, *(path for path in (root / "branch").glob("branch-*") if path.is_dir())):
        _line(root, line, needed)
    return needed


def _line(root: Path, line: Path, needed: Needed) -> None:
    """Collect the files of main, or of the branch whose metadata folder is `line`."""
    needed.tolerated.update(
        _label(root, line / folder / hint) for folder in ("snapshot", "changelog") for hint in HINTS
    )
    for pattern in ("schema/schema-*", "consumer/consumer-*"):
        needed.required.update(_label(root, path) for path in line.glob(pattern))
    roots: list[tuple[str, Callable[[Path, Json, Needed], None]]] = [
        ("snapshot", _of_snapshot),
        ("tag", _of_tag),
        ("changelog", _of_changelog),
    ]
    if _files_are_changelogs(line):
        roots += [("snapshot", _of_files_as_changelog), ("changelog", _of_files_as_changelog)]
    for kind, files in roots:
        for path in _living(line / kind, kind):
            needed.required.add(_label(root, path))
            files(root, json.loads(path.read_bytes()), needed)
    for path in (line / "tag").glob("tag-*"):
        success = line / "tag" / "tag-success-file" / f"{path.name.removeprefix('tag-')}_SUCCESS"
        needed.tolerated.add(_label(root, success))


def _living(folder: Path, kind: str) -> list[Path]:
    """List snapshots, changelogs or tags, except for expired ones before EARLIEST."""
    paths = [path for path in folder.glob(f"{kind}-*") if path.is_file()]
    hint = folder / "EARLIEST"
    earliest = folder / f"{kind}-{hint.read_text().strip()}" if hint.exists() else None
    if earliest not in paths:
        return paths
    return [path for path in paths if _number(path) >= _number(earliest)]


def _number(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _files_are_changelogs(line: Path) -> bool:
    """Return whether changelogs outlive snapshots and consist of data files, without a changelog producer."""
    newest = max((line / "schema").glob("schema-*"), key=_number)
    options = json.loads(newest.read_bytes())["options"]
    return "changelog.num-retained.max" in options and "changelog-producer" not in options


def _of_snapshot(root: Path, snapshot: Json, needed: Needed) -> None:
    _of_tag(root, snapshot, needed)
    needed.required |= _changes(root, snapshot["deltaManifestList"])
    if changelog := snapshot.get("changelogManifestList"):
        needed.required |= _changes(root, changelog)


def _of_tag(root: Path, snapshot: Json, needed: Needed) -> None:
    lists = {snapshot["baseManifestList"], snapshot["deltaManifestList"]}
    manifests = {manifest for name in lists for manifest in _manifests(root, name)}
    entries = [entry for manifest in manifests for entry in _records(root, manifest)]
    needed.required |= lists | manifests | _files(_live(entries))
    if index := snapshot.get("indexManifest"):
        needed.required |= {index, *(entry["_FILE_NAME"] for entry in _records(root, index) if entry["_KIND"] == ADD)}
    if statistics := snapshot.get("statistics"):
        needed.required.add(statistics)


def _of_changelog(root: Path, changelog: Json, needed: Needed) -> None:
    """Collect the changelog files. Nothing reads the other lists, though Java keeps some of them."""
    lists = {changelog["baseManifestList"], changelog["deltaManifestList"]}
    needed.tolerated |= lists | {manifest for name in lists for manifest in _manifests(root, name)}
    if changes := changelog.get("changelogManifestList"):
        needed.required |= _changes(root, changes)


def _of_files_as_changelog(root: Path, snapshot: Json, needed: Needed) -> None:
    """Collect the files that a writer added, which are the changes.

    Files deleted in this snapshot are tolerated: Java may remove them later, with the changelog of this snapshot.
    """
    delta = snapshot["deltaManifestList"]
    if snapshot["commitKind"] != "COMPACT":
        needed.required |= _changes(root, delta)
    entries = [entry for manifest in _manifests(root, delta) for entry in _records(root, manifest)]
    needed.tolerated |= _files(entry for entry in entries if entry["_FILE"].get("_FILE_SOURCE") == APPEND)


def _changes(root: Path, manifest_list: str) -> set[str]:
    """Return a list, its manifests, and the files that they add."""
    manifests = _manifests(root, manifest_list)
    entries = [entry for manifest in manifests for entry in _records(root, manifest)]
    return {manifest_list, *manifests} | _files(entry for entry in entries if entry["_KIND"] == ADD)


def _live(entries: list[Json]) -> list[Json]:
    """List the entries that were added more often than deleted."""
    count: Counter[str] = Counter()
    for entry in entries:
        count[_identity(entry)] += 1 if entry["_KIND"] == ADD else -1
    return [entry for entry in entries if entry["_KIND"] == ADD and count[_identity(entry)] > 0]


def _identity(entry: Json) -> str:
    file = entry["_FILE"]
    return str((entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"]))


def _files(entries: Iterable[Json]) -> set[str]:
    """Return the names of data files and of the extra files that belong to them."""
    files = [entry["_FILE"] for entry in entries]
    return {name for file in files for name in (file["_FILE_NAME"], *file["_EXTRA_FILES"])}


def _manifests(root: Path, manifest_list: str) -> list[str]:
    return [record["_FILE_NAME"] for record in _records(root, manifest_list)]


def _records(root: Path, name: str) -> tuple[Json, ...]:
    """Read the records of an Avro file. A missing file counts as empty; other checks report it."""
    path = root / "manifest" / name
    return _decoded(path.read_bytes()) if path.exists() else ()


@cache  # the same manifests are read after every step, and in every copy of a table
def _decoded(content: bytes) -> tuple[Json, ...]:
    return tuple(record for record in fastavro.reader(BytesIO(content)) if isinstance(record, dict))


def _label(root: Path, path: Path) -> str:
    below = path.relative_to(root)
    return str(below) if below.parts[0] in METADATA_FOLDERS else path.name
