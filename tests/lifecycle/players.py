"""Who is busy with one table at the same time: writers, a compactor, those who remove, and readers who look closely.

Every commit of a writer is a batch of five rows that say which batch they are of. So any state of the table can be
judged by itself: it has whole batches only, none twice, and no later one without the earlier ones.
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
"""Who writes to branches, and who has written one batch before the others begin."""
PATIENCE = 50.0
"""Seconds that a role may take beyond its time for its first turn."""
ORPHANS_OLDER_THAN = 20.0
"""Seconds; longer than any write takes."""

Progress = Mapping[int, int]
"""Writer -> batches."""
Play = Callable[[Table, random.Random], None]


def batch_rows(writer: int, number: int) -> Rows:
    return tuple((writer * BATCH + i, OLD if i % 2 else NEW, number) for i in range(BATCH))


def progress(found: Rows, *, keyed: bool) -> Progress:
    """Return how far each writer has come in this state. Raises AssertionError for one that cannot be."""
    assert len(set(found)) == len(found), "rows are there twice"
    by_writer: dict[int, Counter[int]] = {}
    for i, _, number in found:
        by_writer.setdefault(i // BATCH, Counter())[number] += 1
    for writer, batches in by_writer.items():
        whole = [max(batches)] if keyed else list(range(max(batches) + 1))
        assert dict(batches) == dict.fromkeys(whole, BATCH), f"batches of writer {writer}: {dict(batches)}"
    return {writer: max(batches) + 1 for writer, batches in by_writer.items()}


def run(role: str, path: str, seed: int, seconds: float) -> int:
    """Plays a role for some time, but at least once; returns how often. What it must not meet is raised.

    Where the machine is busy, a turn may end after the time, by a conflict: then there is another.
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
    """Commit one batch after the other; one that met a conflict again."""

    def make(_: str) -> Play:
        following = 0

        def play(table: Table, chance: random.Random) -> None:  # noqa: ARG001 - every player gets it
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
    """Leave old orphans and remove them."""

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
    """Tags a snapshot, which then stays as it is; make a branch of it and writes there; deletes both."""

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
        # Rows that had been waiting for a compaction have had one in the branch.
        found = progress(rows(of_branch), keyed=keyed)
        assert all(found[writer] >= count for writer, count in {**came, BRANCH_WRITER: 1}.items())
        table.branches.delete(branch)
        table.tags.delete(name)

    return play


def read(_: str) -> Play:
    """Read the newest state, an older one, and plans that were made some time ago."""
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
