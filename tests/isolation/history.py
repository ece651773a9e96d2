"""Histories of concurrent operations on one table, and the check that they are strictly serializable.

A history is strictly serializable if its acknowledged operations have an order with these properties: Each operation
has its reported effect on the rows before it. Each read shows the rows after some prefix of the order. If one
operation ends before another begins, it comes first.

This order need not be searched for: snapshots are numbered, and each acknowledged operation is at the position of its
snapshot. It remains to replay the operations in this order, and to compare each read with the states it may show.
Refused operations are not part of the order, since they did nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from morrow.tables.table import Table
from tests.isolation.kinds import FIRST_ROWS, Kind, Row, State
from tests.isolation.operations import OPERATIONS, Operation

COMPACT = "COMPACT"
COMMITTED, NOTHING, REFUSED = "committed", "nothing", "refused"
"""Results of an operation: a snapshot; None, as there was nothing to do; `CommitConflict`."""


@dataclass(frozen=True)
class Did:
    """An operation and its result; `began` and `ended` are times of the same clock."""

    operation: Operation
    began: float
    ended: float
    answer: str


@dataclass(frozen=True)
class Saw:
    """A full read: the reported snapshot, and the rows."""

    reader: str
    began: float
    ended: float
    snapshot: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Committed:
    """A snapshot of the table after the history."""

    id: int
    user: str
    kind: str


@dataclass(frozen=True)
class History:
    """All events on a table that held `FIRST_ROWS` at its snapshot `first`."""

    kind: Kind
    first: int
    snapshots: tuple[Committed, ...]
    did: tuple[Did, ...]
    saw: tuple[Saw, ...]


def snapshots_of(table: Table) -> tuple[Committed, ...]:
    return tuple(Committed(s.id, s.commit_user, s.commit_kind) for s in table.snapshots())


def anomalies(history: History) -> list[str]:
    """Describe each violation of strict serializability; the list is empty if there is none."""
    return list(_Check(history).found())


class _Check:
    def __init__(self, history: History) -> None:
        self.history = history
        self.places = _places(history)
        self.acknowledged = {did.operation.token: did for did in history.did if did.answer == COMMITTED}
        placed = [did for token, did in self.acknowledged.items() if token in self.places]
        self.order = sorted(placed, key=lambda did: self.places[did.operation.token][0])
        self.states = self._replayed()

    def found(self) -> Iterator[str]:
        yield from self._commits()
        yield from self._real_time()
        for did in self.history.did:
            if did.answer == NOTHING:
                yield from self._nothing(did)
        for saw in self.history.saw:
            yield from self._read(saw)

    def _replayed(self) -> list[State]:
        """Compute the states after zero, one, two, ... operations in order."""
        states: list[State] = [{row[0]: row for row in FIRST_ROWS}]
        for did in self.order:
            _, mean = OPERATIONS[did.operation.name]
            states.append(mean(states[-1], did.operation, self.history.kind))
        return states

    def _commits(self) -> Iterator[str]:
        """Check that exactly the acknowledged operations have a snapshot, and each has only one."""
        for token, did in self.acknowledged.items():
            found = self.places.get(token, [])
            if not found:
                yield f"{did.operation} was acknowledged and has no snapshot"
            elif len(found) > 1:
                yield f"{did.operation} was committed {len(found)} times: snapshots {found}"
        for token, found in self.places.items():
            if token not in self.acknowledged:
                yield f"snapshots {found} are of {token!r}, which was not acknowledged"

    def _real_time(self) -> Iterator[str]:
        for before, did in enumerate(self.order):
            for earlier in self.order[:before]:
                if did.ended < earlier.began:
                    yield f"{earlier.operation} began after {did.operation} was over, and was committed before it"

    def _least(self, began: float) -> int:
        """Count the operations that a read from this time on must include."""
        return max((i for i, did in enumerate(self.order, 1) if did.ended <= began), default=0)

    def _nothing(self, did: Did) -> Iterator[str]:
        _, mean = OPERATIONS[did.operation.name]
        most = max((i for i, other in enumerate(self.order, 1) if other.began <= did.ended), default=0)
        candidates = self.states[self._least(did.began) : most + 1]
        if not any(mean(state, did.operation, self.history.kind) == state for state in candidates):
            yield f"{did.operation} did nothing, and there was something to do in each state that it may have seen"

    def _read(self, saw: Saw) -> Iterator[str]:
        at = sum(self.places[did.operation.token][0] <= saw.snapshot for did in self.order)
        least = self._least(saw.began)
        if at < least:
            missed = self.order[least - 1].operation
            yield f"{saw.reader} read snapshot {saw.snapshot}, older than {missed}, acknowledged before"
            return
        first = least if self.history.kind.waits_for_compaction else at
        rows = sorted(saw.rows)
        if any(rows == sorted(state.values()) for state in self.states[first : at + 1]):
            return
        done = "\n    ".join(f"{i} {did.operation}" for i, did in enumerate(self.order[: at + 1], 1))
        expected = sorted(self.states[at].values())
        orders = [i for i, state in enumerate(self.states) if rows == sorted(state.values())] or "no number"
        yield (
            f"{saw.reader} read at snapshot {saw.snapshot}\n    {rows}\n  after operations\n    {done}\n  expected\n"
            f"    {expected}\n  it is the state after {orders} of them, not after {first} to {at}"
        )


def _places(history: History) -> dict[str, list[int]]:
    """Map each commit user to its snapshots that add data, oldest first."""
    places: dict[str, list[int]] = {}
    compactions = {did.operation.token for did in history.did if did.operation.name == "compact"}
    for snapshot in history.snapshots:
        brings = snapshot.kind != COMPACT or snapshot.user in compactions
        if snapshot.id > history.first and brings:
            places.setdefault(snapshot.user, []).append(snapshot.id)
    return places
