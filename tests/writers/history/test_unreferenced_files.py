"""Random histories of tables: the needed files exist, and no others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from morrow.engine.plan.time_travel import Travel
from morrow.writers.history.branches import create_branch, delete_branch
from morrow.writers.history.rollback import rollback_table
from morrow.writers.history.snapshot_expiry import expire_changelogs
from morrow.writers.history.tags import delete_tag
from tests.writers.history.expiry_histories import Life

KINDS: tuple[Mapping[str, str], ...] = (
    {},
    {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "changelog.num-retained.max": "6"},
)
"""Options for tables without and with changelogs that outlive snapshots."""


class Player:
    """A player that picks operations on main or a branch by random numbers, and skips impossible ones."""

    def __init__(self, life: Life) -> None:
        self.lives = {"main": life}
        self.living: dict[str, list[str]] = {"main": []}
        self.count = 0

    def play(self, what: str, pick: int) -> None:
        branch = sorted(self.lives)[pick % len(self.lives)]
        MOVES[what](self, branch, pick)

    def write(self, branch: str, _: int) -> None:
        self.count += 1
        self.lives[branch].write(f"f{self.count}")
        self.living[branch].append(f"f{self.count}")

    def compact(self, branch: str, pick: int) -> None:
        if files := self.living[branch]:
            self.count += 1
            old = files.pop(pick % len(files))
            self.lives[branch].compact(old, into=f"f{self.count}")
            files.append(f"f{self.count}")

    def tag(self, branch: str, pick: int) -> None:
        if ids := self.lives[branch].metadata.living_snapshot_ids():
            self.count += 1
            self.lives[branch].tag(f"t{self.count}", ids[pick % len(ids)])

    def untag(self, branch: str, pick: int) -> None:
        metadata = self.lives[branch].metadata
        if names := metadata.tag_names():
            delete_tag(metadata, names[pick % len(names)])

    def expire(self, branch: str, pick: int) -> None:
        self.lives[branch].expire(retain_max=1 + pick % 3)
        expire_changelogs(self.lives[branch].metadata, retain_max=2 + pick % 5)

    def fork(self, _: str, pick: int) -> None:
        main = self.lives["main"].metadata
        if (ids := main.living_snapshot_ids()) and len(self.lives) < 3:
            self.count += 1
            name = f"b{self.count}"
            create_branch(main, name, snapshot=ids[pick % len(ids)])
            self.lives[name] = self.lives["main"].on_branch(name)
            self.living[name] = self.alive(name)

    def drop(self, branch: str, _: int) -> None:
        if branch != "main":
            delete_branch(self.lives["main"].metadata, branch)
            del self.lives[branch]

    def roll_back(self, branch: str, pick: int) -> None:
        metadata = self.lives[branch].metadata
        if ids := metadata.living_snapshot_ids():
            rollback_table(metadata, Travel(snapshot=ids[pick % len(ids)]))
            self.living[branch] = self.alive(branch)

    def alive(self, branch: str) -> list[str]:
        life = self.lives[branch]
        return [name for name in life.names() if name in life.known]


MOVES: Mapping[str, Callable[[Player, str, int], None]] = {
    name: getattr(Player, name) for name in ("write", "compact", "tag", "untag", "expire", "fork", "drop", "roll_back")
}


@settings(max_examples=settings().max_examples // 3)
@given(
    kind=st.sampled_from(KINDS),
    moves=st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 100)), min_size=5, max_size=25),
)
@example(KINDS[1], [("compact", 0), ("compact", 0), ("tag", 0), ("expire", 1), ("untag", 0)])
@example(KINDS[1], [("compact", 0), ("expire", 0), ("compact", 0), ("fork", 0), ("expire", 39), ("drop", 0)])
def test_nothing_is_lost_and_nothing_is_left(kind: Mapping[str, str], moves: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), {"write-only": "true", **kind})
        player = Player(life)
        player.write("main", 0)
        for what, pick in moves:
            player.play(what, pick)
            life.check()
