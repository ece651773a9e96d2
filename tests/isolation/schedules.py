"""A schedule: a few users with a few operations each, interleaved by a seed, and the resulting history."""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from tests.isolation.history import History, snapshots_of
from tests.isolation.kinds import KINDS
from tests.isolation.playing import NamedTable, Player
from tests.isolation.scheduler import ScheduledStore, Scheduler

USERS = (2, 3)
"""Minimum and maximum number of users."""
ACTS = (1, 3)
"""Minimum and maximum number of operations per user."""


@contextmanager
def no_locks() -> Iterator[None]:
    """Ensure that threads in the block wait only for the scheduler.

    Committers on the same machine do not queue (the queue only improves fairness). `functools.cached_property` takes no
    lock, as in Python 3.12 and later; older versions share a lock among all objects of a class.
    """

    def get(self: Any, instance: Any, owner: Any = None) -> Any:  # noqa: ARG001 - the protocol of descriptors
        if instance is None:
            return self
        if self.attrname not in instance.__dict__:
            instance.__dict__[self.attrname] = self.func(instance)
        return instance.__dict__[self.attrname]

    with (
        patch("morrow.writers.commit.commit_lock.fcntl", None),
        patch.object(functools.cached_property, "__get__", get),
    ):
        yield


def play(name: str, seed: object, template: Path, folder: Path) -> History:
    """Run a schedule on a copy of a table, and return the history.

    Args:
        name: the kind of table, of `KINDS`.
        template: a warehouse with a table ``db.t`` of this kind and its first rows.
        folder: the folder for the copy, which is removed at the end.
    """
    shutil.copytree(template, folder)
    chance = random.Random(f"{name} {seed}")
    scheduler = Scheduler(f"{name} {seed}")
    path = str(folder / "db.db" / "t")
    store = ScheduledStore(LocalStore(), scheduler.step)
    plain = NamedTable(TableMetadata(LocalStore(), path), "nobody")
    first = plain.snapshots()[-1].id
    players = [
        Player(chr(ord("a") + n), KINDS[name], TableMetadata(store, path), lambda: scheduler.clock)
        for n in range(chance.randint(*USERS))
    ]
    with no_locks():
        scheduler.run([partial(_acts, player, random.Random(f"{chance.random()}")) for player in players])
    last = Player("afterwards", KINDS[name], TableMetadata(LocalStore(), path), lambda: scheduler.clock)
    last.read()
    history = History(
        KINDS[name],
        first,
        snapshots_of(plain),
        tuple(did for player in players for did in player.did),
        tuple(saw for player in (*players, last) for saw in player.saw),
    )
    shutil.rmtree(folder)
    return history


def _acts(player: Player, chance: random.Random) -> None:
    for _ in range(chance.randint(*ACTS)):
        player.play(chance, reads=0.15)
