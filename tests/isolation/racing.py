"""Races of several processes with several threads each, which run random operations on one table for some time."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import morrow
from tests.isolation.history import Did, History, Saw, snapshots_of
from tests.isolation.kinds import KINDS
from tests.isolation.playing import Player
from tests.support.processes import PROCESSES

THREADS = 2
Part = tuple[tuple[Did, ...], tuple[Saw, ...]]


def race(
    name: str,
    warehouse: str,
    seed: int,
    *,
    processes: int = 3,
    seconds: float = 3.0,
    storage_options: Mapping[str, str] | None = None,
) -> History:
    """Race on a new table of this kind (of `KINDS`) in a warehouse (a folder or URL); return the history."""
    table = KINDS[name].create(warehouse, seed, storage_options)
    first = table.snapshots()[-1].id
    with ProcessPoolExecutor(processes, PROCESSES) as pool:
        asked = [
            pool.submit(_process, name, table.path, storage_options, f"{seed} {n}", n * THREADS, seconds)
            for n in range(processes)
        ]
        parts = [part for future in asked for part in future.result(seconds + 120)]
    last = Player("afterwards", KINDS[name], table._metadata, time.monotonic)
    last.read()
    did = tuple(did for part in parts for did in part[0])
    saw = tuple(saw for part in parts for saw in part[1])
    return History(KINDS[name], first, snapshots_of(table), did, (*saw, *last.saw))


def _process(
    name: str, path: str, storage_options: Mapping[str, str] | None, seed: str, first: int, seconds: float
) -> list[Part]:
    with ThreadPoolExecutor(THREADS) as threads:
        numbers = range(first, first + THREADS)
        return list(threads.map(lambda n: _thread(name, path, storage_options, f"{seed} {n}", n, seconds), numbers))


def _thread(
    name: str, path: str, storage_options: Mapping[str, str] | None, seed: str, number: int, seconds: float
) -> Part:
    table = morrow.open(path, storage_options=storage_options)
    player = Player(chr(ord("a") + number), KINDS[name], table._metadata, time.monotonic)
    chance, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        player.play(chance)
    return tuple(player.did), tuple(player.saw)
