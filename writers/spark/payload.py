"""What travels to the tasks of a write, and comes back: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from morrow.engine.io.resolve import resolve
from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.messages import CommitMessage
from morrow.writers.target import WriteTarget

_DECODER = msgspec.msgpack.Decoder(tuple[CommitMessage, ...])


@dataclass(frozen=True)
class WriteJob:
    """One write to a table at one schema. Where a store needs secrets they are in here, and not in what Spark prints.

    Args:
        columns: the names of the columns of the rows, which are called by their numbers on the way: Spark takes dots in
            names for something else.
        kinds: as for `TableWriter.write`, one for all rows or the name of a column.
        overwrite: what the table holds does not count.
        compact: compact every bucket that is written to fully.
        ledger: the folder of the job's ledger; see `morrow.writers.spark.ledger`.
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
    ledger: str = ""

    @classmethod
    def of(
        cls,
        target: WriteTarget,
        columns: Sequence[str],
        *,
        kinds: str | None,
        overwrite: bool,
        compact: bool,
        ledger: str,
    ) -> WriteJob:
        metadata, store = target.metadata, target.store
        return cls(
            store.url(metadata.root),
            store.storage_options,
            metadata.branch,
            metadata.allowed_roots,
            target.schema.id,
            target.commit_user,
            tuple(columns),
            kinds,
            overwrite,
            compact,
            ledger,
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """What the columns are called on the way."""
        return tuple(f"c{number}" for number in range(len(self.columns)))

    def numbered(self, names: Sequence[str]) -> list[str]:
        """What those of these columns are called that there are."""
        called = dict(zip(self.columns, self.numbers))
        return [called[name] for name in names if name in called]

    def store(self) -> FileStore:
        return resolve(self.location, self.storage_options)[0]

    def target(self, store: FileStore) -> WriteTarget:
        """The table at the schema that the driver saw, whatever it is by now."""
        root = resolve(self.location, self.storage_options)[1]
        metadata = TableMetadata(store, root, self.branch, self.allowed_roots)
        schema = metadata.schema(self.schema_id)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        return WriteTarget(metadata, schema, metadata.options(schema), write, self.commit_user)


def encoded(messages: Sequence[CommitMessage]) -> bytes:
    """Messages as MessagePack."""
    return msgspec.msgpack.encode(messages)


def decoded(data: bytes) -> tuple[CommitMessage, ...]:
    """The messages that were `encoded`."""
    return _DECODER.decode(data)
