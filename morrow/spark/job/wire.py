"""The forms in which data travel between the driver and tasks.

======================  ==========================================================================================
shared by all tasks     pickled once, in `Tasks`; the store as a `StoreAccess`
units of work           MessagePack, one binary value each, in batches with the column `UNIT`
commit messages         MessagePack
rows                    record batches in the types of `morrow.spark.types`; as one value: Arrow IPC
errors                  pickled
======================  ==========================================================================================
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.io.resolve import resolve, verify_of
from morrow.engine.io.secrets import lend
from morrow.engine.io.store import FileStore
from morrow.writers.commit.messages import CommitMessage

T = TypeVar("T")

UNIT = "unit"
UNITS = pa.schema([pa.field(UNIT, pa.binary(), nullable=False)])


@dataclass(frozen=True)
class StoreAccess:
    """The location of a store, or of a folder in it, and how to open it.

    Its secrets are excluded; see `morrow.secrets` for how tasks find them.
    """

    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    verify: str | None = None

    @classmethod
    def of(cls, store: FileStore, folder: str = "") -> StoreAccess:
        return cls(store.url(folder), lend(store.storage_options), verify_of(store))

    def opened(self) -> tuple[FileStore, str]:
        """Returns the store, and the path of the folder in it."""
        return resolve(self.location or "/", self.storage_options, self.verify)

    def store(self) -> FileStore:
        return self.opened()[0]


def unit_batch(units: Sequence[bytes]) -> pa.RecordBatch:
    """Returns units of work as a record batch."""
    return pa.record_batch([pa.array(units, pa.binary())], schema=UNITS)


def units_in(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """Returns the units of work of a task."""
    return [unit for batch in batches for unit in batch.column(UNIT).to_pylist()]


def encoded(value: object) -> bytes:
    """Returns a value of plain data as MessagePack."""
    return msgspec.msgpack.encode(value)


def decoded(data: bytes, kind: type[T]) -> T:
    """Returns the value of this type that was `encoded`."""
    value: T = _decoder(cast("Any", kind)).decode(data)
    return value


@lru_cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def messages_in(data: bytes) -> tuple[CommitMessage, ...]:
    """Returns the commit messages that were `encoded` together."""
    return decoded(data, tuple[CommitMessage, ...])


def frame_bytes(frame: pl.DataFrame) -> bytes:
    """Returns a frame as Arrow IPC, which keeps every type unchanged."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def frame_of(data: bytes) -> pl.DataFrame:
    """Returns the frame from the bytes of `frame_bytes`."""
    return pl.read_ipc(io.BytesIO(data))
