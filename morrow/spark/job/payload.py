"""The data sent to the tasks of a write and back: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from morrow.engine.io.resolve import resolve, verify_of
from morrow.engine.io.secrets import lend
from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.buckets.postponed import waiting
from morrow.writers.messages import CommitMessage
from morrow.writers.target import WriteTarget

_DECODER = msgspec.msgpack.Decoder(tuple[CommitMessage, ...])


@dataclass(frozen=True)
class WriteJob:
    """One write to a table at one schema, without the secrets of the store, see `morrow.secrets`.

    Args:
        columns: the names of the columns of the rows, which are named by their numbers in Spark: there, dots in names
            have another meaning.
        kinds: as for `TableWriter.write`, one for all rows or the name of a column.
        overwrite: ignore the contents of the table.
        compact: fully compact every bucket that is written to.
        attempt_log: the folder of the job's attempt log; see `morrow.writers.commit.attempt_log`.
        waits: postpone rows of tables with ``bucket`` = -2.
    """

    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    branch: str
    allowed_roots: tuple[str, ...]
    schema_id: int
    commit_user: str
    columns: tuple[str, ...] = ()
    kinds: str | None = None
    overwrite: bool = False
    compact: bool = False
    attempt_log: str = ""
    waits: bool = False
    verify: str | None = None

    @classmethod
    def of(
        cls,
        target: WriteTarget,
        columns: Sequence[str],
        *,
        kinds: str | None,
        overwrite: bool,
        compact: bool,
        attempt_log: str,
    ) -> WriteJob:
        metadata, store = target.metadata, target.store
        return cls(
            store.url(metadata.root),
            lend(store.storage_options),
            metadata.branch,
            metadata.allowed_roots,
            target.schema.id,
            target.commit_user,
            tuple(columns),
            kinds,
            overwrite,
            compact,
            attempt_log,
            not target.write.postpone_fixed,
            verify_of(store),
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns in Spark."""
        return tuple(f"c{number}" for number in range(len(self.columns)))

    def numbered(self, names: Sequence[str]) -> list[str]:
        """Returns the names in Spark of those of these columns that exist."""
        called = dict(zip(self.columns, self.numbers))
        return [called[name] for name in names if name in called]

    def store(self) -> FileStore:
        return resolve(self.location, self.storage_options, self.verify)[0]

    def target(self, store: FileStore) -> WriteTarget:
        """Returns the table at the schema that the driver saw, whatever the newest is."""
        root = resolve(self.location, self.storage_options)[1]
        metadata = TableMetadata(store, root, self.branch, self.allowed_roots)
        schema = metadata.schema(self.schema_id)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        target = WriteTarget(metadata, schema, metadata.options(schema), write, self.commit_user)
        return waiting(target) if self.waits else target


def encoded(messages: Sequence[CommitMessage]) -> bytes:
    """Returns messages as MessagePack."""
    return msgspec.msgpack.encode(messages)


def decoded(data: bytes) -> tuple[CommitMessage, ...]:
    """Returns the messages from the bytes of `encoded`."""
    return _DECODER.decode(data)
