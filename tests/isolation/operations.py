"""Operations of concurrent users: each as a Morrow call, and as a row-by-row model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from morrow.engine.format.snapshot import Snapshot
from morrow.tables.table import Table
from tests.isolation.kinds import KEYS, PARTITIONS, Kind, Row, State, frame, row
from tests.support.hostile_names import quoted

DIVISOR = 3
"""Conditions choose the ids with a given remainder of division by this number."""


@dataclass(frozen=True)
class Operation:
    """A call with its arguments.

    Attributes:
        name: a key of `OPERATIONS`.
        token: identifies the operation; also its commit user.
        ids: the rows that it writes, or the keys that it deletes.
        remainder: the remainder that its condition chooses.
        least: its condition also demands ``n >= least``.
    """

    name: str
    token: str
    ids: tuple[int, ...] = ()
    remainder: int = 0
    least: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row(id, self.token) for id in self.ids]

    def condition(self, table: Table) -> str:
        id, _, n, _ = columns(table)
        return f"{id} % {DIVISOR} = {self.remainder} AND {n} >= {self.least}"

    def chooses(self, found: Row) -> bool:
        return found[0] % DIVISOR == self.remainder and found[2] >= self.least

    def json(self) -> Mapping[str, object]:
        return asdict(self)


Perform = Callable[[Table, Operation], Snapshot | None]
Mean = Callable[[State, Operation, Kind], State]


def columns(table: Table) -> list[str]:
    """Quote the table's names for ``id``, ``p``, ``n`` and ``log`` in SQL."""
    return [quoted(name) for name in table.schema.names]


def _upsert(table: Table, operation: Operation) -> Snapshot | None:
    return table.append(frame(table, operation.rows))


def _upserted(state: State, operation: Operation, kind: Kind) -> State:
    return {**state, **{new[0]: _merged(state.get(new[0]), new, kind) for new in operation.rows}}


def _merged(old: Row | None, new: Row, kind: Kind) -> Row:
    if old is None or (kind.keyed and kind.engine in ("deduplicate", "partial-update")):
        return new
    if kind.engine == "first-row":
        return old
    if kind.engine == "aggregation":
        return (old[0], old[1], old[2] + new[2], f"{old[3]},{new[3]}")
    raise AssertionError(f"row {new} was appended to an append table twice")


def _update(table: Table, operation: Operation) -> Snapshot | None:
    _, _, n, log = columns(table)
    changed = (f"{n} + 1", f"{log} || ',{operation.token}'")
    return table.update(dict(zip(table.schema.names[2:], changed, strict=True)), where=operation.condition(table))


def _updated(state: State, operation: Operation, _: Kind) -> State:
    return {id: _again(old, operation) if operation.chooses(old) else old for id, old in state.items()}


def _again(old: Row, operation: Operation) -> Row:
    return (old[0], old[1], old[2] + 1, f"{old[3]},{operation.token}")


def _merge(table: Table, operation: Operation) -> Snapshot | None:
    id, p, n, log = columns(table)
    merge = table.merge(frame(table, operation.rows), on=f"target.{id} = source.{id} AND target.{p} = source.{p}")
    changed = (f"target.{n} + 1", f"target.{log} || ',' || source.{log}")
    return (
        merge.when_matched_update(dict(zip(table.schema.names[2:], changed, strict=True)))
        .when_not_matched_insert()
        .execute()
    )


def _matched(state: State, operation: Operation, _: Kind) -> State:
    return {
        **state,
        **{id: _again(state[id], operation) if id in state else row(id, operation.token) for id in operation.ids},
    }


def _delete(table: Table, operation: Operation) -> Snapshot | None:
    return table.delete(operation.condition(table))


def _deleted(state: State, operation: Operation, _: Kind) -> State:
    return {id: old for id, old in state.items() if not operation.chooses(old)}


def _delete_keys(table: Table, operation: Operation) -> Snapshot | None:
    id, p, *_ = table.schema.names
    return table.delete([{id: key, p: key % PARTITIONS} for key in operation.ids])


def _without(state: State, operation: Operation, _: Kind) -> State:
    return {id: old for id, old in state.items() if id not in operation.ids}


def _overwrite(table: Table, operation: Operation) -> Snapshot | None:
    return table.overwrite(frame(table, operation.rows), dynamic=bool(table.partition_keys))


def _overwritten(state: State, operation: Operation, kind: Kind) -> State:
    replaced = {new[1] for new in operation.rows}
    kept = {id: old for id, old in state.items() if kind.partitioned and old[1] not in replaced}
    return {**kept, **{new[0]: new for new in operation.rows}}


def _compact(table: Table, operation: Operation) -> Snapshot | None:
    return table.compact(full=operation.remainder > 0)


def _same(state: State, _: Operation, __: Kind) -> State:
    return state


OPERATIONS: Mapping[str, tuple[Perform, Mean]] = {
    "upsert": (_upsert, _upserted),
    "update": (_update, _updated),
    "merge": (_merge, _matched),
    "delete": (_delete, _deleted),
    "delete keys": (_delete_keys, _without),
    "overwrite": (_overwrite, _overwritten),
    "compact": (_compact, _same),
}
"""Maps each name to the call, and to its effect on a state."""


def names(kind: Kind) -> list[str]:
    """List the operations of this kind of table; names that appear twice are drawn twice as often."""
    if kind.engine in ("aggregation", "first-row"):
        return ["upsert", "upsert", "overwrite", "compact"]
    every = ["upsert", "upsert", "update", "update", "merge", "delete", "overwrite", "compact"]
    return [*every, "delete keys"] if kind.keyed else every


def draw(kind: Kind, token: str, chance: random.Random) -> Operation:
    """Draw a random operation. In append tables, the token determines the ids, so that no id is appended twice."""
    name = chance.choice(names(kind))
    ids = tuple(sorted(chance.sample(range(KEYS + 4), chance.randrange(1, 6))))
    if not kind.keyed and name in ("upsert", "merge", "overwrite"):
        first = 1_000 * (1 + int(token.rpartition("-")[2])) + 100 * (1 + ord(token[0]) - ord("a"))
        fresh = tuple(range(first, first + len(ids)))
        ids = tuple(sorted(set(ids))) if name == "merge" and chance.random() < 0.5 else fresh
    return Operation(name, token, ids, chance.randrange(DIVISOR), chance.choice((0, 0, 2)))
