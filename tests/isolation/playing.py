"""Players that run operations on a table and record the results."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from morrow.engine.errors import CommitConflict
from morrow.engine.plan.metadata import TableMetadata
from morrow.tables.row_operations import Properties
from morrow.tables.table import Table
from morrow.writers.target import WriteTarget
from tests.isolation.history import COMMITTED, NOTHING, REFUSED, Did, Saw
from tests.isolation.kinds import Kind
from tests.isolation.operations import OPERATIONS, Operation, draw

Clock = Callable[[], float]


class NamedTable(Table):
    """A table with a given commit user, so that each snapshot identifies its operation."""

    def __init__(self, metadata: TableMetadata, commit_user: str) -> None:
        super().__init__(metadata)
        self._commit_user = commit_user

    def _target(self, properties: Properties = None) -> WriteTarget:
        return WriteTarget.of(self._metadata, self._commit_user, properties)


@dataclass
class Player:
    """A user whose operations have the tokens ``<name>-<number>``."""

    name: str
    kind: Kind
    metadata: TableMetadata
    clock: Clock
    did: list[Did] = field(default_factory=list)
    saw: list[Saw] = field(default_factory=list)

    def play(self, chance: random.Random, *, reads: float = 0.3) -> None:
        """Do something random: with probability `reads` a read, else an operation."""
        if chance.random() < reads:
            self.read()
        else:
            self.do(draw(self.kind, f"{self.name}-{len(self.did)}", chance))

    def do(self, operation: Operation) -> None:
        perform, _ = OPERATIONS[operation.name]
        began = self.clock()
        try:
            answer = NOTHING if perform(NamedTable(self.metadata, operation.token), operation) is None else COMMITTED
        except CommitConflict:
            answer = REFUSED
        self.did.append(Did(operation, began, self.clock(), answer))

    def read(self) -> None:
        began = self.clock()
        scan = Table(self.metadata).scan()
        rows = scan.to_polars().rows()
        snapshot = scan.snapshot_id
        assert snapshot is not None, "the table has its first rows"
        self.saw.append(Saw(self.name, began, self.clock(), snapshot, tuple(sorted(rows))))
