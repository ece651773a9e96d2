"""One schedule: a few users with a few operations each, woven by a seed, and what came of it."""

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
"""Fewest and most."""
ACTS = (1, 3)
"""Fewest and most of each user."""


@contextmanager
def no_locks() -> Iterator[None]:
    """Keep threads within the block from waiting for another but where the scheduler says so.

    Committers of one machine do not queue (queueing is courtesy, not safety), and `functools.cached_property` takes no
    lock, as from Python 3.12 on; before, one lock serves all objects of a class.
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
    """Plays a schedule on a copy of a table; return the history.

    Args:
        name: the kind of table, of `KINDS`.
        template: a warehouse with the table ``db.t`` of this kind, with its first rows.
        folder: where the copy is put; it is removed in the end.
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
