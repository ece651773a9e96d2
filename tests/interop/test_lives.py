"""Random lives of tables written by Morrow: Java Paimon reads the same rows from every snapshot, tag and branch. Then
Java expires, deletes a tag and rolls back, and Morrow reads the table.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from morrow.engine.format.paths import MAIN_BRANCH
from tests.interop.jvm import JavaPaimon
from tests.lifecycle.model import Branch
from tests.lifecycle.observed import Rows
from tests.lifecycle.tables import KINDS, Kind
from tests.lifecycle.test_machine import Lives

EXAMPLES, STEPS = (30, 40) if os.environ.get("HYPOTHESIS_PROFILE") == "long" else (2, 14)


class LivesWithJava(Lives):
    """A random life of a table with a final part by Java."""

    def __init__(self, kind: Kind, java: JavaPaimon) -> None:
        super().__init__(kind)
        self.java = java

    def teardown(self) -> None:
        try:
            for name, branch in self.life.branches.items():
                self._java_reads(name, branch)
            self._java_goes_on(self.life.main)
        finally:
            super().teardown()

    def _java_reads(self, name: str, branch: Branch) -> None:
        roots = self.java.ask("roots", path=self.path, branch=name)
        assert roots["snapshots"] == sorted(branch.snapshots)
        assert roots["tags"] == {name: snapshot.id for name, snapshot in branch.tags.items()}
        assert sorted(roots["branches"]) == sorted(set(self.life.branches) - {MAIN_BRANCH})
        if branch.snapshots:
            assert (roots["earliest"], roots["latest"]) == (min(branch.snapshots), max(branch.snapshots))
        assert self._rows(name, {}) == branch.rows
        for snapshot in branch.snapshots.values():
            assert self._rows(name, {"scan.snapshot-id": str(snapshot.id)}) == snapshot.rows
        # Java lists the tags of a branch, but does not find them by this option.
        for tag, snapshot in branch.tags.items() if name == MAIN_BRANCH else ():
            assert self._rows(name, {"scan.tag-name": tag}) == snapshot.rows

    def _rows(self, branch: str, options: dict[str, str]) -> Rows:
        found = self.java.read(self.path, options, branch=branch)
        return tuple(sorted((i, dt, v) for i, dt, v, *_ in found))

    def _java_goes_on(self, main: Branch) -> None:
        """Delete the branches, whose files Java would delete, and continue the life with Java."""
        for name in sorted(set(self.life.branches) - {MAIN_BRANCH}):
            self._ask("delete_branch", name=name)
            del self.life.branches[name]
        if main.snapshots:
            self._ask("expire", retain_max=4, retain_min=1)
            main.expire(4, 1, 0, decoupled=self.kind.decoupled)
            self._check_reads()
        if main.tags:
            name = min(main.tags)
            self._ask("delete_tag", name=name)
            del main.tags[name]
            self._check_reads()
        if main.tags:
            name = max(main.tags)
            self._ask("rollback_to_tag", name=name)
            main.rollback(main.tags[name])
            self._check_reads()
        elif main.settled:
            earlier = main.settled[0]
            self._ask("rollback", snapshot=earlier)
            main.rollback(main.snapshots[earlier])
            self._check_reads()
        self.clean()  # Java leaves the files of rolled-back snapshots
        self.write(pick=0, ids=[1, 2, 3], partition=2)
        self._java_reads(MAIN_BRANCH, main)

    def _ask(self, act: str, **request: Any) -> None:
        self.java.ask(act, path=self.path, **request)


@pytest.mark.parametrize("kind", KINDS)
def test_java_agrees(kind: str, java: JavaPaimon) -> None:
    limits = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: LivesWithJava(KINDS[kind], java), settings=limits)  # type: ignore[no-untyped-call]  # hypothesis gives no types here
