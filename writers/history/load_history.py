"""The record of loaded files, so that `Catalog.import_table` and COPY INTO load a file once.

The commit of a load stores hashes of the names and states of its files as properties of its snapshot: rows and record
are committed together. The newest record of an import is also in a file of the table, since snapshots expire. COPY INTO
also writes the files that Java's COPY INTO reads, below the folder of the table:
``copy-into/history/load-<hash of the path>-<epoch milliseconds>``, a JSON object each.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as make_field

import msgspec

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.store import read_each
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.target import WriteTarget

FILES = "morrow.import.files"
BEGUN = "morrow.import.begun"
"""The property of an incomplete import of a versioned table: JSON of its title and version."""
NAME_BYTES, STATE_BYTES = 8, 4
MAX_RECORDED_FILES = 200_000
"""Files of earlier loads that a record names; older ones count as new. A record of 200,000 has 3.2 MB."""
FOLDER = "copy-into/history"
KEPT = "copy-into/imports"
"""The folder of the records of imports: properties as JSON, in files named by snapshot ids. Only Morrow reads it."""
HASH_DIGITS = 16
"""Hexadecimal digits of the hash of a path in the name of a history file."""


@dataclass(frozen=True)
class Record:
    """The files that a table's snapshots record as loaded, by hashes, and the versions of begun imports."""

    files: Mapping[bytes, bytes] = make_field(default_factory=dict)
    begun: Mapping[str, str] = make_field(default_factory=dict)

    @classmethod
    def of(cls, metadata: TableMetadata) -> Record:
        """Return the newest record; none from before a moment in which the table was empty."""
        newest, oldest = metadata.latest_snapshot(), metadata.earliest_snapshot_id() or FIRST_SNAPSHOT_ID
        for snapshot_id in range(newest.id if newest else 0, oldest - 1, -1):
            snapshot = metadata.snapshot_or_none(snapshot_id)
            if snapshot is None:
                oldest = snapshot_id + 1
                break
            if snapshot.total_record_count == 0:
                return cls()
            if FILES in snapshot.properties:
                return cls._parse(snapshot.properties)
        return cls._read_kept(metadata, oldest) if newest is not None and metadata.branch == MAIN_BRANCH else cls()

    @classmethod
    def _read_kept(cls, metadata: TableMetadata, oldest: int) -> Record:
        """Return the newest record of an expired snapshot, from its file."""
        expired = [each for each in _list_kept(metadata) if each < oldest]
        return cls._parse(json.loads(metadata.store.read(_make_kept_path(metadata, expired[-1])))) if expired else cls()

    def keep(self, metadata: TableMetadata, snapshot: Snapshot) -> None:
        """Write the record of a snapshot into a file that outlives it; delete the files that are not needed."""
        if metadata.branch != MAIN_BRANCH:
            return
        metadata.store.write(_make_kept_path(metadata, snapshot.id), json.dumps(self.properties()).encode())
        oldest = metadata.earliest_snapshot_id() or FIRST_SNAPSHOT_ID
        for each in [each for each in _list_kept(metadata) if each < oldest][:-1]:
            metadata.store.delete(_make_kept_path(metadata, each))

    @staticmethod
    def forget(metadata: TableMetadata, last: int) -> None:
        """Delete the files of the records of snapshots after `last`, before these are removed."""
        for each in _list_kept(metadata) if metadata.branch == MAIN_BRANCH else ():
            if each > last:
                metadata.store.delete(_make_kept_path(metadata, each))

    @classmethod
    def _parse(cls, properties: Mapping[str, str]) -> Record:
        data, step = b64decode(properties[FILES]), NAME_BYTES + STATE_BYTES
        files = {data[at : at + NAME_BYTES]: data[at + NAME_BYTES : at + step] for at in range(0, len(data), step)}
        return cls(files, json.loads(properties.get(BEGUN, "{}")))

    def holds(self, name: str, state: str) -> bool:
        """Return whether a file, or another source, is loaded; a source without a name never is.

        Raises `InvalidArgument`: a source of this name is, but it has changed since.
        """
        if not name or _digest(name, NAME_BYTES) not in self.files:
            return False
        if not self.holds_state(name, state):
            raise InvalidArgument(
                f"{name} was imported into this table before, and has changed since; nothing was imported. "
                "To add all its rows again, append them: Table.append, or morrow append"
            )
        return True

    def holds_state(self, name: str, state: str) -> bool:
        """Return whether a file is loaded in this state."""
        return self.files.get(_digest(name, NAME_BYTES)) == _digest(state, STATE_BYTES)

    def add(self, states: Iterable[tuple[str, str]], begun: Mapping[str, str]) -> Record:
        """Return the record with more names and states."""
        new = {_digest(name, NAME_BYTES): _digest(state, STATE_BYTES) for name, state in states if name}
        whole = {**self.files, **new}
        return Record(dict([*whole.items()][-max(MAX_RECORDED_FILES, len(new)) :]), begun)

    def properties(self) -> dict[str, str]:
        """Return the properties of a snapshot."""
        files = b64encode(b"".join(name + state for name, state in self.files.items())).decode()
        return {**({FILES: files} if files else {}), **({BEGUN: json.dumps(dict(self.begun))} if self.begun else {})}


