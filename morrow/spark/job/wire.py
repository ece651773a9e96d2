"""The data that the driver and tasks exchange: units of work, the target table, results of writes.

======================  ==========================================================================================
shared by all tasks     pickled once, in `Tasks`; the store as a `StoreAccess`
units of work           MessagePack, one binary value each, in batches with the column `UNIT`
commit messages         MessagePack
rows                    record batches in the types of `morrow.spark.types`; as one value: Arrow IPC
errors                  pickled
======================  ==========================================================================================
If Spark runs a task several times, the result of one attempt counts. The attempt log finds the files of the other
attempts, and after an error all files of the job.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.engine.io.resolve import get_verify, resolve
from morrow.engine.io.secrets import share_options
from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.buckets.routers import postpone_rows
from morrow.writers.commit import messages as tally
from morrow.writers.commit.attempt_log import AttemptLog, log_attempt_files
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.target import WriteTarget, override_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

UNIT = "unit"
UNITS = pa.schema([pa.field(UNIT, pa.binary(), nullable=False)])


@dataclass(frozen=True)
class StoreAccess:
    """The location of a store, or of a folder in it, and the options to open it.

    Its secrets are excluded; see `morrow.secrets` for how tasks find them.
    """

    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    verify: str | None = None

    @classmethod
    def of(cls, store: FileStore, folder: str = "") -> StoreAccess:
        return cls(store.url(folder), share_options(store.storage_options), get_verify(store))

    def opened(self) -> tuple[FileStore, str]:
        """Open the store. Return it, and the path of the folder in it."""
        return resolve(self.location or "/", self.storage_options, self.verify)

    def store(self) -> FileStore:
        return self.opened()[0]


def make_unit_batch(units: Sequence[bytes]) -> pa.RecordBatch:
    """Build a record batch of units of work."""
    return pa.record_batch([pa.array(units, pa.binary())], schema=UNITS)


def extract_units(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """Extract the units of work of a task."""
    return [unit for batch in batches for unit in batch.column(UNIT).to_pylist()]


def encode_value(value: object) -> bytes:
    """Encode a value of plain data as MessagePack."""
    return msgspec.msgpack.encode(value)


def decode_value(data: bytes, kind: type[T]) -> T:
    """Decode a value that `encode_value` has encoded."""
    value: T = _make_decoder(cast("Any", kind)).decode(data)
    return value


@lru_cache
def _make_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def decode_messages(data: bytes) -> tuple[CommitMessage, ...]:
    """Decode the commit messages that `encode_value` has encoded together."""
    return decode_value(data, tuple[CommitMessage, ...])


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Encode a frame as Arrow IPC, which keeps every type unchanged."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def decode_frame(data: bytes) -> pl.DataFrame:
    """Decode a frame that `encode_frame` has encoded."""
    return pl.read_ipc(io.BytesIO(data))


RESULT = "attempt string, messages binary, counts binary, error binary"
"""The row that a task returns: its messages and the rows that it counted, encoded, or the error (pickled)."""
_SCHEMA = pa.schema([("attempt", pa.string()), *((name, pa.binary()) for name in ("messages", "counts", "error"))])


def build_result(
    attempt: str, write: Callable[[], Iterable[CommitMessage]], final: tuple[type[MorrowError], ...] = (MorrowError,)
) -> pa.RecordBatch:
    """Return the row of a task that writes these messages. The driver adds the rows that the task counts to its tally.

    `final` errors are returned as results: another attempt would fail in the same way. After errors of the store it may
    succeed.
    """
    try:
        with tally.count_rows_of() as counted:
            messages = encode_value(list(write()))
        return _build_row(attempt, messages=messages, counts=encode_value(counted.get_counts()))
    except StorageError:
        raise
    except final as error:
        return _build_row(attempt, error=pickle.dumps(error))


def is_error(row: pa.RecordBatch) -> bool:
    return bool(row.column("error")[0].is_valid)


def _build_row(attempt: str, **values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"attempt": attempt, **values}], _SCHEMA)


def get_attempt_name() -> str:
    """Return a name that is unique among the attempts of all tasks of the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "driver" if context is None else f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"


def collect_results(attempt_log: AttemptLog, frame: Callable[[], DataFrame]) -> list[CommitMessage]:
    """Run a job, a DataFrame of `RESULT` whose tasks write through `attempt_log`. Keep only the files of its messages.

    Raises:
        MorrowError: the error of the first task that returned one. Spark's own errors, when a task failed too often.
    """
    taken: list[str] = []
    attempt_log.begin()
    try:
        rows = frame().collect()
        error = next((bytes(row.error) for row in rows if row.error), None)
        taken = [] if error else [row.attempt for row in rows]
    finally:
        attempt_log.close(taken)
    if error is not None:
        raise pickle.loads(error)
    for row in rows:
        tally.count(**decode_value(bytes(row.counts), dict[str, int | None]))
    return [message for row in rows for message in decode_messages(bytes(row.messages))]


@dataclass(frozen=True)
class TableAccess:
    """A table at one schema, with the folder of the job's attempt log, in the form that is sent to tasks.

    `waits`: rows of tables with ``bucket`` = -2 are postponed. `options`: overrides of the schema's options, for
    this job.
    """

    store: StoreAccess
    branch: str
    allowed_roots: tuple[str, ...]
    schema_id: int
    commit_user: str
    attempt_log: str = ""
    waits: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, target: WriteTarget, attempt_log: str = "") -> TableAccess:
        metadata = target.metadata
        stored = metadata.schema(target.schema.id).options
        return cls(
            StoreAccess.of(target.store, metadata.root),
            metadata.branch,
            metadata.allowed_roots,
            target.schema.id,
            target.commit_user,
            attempt_log,
            not target.write.postpone_fixed,
            {key: value for key, value in target.schema.options.items() if stored.get(key) != value},
        )

    def target(self) -> WriteTarget:
        """Return the table at the schema that the driver saw, even if there is a newer one."""
        return self._at(*self.store.opened())

    def attempt(self, name: str) -> WriteTarget:
        """Return the table as `target`; files created through it are logged for this attempt of a task."""
        store, root = self.store.opened()
        return self._at(log_attempt_files(store, self.attempt_log, name), root)

    def _at(self, store: FileStore, root: str) -> WriteTarget:
        metadata = TableMetadata(store, root, self.branch, self.allowed_roots)
        schema = metadata.schema(self.schema_id)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        target = WriteTarget(metadata, schema, metadata.options(schema), write, self.commit_user)
        target = override_options(target, self.options)
        return postpone_rows(target) if self.waits else target
