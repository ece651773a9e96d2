"""Consumers: the progress of readers of a table's changes, ``consumer/consumer-<id>``.

One JSON file per consumer, ``{"nextSnapshot": n}``. Expiry keeps snapshot `n` and all after it, so that a reader which
resumes finds what it has not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument
from morrow.engine.format.json_file import built, parse_object, printed
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import one_line

CONSUMER_PREFIX = "consumer-"
NEXT_SNAPSHOT = "nextSnapshot"


@dataclass(frozen=True)
class Consumers:
    """The consumers of a table, on its branch."""

    metadata: TableMetadata

    @property
    def _folder(self) -> str:
        return f"{self.metadata.paths.branch_root}/consumer"

    def _path(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or name in (".", "..") or any(c in name for c in "/\\\0"):
            raise InvalidArgument(f"{name!r} is no name of a consumer: give a text without / and \\")
        return f"{self._folder}/{CONSUMER_PREFIX}{name}"

    def next_snapshot(self, name: str) -> int | None:
        """Returns the snapshot that the consumer reads next; None when there is no such consumer.

        Raises:
            InvalidArgument: not a valid consumer name. CorruptFile: its file is damaged.
        """
        path = self._path(name)
        try:
            data = self.metadata.store.read(path)
        except FileMissing:
            return None
        return _parsed(data, path)

    def record(self, name: str, next_snapshot: int) -> None:
        """Records that this consumer has read everything before `next_snapshot`.

        Raises:
            InvalidArgument: not a valid consumer name, or not an id. StorageError: it cannot be written.
        """
        if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 0:
            raise InvalidArgument(f"a consumer reads on from the id of a snapshot, not from {next_snapshot!r}")
        self.metadata.store.write(self._path(name), printed({NEXT_SNAPSHOT: next_snapshot}))

    def delete(self, name: str) -> bool:
        """Deletes a consumer; returns False when there was none. Raises as `record`."""
        return self.metadata.store.delete(self._path(name))

    def all(self) -> dict[str, int]:
        """Returns the next snapshot of every consumer, by name.

        Raises:
            CorruptFile: a file is damaged.
        """
        listed = self.metadata.store.list(self._folder)
        names = sorted(
            s.name.removeprefix(CONSUMER_PREFIX) for s in listed if s.name.startswith(CONSUMER_PREFIX) and not s.is_dir
        )
        found = {name: self.next_snapshot(name) for name in names}
        return {name: following for name, following in found.items() if following is not None}

    def __repr__(self) -> str:
        return (
            "\n".join(f"{one_line(name)}: snapshot {following} is next" for name, following in self.all().items())
            or "none"
        )

    def slowest(self) -> tuple[str, int] | None:
        """Return the consumer that is furthest behind and the snapshot it reads next; None if there is none."""
        return min(self.all().items(), key=lambda item: item[1], default=None)


def _parsed(data: bytes, path: str) -> int:
    following = built(path, lambda node: node[NEXT_SNAPSHOT], parse_object(data, path))
    if isinstance(following, bool) or not isinstance(following, int):
        raise CorruptFile(path, f"{NEXT_SNAPSHOT} is {following!r}, which is no snapshot id", hint="write it anew")
    return following
