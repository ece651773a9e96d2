"""Concurrent users of one table: writers, a compactor, maintenance that removes files, and readers that check.

Every commit of a writer is a batch of five rows, which contain the number of their batch. So each state of the table
can be checked on its own: every batch is whole, none appears twice, and all earlier batches are there.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import morrow
from morrow.engine.errors import CommitConflict, SnapshotExpired
from morrow.scans.table_scan import Scan
from morrow.tables.table import Table
from tests.lifecycle.observed import Rows, names_in, rows
from tests.lifecycle.tables import NEW, OLD, frame

BATCH = 5
WRITERS = 2
BRANCH_WRITER, FIRST_WRITER = WRITERS, WRITERS + 1
"""The number of the writer to branches, and of the writer of a batch before the others begin."""
PATIENCE = 50.0
"""Extra seconds for the first turn of a role."""
ORPHANS_OLDER_THAN = 20.0
"""Seconds; longer than any write takes."""

Progress = Mapping[int, int]
"""Maps writers to their numbers of batches."""
Play = Callable[[Table, random.Random], None]


def batch_rows(writer: int, number: int) -> Rows:
    return tuple((writer * BATCH + i, OLD if i % 2 else NEW, number) for i in range(BATCH))


def progress(found: Rows, *, keyed: bool) -> Progress:
    """Count the batches of each writer in these rows; raise AssertionError if they are inconsistent."""
    assert len(set(found)) == len(found), "rows are there twice"
    by_writer: dict[int, Counter[int]] = {}
    for i, _, number in found:
        by_writer.setdefault(i // BATCH, Counter())[number] += 1
    for writer, batches in by_writer.items():
        whole = [max(batches)] if keyed else list(range(max(batches) + 1))
        assert dict(batches) == dict.fromkeys(whole, BATCH), f"batches of writer {writer}: {dict(batches)}"
    return {writer: max(batches) + 1 for writer, batches in by_writer.items()}


def run(role: str, path: str, seed: int, seconds: float) -> int:
    """Play a role for some time, but at least once; return how often. Unexpected errors are raised.

    On a busy machine, the first turn may end in a conflict after this time: then there is another.
    """
    chance = random.Random(f"{role} {seed}")
    played = 0
    player, end = ROLES[role](path), time.monotonic() + seconds
    while time.monotonic() < end or (not played and time.monotonic() < end + PATIENCE):
        with suppress(SnapshotExpired, CommitConflict):
            player(morrow.open(path), chance)
            played += 1
    return played


def write(writer: int) -> Callable[[str], Play]:
    """Make a player that commits one batch after another, and repeats a batch after a conflict."""

    def make(_: str) -> Play:
        following = 0

        def play(table: Table, chance: random.Random) -> None:  # noqa: ARG001 - all players have the same parameters
            nonlocal following
            table.append(frame(table, batch_rows(writer, following)))
            following += 1

        return play

    return make


def compact(_: str) -> Play:
    return lambda table, chance: _then_sleep(table.compact(full=chance.random() < 0.3), 0.1)


def expire(_: str) -> Play:
    return lambda table, chance: _then_sleep(table.expire_snapshots(chance.randrange(1, 5), 1), 0.02)


def clean(path: str) -> Play:
    """Make a player that creates old orphans and removes them."""

    def play(table: Table, chance: random.Random) -> None:  # noqa: ARG001
        orphan = Path(path) / "manifest" / f"manifest-{uuid.uuid4()}-0"
        orphan.write_bytes(b"half of")
        old = time.time() - 10 * ORPHANS_OLDER_THAN
        os.utime(orphan, (old, old))
        table.remove_orphan_files(int((time.time() - ORPHANS_OLDER_THAN) * 1000), dry_run=False)
        assert not orphan.exists()
        time.sleep(0.1)

    return play


def tag(_: str) -> Play:
    """Make a player that tags a snapshot, whose rows must not change, writes to a branch of it, and deletes both."""

    def play(table: Table, chance: random.Random) -> None:
        name, branch = (f"{kind}-{uuid.uuid4().hex}" for kind in ("tag", "branch"))
        table.tags.create(name, snapshot=chance.choice(table.snapshots()).id)
        before = rows(table, tag=name)
        keyed = bool(table.primary_keys)
        came = progress(before, keyed=keyed)
        table.branches.create(branch, tag=name)
        of_branch = table.on_branch(branch)
        of_branch.append(frame(table, batch_rows(BRANCH_WRITER, 0)))
        time.sleep(chance.random() * 0.3)
        morrow.clear_caches()
        assert rows(table, tag=name) == before
        # In the branch, the append has also compacted rows that waited for it.
        found = progress(rows(of_branch), keyed=keyed)
        assert all(found[writer] >= count for writer, count in {**came, BRANCH_WRITER: 1}.items())
        table.branches.delete(branch)
        table.tags.delete(name)

    return play


def read(_: str) -> Play:
    """Make a player that reads the newest snapshot, an older one, and plans made some time ago."""
    pinned: list[tuple[Scan, Rows]] = []
    newest: Progress = {}

    def play(table: Table, chance: random.Random) -> None:
        nonlocal newest
        keyed = bool(table.primary_keys)
        scan = table.scan(names_in(table))
        found = tuple(sorted(scan.to_polars().rows()))
        came = progress(found, keyed=keyed)
        assert all(came.get(writer, 0) >= count for writer, count in newest.items()), "rows are gone"
        newest = came
        pinned.append((scan, found))
        morrow.clear_caches()
        if len(pinned) > 3:
            scan, found = pinned.pop(chance.randrange(len(pinned)))
            assert tuple(sorted(scan.to_polars().rows())) == found
        progress(rows(table, snapshot=chance.choice(table.snapshots()).id), keyed=keyed)

    return play


def _then_sleep(_: object, seconds: float) -> None:
    time.sleep(seconds)


ROLES: Mapping[str, Callable[[str], Play]] = {
    **{f"writer {number}": write(number) for number in range(WRITERS)},
    "compactor": compact,
    "expiry": expire,
    "cleaning": clean,
    "tagger": tag,
    "reader": read,
}
