"""Deterministic scheduler: runs one thread at a time, and at each file operation draws the next thread from a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.io.store import FileStore

PATIENCE_SECONDS = 60.0
"""Maximum time to the next file operation. A thread that exceeds it is waiting for a suspended one."""
SWITCHING = (0.02, 0.1, 0.3, 0.7)
"""Probabilities of switching threads. Rare switches let a whole act pass another, frequent ones interleave them."""


class Scheduler:
    """Threads whose steps are ordered at random.

    Attributes:
        clock: the number of steps so far, which is the same for the same seed.
    """

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(str(seed))
        self._switching = self._chance.choice(SWITCHING)
        self._turns: dict[int, threading.Semaphore] = {}
        self._numbers = threading.local()
        self._errors: list[BaseException] = []
        self.clock = 0

    def run(self, acts: Sequence[Callable[[], None]]) -> None:
        """Run each act in its own thread until it ends, then raise the first exception that occurred."""
        self._turns = {number: threading.Semaphore(0) for number in range(len(acts))}
        threads = [threading.Thread(target=self._played, args=(n, act), daemon=True) for n, act in enumerate(acts)]
        for thread in threads:
            thread.start()
        self._pass_on()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                raise TimeoutError("a thread waits for another that may not go on; the schedule is stuck")
        if self._errors:
            raise self._errors[0]

    def step(self) -> None:
        """Let other threads run before each file operation. Threads outside of `run` just continue."""
        number = getattr(self._numbers, "number", None)
        if number is None:
            return
        self.clock += 1
        if self._chance.random() < self._switching:
            self._pass_on()
            self._wait(number)

    def _played(self, number: int, act: Callable[[], None]) -> None:
        self._numbers.number = number
        try:
            self._wait(number)
            act()
        except BaseException as error:  # noqa: BLE001 - raised by `run`, in the thread of the test
            self._errors.append(error)
        finally:
            del self._turns[number]
            self._pass_on()

    def _pass_on(self) -> None:
        if self._turns:
            self._turns[self._chance.choice(list(self._turns))].release()

    def _wait(self, number: int) -> None:
        if not self._turns[number].acquire(timeout=PATIENCE_SECONDS):
            raise TimeoutError("the thread that goes on does not come to its next file operation")


NO_STEPS = frozenset({"is_local", "storage_options", "url", "local_target"})
"""Attributes of a `FileStore` that need no file operation."""


@dataclass(frozen=True)
class ScheduledStore:
    """A wrapper that calls `step` before each operation of a store."""

    inner: FileStore
    step: Callable[[], None] = field(compare=False)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in NO_STEPS:
            return found

        def stepped(*args: Any, **named: Any) -> Any:
            self.step()
            return found(*args, **named)

        return stepped
