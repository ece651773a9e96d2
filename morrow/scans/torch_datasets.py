"""Scans as datasets of PyTorch: shuffled chunks of rows, shared among ranks and workers, with resumption.

A scan is divided into chunks of neighbouring rows. With a seed, the chunks are shuffled in each epoch. A consumer is a
worker of a `DataLoader` in one rank; each consumer reads other chunks. It reads several chunks at a time and shuffles
their rows together. All of this depends on the seed and the epoch alone, so that a consumer which has given a number of
rows can continue after them: chunks whose rows were all given are counted, by metadata if possible, and not read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
import torch
from torch.utils.data import IterableDataset, get_worker_info

from morrow.engine.arguments import check_instance
from morrow.engine.errors import InvalidArgument

if TYPE_CHECKING:
    from morrow.scans.splits import Split


class TorchRows(IterableDataset):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """The rows of a scan, for a `torch.utils.data.DataLoader`. Made by `Scan.to_torch`; it pickles."""

    def __init__(
        self,
        chunks: Sequence[Split],
        *,
        batch_rows: int | None,
        seed: int | None,
        mixed_chunks: int,
        rank: int | None,
        world_size: int | None,
    ) -> None:
        super().__init__()
        self._chunks, self._batch_rows, self._seed, self._mixed = tuple(chunks), batch_rows, seed, mixed_chunks
        self._rank, self._world_size = _find_rank(rank, world_size)
        # Shared, so that workers which outlive an epoch see the next one.
        self._epoch = torch.zeros((), dtype=torch.long).share_memory_()
        self._skipped = self._given = 0

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 0."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose another order of the rows, if there is a seed. Call it before each epoch, in every rank."""
        self._epoch.fill_(check_instance(epoch, int, "epoch"))
        self._skipped = self._given = 0

    def state_dict(self) -> dict[str, int]:
        """Return the progress of this process: the rows given in this epoch. `StatefulDataLoader` calls it."""
        return {"epoch": self.epoch, "rows": self._given, **self._identify()}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue after the rows of a `state_dict`.

        Raises `InvalidArgument`: the state of a dataset with another snapshot, seed or number of ranks or workers.
        """
        for name, value in self._identify().items():
            if state.get(name) != value:
                raise InvalidArgument(f"the state has {name} = {state.get(name)}, this dataset {value}; use the same")
        self._epoch.fill_(state["epoch"])
        self._skipped = self._given = state["rows"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of this rank and worker: dicts of columns, each a row or a batch."""
        self._given, self._skipped = self._skipped, 0
        tables = self._read_groups(self._given)
        if self._batch_rows is None:
            for table in tables:
                for batch in table.to_batches(max_chunksize=MAX_LISTED_ROWS):
                    for row in batch.to_pylist():
                        self._given += 1
                        yield row
            return
        for batch in _rebatch(tables, self._batch_rows):
            self._given += batch.num_rows
            yield {name: to_tensor(batch[name]) for name in batch.column_names}

    def _identify(self) -> dict[str, int]:
        snapshot = next((each.snapshot_id for each in self._chunks if each.snapshot_id is not None), 0)
        consumer, consumers = self._find_consumer()
        seed = -1 if self._seed is None else self._seed
        return {"snapshot": snapshot, "seed": seed, "consumer": consumer, "consumers": consumers}

    def _find_consumer(self) -> tuple[int, int]:
        """Return the number of this consumer, and the number of all consumers."""
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return self._rank * workers + number, self._world_size * workers

    def _read_groups(self, skipped: int) -> Iterator[pa.Table]:
        """Yield the rows of the chunks that are read together, in the order of this epoch, after `skipped` rows."""
        order = list(range(len(self._chunks)))
        if self._seed is not None:
            random.Random(f"{self._seed} {self.epoch}").shuffle(order)
        consumer, consumers = self._find_consumer()
        own = order[len(order) * consumer // consumers : len(order) * (consumer + 1) // consumers]
        for first in range(0, len(own), self._mixed):
            group = own[first : first + self._mixed]
            if skipped and (rows := sum(self._chunks[number].count() for number in group)) <= skipped:
                skipped -= rows
                continue
            table = pa.concat_tables([self._chunks[number].to_arrow() for number in group])
            if self._seed is not None:
                shuffled = np.random.default_rng([abs(self._seed), self.epoch, group[0]]).permutation(table.num_rows)
                table = table.take(pa.array(shuffled))
            yield table.slice(skipped)
            skipped = 0


MAX_LISTED_ROWS = 1 << 10
"""Rows that are converted to Python values at once; more take more memory and no less time."""


def _find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Check the rank and the number of ranks; without them return those of `torch.distributed`, or one rank."""
    if rank is None and world_size is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    if rank is None or world_size is None:
        raise InvalidArgument("give both rank and world_size, or neither")
    if not 0 <= check_instance(rank, int, "rank") < check_instance(world_size, int, "world_size"):
        raise InvalidArgument(f"rank is at least 0 and below world_size ({world_size}), not {rank}")
    return rank, world_size


def _rebatch(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of tables in batches of this size; the last one may be smaller."""
    rest: pa.Table | None = None
    for table in tables:
        held = table if rest is None else pa.concat_tables([rest, table])
        full = held.num_rows - held.num_rows % rows
        for first in range(0, full, rows):
            yield held.slice(first, rows)
        rest = held.slice(full)
    if rest is not None and rest.num_rows:
        yield rest


def to_tensor(column: pa.ChunkedArray) -> Any:
    """Return a column as a tensor: numbers and booleans, and lists of as many of them each; else a list of values.

    Nulls of floating-point columns become NaN. Columns of other numbers with nulls are lists of values.
    """
    array = column.combine_chunks()
    kind = array.type
    if pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind):
        return _stack_lists(array)
    if not (pat.is_integer(kind) or pat.is_floating(kind) or pat.is_boolean(kind)):
        return array.to_pylist()
    if array.null_count and not pat.is_floating(kind):
        return array.to_pylist()
    return torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())


def _stack_lists(array: pa.Array) -> Any:
    """Return lists of equal length without nulls as a tensor of one more dimension; others as a list of values."""
    lengths = array.value_lengths() if hasattr(array, "value_lengths") else pa.array([array.type.list_size])
    kind = array.type.value_type
    is_number = pat.is_integer(kind) or pat.is_floating(kind) or pat.is_boolean(kind)
    if not is_number or array.null_count or not len(array) or lengths.unique().null_count or len(lengths.unique()) != 1:
        return array.to_pylist()
    values = array.flatten()
    if values.null_count:
        return array.to_pylist()
    numbers = values.to_numpy(zero_copy_only=False).copy()
    return torch.from_numpy(numbers.reshape(len(array), lengths[0].as_py()))
