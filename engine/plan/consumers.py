"""Consumers: the progress of readers of a table's changes, ``consumer/consumer-<id>``.

One JSON file per consumer, ``{"nextSnapshot": n, "readCommit": {...}}``. The second member is specific to Morrow; other
readers of such files ignore it. It identifies the commit of snapshot `n` - 1. After a rollback or a fast-forward,
another commit has that id, and a reader would skip the rows of snapshots whose ids were reused.

Expiry keeps snapshot `n` and all after it, so that a reader which resumes finds the changes it has not read. It also
keeps snapshot `n` - 1 if its commit is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from morrow.engine.arguments import check_instance, is_name
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument
from morrow.engine.format.metadata_json import build_from_json, format_json, parse_object
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import escape_to_line

CONSUMER_PREFIX = "consumer-"
NEXT_SNAPSHOT = "nextSnapshot"
READ_COMMIT = "readCommit"


class ReadCommit(msgspec.Struct, frozen=True, rename="camel"):
    """The identity of a commit among all commits that have or had the same snapshot id.

    The changelog of an expired snapshot has the same identity.
    """

    commit_user: str
    commit_identifier: int
    time_millis: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> ReadCommit:
        return cls(snapshot.commit_user, snapshot.commit_identifier, snapshot.time_millis)


@dataclass(frozen=True)
class Progress:
    """The snapshot that a consumer reads next, and the commit of the snapshot before, if recorded."""

    next_snapshot: int
    read: ReadCommit | None = None

    @property
    def oldest_needed(self) -> int:
        """The oldest snapshot that the consumer needs to continue."""
        return self.next_snapshot - (self.read is not None)


@dataclass(frozen=True)
class Consumers:
    """The consumers of a table, on its branch."""

    metadata: TableMetadata

    @property
    def _folder(self) -> str:
        return f"{self.metadata.paths.branch_root}/consumer"

    def _path(self, name: str) -> str:
        if not is_name(name) or not name.strip() or name in (".", "..") or any(c in name for c in "/\\"):
            raise InvalidArgument(f"{name!r} is not a consumer name: give a text without / and \\")
        return f"{self._folder}/{CONSUMER_PREFIX}{name}"

    def next_snapshot(self, name: str) -> int | None:
        """Return the snapshot that the consumer reads next; None if the consumer does not exist.

        Raises `InvalidArgument`: not a valid consumer name. `CorruptFile`: its file is damaged.
        """
        found = self.progress(name)
        return None if found is None else found.next_snapshot

    def progress(self, name: str) -> Progress | None:
        """Return the progress of a consumer; None if it does not exist. Raises as `next_snapshot`."""
        path = self._path(name)
        try:
            data = self.metadata.store.read(path)
        except FileMissing:
            return None
        return _parse_progress(data, path)

    def record(self, name: str, next_snapshot: int, read: ReadCommit | None = None) -> None:
        """Record that this consumer has read everything before `next_snapshot`.

        `read`: the commit of the snapshot before, by which a stream that resumes notices a rollback; None: unknown.

        Raises `InvalidArgument`: not a valid consumer name, or not an id. `StorageError`: it cannot be written.
        """
        if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 0:
            raise InvalidArgument(f"a consumer reads on from the id of a snapshot, not from {next_snapshot!r}")
        check_instance(read, (ReadCommit, type(None)), "the commit that a consumer has read")
        mark = {} if read is None else {READ_COMMIT: msgspec.to_builtins(read)}
        self.metadata.store.write(self._path(name), format_json({NEXT_SNAPSHOT: next_snapshot, **mark}))

    def delete(self, name: str) -> bool:
        """Delete a consumer; return False if it does not exist. Raises as `record`."""
        return self.metadata.store.delete(self._path(name))

    def all(self) -> dict[str, int]:
        """Return the next snapshot of every consumer, by name. Raises `CorruptFile`: a file is damaged."""
        return {name: found.next_snapshot for name, found in self._each().items()}

    def _each(self) -> dict[str, Progress]:
        listed = self.metadata.store.list(self._folder)
        names = sorted(
            s.name.removeprefix(CONSUMER_PREFIX) for s in listed if s.name.startswith(CONSUMER_PREFIX) and not s.is_dir
        )
        each = {name: self.progress(name) for name in names}
        return {name: found for name, found in each.items() if found is not None}

    def __repr__(self) -> str:
        return (
            "\n".join(f"{escape_to_line(name)}: snapshot {following} is next" for name, following in self.all().items())
            or "none"
        )

    def slowest(self) -> tuple[str, int] | None:
        """Return the consumer that is furthest behind and the oldest snapshot it needs; None if there is none."""
        needed = ((name, progress.oldest_needed) for name, progress in self._each().items())
        return min(needed, key=lambda item: item[1], default=None)


def _parse_progress(data: bytes, path: str) -> Progress:
    node = parse_object(data, path)
    following = build_from_json(path, lambda node: node[NEXT_SNAPSHOT], node)
    if isinstance(following, bool) or not isinstance(following, int):
        raise CorruptFile(path, f"{NEXT_SNAPSHOT} is {following!r}, which is not a snapshot id", hint="rewrite it")
    return Progress(following, build_from_json(path, _parse_read_commit, node))


def _parse_read_commit(node: Mapping[str, Any]) -> ReadCommit | None:
    mark = node.get(READ_COMMIT)
    return None if mark is None else msgspec.convert(mark, ReadCommit)