def _make_kept_path(metadata: TableMetadata, snapshot_id: int) -> str:
    return f"{metadata.root}/{KEPT}/{snapshot_id}"


def _list_kept(metadata: TableMetadata) -> list[int]:
    names = [each.name for each in metadata.store.list(f"{metadata.root}/{KEPT}")]
    return sorted(int(name) for name in names if name.isdigit())


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=size).digest()


@dataclass(frozen=True)
class SourceFile:
    """A file that COPY INTO may load."""

    path: str
    """The path as Java's history names it: ``file:/folder/name`` of a local file."""
    size: int
    modified_millis: int
    name: str
    state: str
    """The name and state of the file in a `Record`."""

    @property
    def base(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Tally:
    """The rows of a file, how many of them are errors, and the first error."""

    rows: int = 0
    errors: int = 0
    first_error: str | None = None


def describe_cast_error(field: DataField, value: object) -> str:
    """Return the first error of a file whose value cannot be cast."""
    return f"Cast failure in column {field.name!r}: '{value}' is no {field.type}"


class _Load(msgspec.Struct, rename="camel"):
    """A file of the history: a source file in the state in which it was loaded."""

    file_path: str
    file_size: int
    last_modified: int
    loaded_at: int = 0
    snapshot_id: int = 0
    rows_loaded: int = 0


def find_loaded(metadata: TableMetadata, record: Record, files: Sequence[SourceFile]) -> set[str]:
    """Return the paths of the files that are loaded in their present state, by Morrow's record or Java's history."""
    found = {file.path for file in files if record.holds_state(file.name, file.state)}
    hashes = {_hash_path(file.path) for file in files if file.path not in found}
    folder = f"{metadata.root}/{FOLDER}"
    names = [each.name for each in metadata.store.list(folder) if hashes.intersection(each.name.split("-")[1:2])]
    texts = read_each(metadata.store, lambda name: metadata.store.read(f"{folder}/{name}"), names)
    loads = {(load.file_path, load.file_size, load.last_modified) for load in map(_parse_load, texts) if load}
    return found | {file.path for file in files if (file.path, file.size, file.modified_millis) in loads}


def _hash_path(path: str) -> str:
    return hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:HASH_DIGITS]


def _parse_load(data: bytes) -> _Load | None:
    """Return a load of the history; None for a damaged file, which Java ignores, too."""
    try:
        return msgspec.json.decode(data, type=_Load)
    except msgspec.MsgspecError:
        return None


def write_history(metadata: TableMetadata, rows: Mapping[SourceFile, int], snapshot: Snapshot | None) -> None:
    """Write the history that Java reads: files with the number of rows loaded of each, and the last snapshot."""
    millis = time.time_ns() // 1_000_000
    for file, count in rows.items():
        load = _Load(file.path, file.size, file.modified_millis, millis, snapshot.id if snapshot else 0, count)
        name = f"load-{_hash_path(file.path)}-{millis}"
        metadata.store.write(f"{metadata.root}/{FOLDER}/{name}", msgspec.json.encode(load))


@dataclass(frozen=True)
class LoadPremise(Premise):
    """The condition that no other load was committed since the snapshot `read`: it may have loaded the same files."""

    def check(self, target: WriteTarget, latest: Snapshot | None) -> None:
        """Raise `CommitConflict` unless the premise still holds on `latest`."""
        before = None if self.read is None else self.read.properties.get(FILES)
        first = self.read.id + 1 if self.read else FIRST_SNAPSHOT_ID
        for snapshot_id in range(first, latest.id + 1 if latest else first):
            snapshot = target.metadata.snapshot_or_none(snapshot_id)
            if snapshot is None or snapshot.properties.get(FILES, before) != before:
                raise CommitConflict(f"{target.where}: snapshot {snapshot_id} loaded files meanwhile; {ADVICE}")
