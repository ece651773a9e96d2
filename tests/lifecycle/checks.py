"""Checks of tables whose maintenance was interrupted, and then repeated."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath

from tests.lifecycle.needed import balance
from tests.lifecycle.observed import Line, State, observe
from tests.lifecycle.operations import FOR_EVER, Operation, table_at
from tests.lifecycle.tables import remove_all_orphans

EMPTY = Line()


def check_interrupted(path: str, before: State, after: State) -> State:
    """Check that nothing is lost that is in both states, nothing is in neither, and that no file is missing."""
    found = observe(path)
    assert not balance(path).missing
    assert set(found) <= set(before) | set(after)
    for line in before.values():
        assert line not in after.values() or line in found.values(), "a branch is lost"
    for name, line in found.items():
        _check_line(line, before.get(name, EMPTY), after.get(name, EMPTY))
    return found


def _check_line(found: Line, before: Line, after: Line) -> None:
    for there, old, new in (
        (found.snapshots, before.snapshots, after.snapshots),
        (found.changes, before.changes, after.changes),
        (found.tags, before.tags, after.tags),
    ):
        lasting = old.items() & new.items()  # type: ignore[attr-defined]  # three kinds of dicts
        possible = old.items() | new.items()  # type: ignore[attr-defined]
        assert lasting <= there.items() <= possible  # type: ignore[operator]
    assert set(before.tags.values()) & set(after.tags.values()) <= set(found.tags.values()), "a tag is lost"
    newest = found.snapshots[max(found.snapshots)] if found.snapshots else ()
    assert found.newest == newest


def check_repeated(path: str, operation: Operation, after: State) -> None:
    """Complete it by the same call, or by the next maintenance, and check that no unneeded files remain."""
    table = table_at(path)
    with suppress(*operation.done):
        operation.run(table)
    _check_done(path, operation, after)
    table.expire_snapshots(FOR_EVER, FOR_EVER)
    files = balance(path)
    assert not files.missing
    assert operation.commits or all(map(_is_temporary, files.unneeded)), files.unneeded
    remove_all_orphans(table)
    assert balance(path).unneeded == balance(path).missing == set()
    _check_done(path, operation, after)


def _check_done(path: str, operation: Operation, after: State) -> None:
    found = observe(path)
    if not operation.commits:
        assert found == after
        return
    assert found.keys() == after.keys()
    for name, line in found.items():
        assert (line.newest, line.tags) == (after[name].newest, after[name].tags)
        assert set(line.snapshots.values()) == set(after[name].snapshots.values())


def _is_temporary(name: str) -> bool:
    """Return whether a killed process was writing this file, or the branch that contains it."""
    return any(part.startswith((".", "creating-")) for part in PurePath(name).parts)
