"""The command: ``python -m tests.campaigns.turns --python .../bin/python`` of an environment with pypaimon 2."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

from morrow.engine.io.local import disable_fsync
from tests.campaigns.turns.histories import PEER, History, PeerError

PLAYER = Path(__file__).with_name("player.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.turns", description=__doc__)
    parser.add_argument("--python", default=os.environ.get("PEER_PYTHON"), help="with pypaimon 2 (PEER_PYTHON)")
    parser.add_argument("--seed", type=int, default=0, help="of the first history; the next has the next")
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--steps", type=int, default=14, help="of a history")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no history after so many")
    parser.add_argument("--show", action="store_true", help="print the steps of every history")
    asked = parser.parse_args()
    if asked.python is None:
        parser.error("name a Python with pypaimon: --python or PEER_PYTHON")
    counts, wrong, began, done = Counter[str](), 0, time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, disable_fsync(), start_peer(asked.python, folder) as ask:
        for seed in range(asked.seed, asked.seed + asked.histories):
            if time.monotonic() - began > asked.seconds:
                break
            history = play(seed, f"{folder}/{seed}", asked.steps, ask, show=asked.show)
            counts += history.counts
            done += 1
            wrong += history.counts["wrong"]
    for what, count in counts.most_common():
        print(f"{count:6} {what}")
    print(f"{done} histories from seed {asked.seed}, {counts['steps']} steps, {wrong} wrong")
    return int(wrong > 0)


@contextmanager
def start_peer(python: str, folder: str) -> Iterator[Any]:
    """Start pypaimon's player; yield a function that calls it."""
    address = f"{folder}/socket"
    with Listener(address, "AF_UNIX") as listener:
        command = [python, str(PLAYER), address, PEER, folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with listener.accept() as connection:

                def ask(*call: Any) -> Any:
                    connection.send(call)
                    done, answer = connection.recv()
                    if not done:
                        raise PeerError(answer)
                    return answer

                yield ask
                connection.send(None)
        finally:
            process.kill()
            process.wait()


def play(seed: int, warehouse: str, steps: int, ask: Any, *, show: bool = False, peer: str = PEER) -> History:
    """Play a history; print its steps if it went wrong."""
    Path(warehouse).mkdir()
    ask("begin", warehouse)
    history = History(seed, warehouse, ask, peer)
    try:
        history.create()
        for _ in range(steps):
            history.step()
            history.counts["steps"] += 1
    except PeerError as error:
        history.counts[f"histories ended, pypaimon {str(error)[:100]}"] += 1
    except Exception as error:  # noqa: BLE001  # any error is a finding
        history.counts["wrong"] += 1
        print(f"WRONG seed {seed}: {type(error).__name__}: {error}", flush=True)
        if type(error).__name__ != "Wrong":
            traceback.print_exc(file=sys.stdout)
        show = True
    if show:
        print("\n".join(f"  {number} {step}" for number, step in enumerate(history.steps)), flush=True)
    return history


if __name__ == "__main__":
    sys.exit(main())
