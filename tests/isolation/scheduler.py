"""Runs several threads one at a time and chooses, at each file operation, which goes on: the same for the same seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.io.store import FileStore

PATIENCE_SECONDS = 60.0
"""A thread that does not come to its next file operation in this time waits for one that may not run."""
SWITCHING = (0.02, 0.1, 0.3, 0.7)
"""How likely another thread goes on. Rare switches let one act pass another as a whole, frequent ones weave them."""


class Scheduler:
    """Threads whose steps are ordered by chance.

    Attributes:
        clock: the number of steps so far: a time that is the same for the same seed.
    """

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(str(seed))
        self._switching = self._chance.choice(SWITCHING)
        self._turns: dict[int, threading.Semaphore] = {}
        self._numbers = threading.local()
        self._errors: list[BaseException] = []
        self.clock = 0

    def run(self, acts: Sequence[Callable[[], None]]) -> None:
        """Run the acts, each in a thread, to their end; raise what the first of them raised."""
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
        """Let other threads go on before each file operation. Threads of no act just go on."""
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
"""What a `FileStore` answers without a look at its files."""


@dataclass(frozen=True)
class ScheduledStore:
    """A store in front of another; `step` is called before each of its operations."""

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
