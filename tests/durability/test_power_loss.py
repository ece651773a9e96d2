"""A power loss at any moment: acknowledged writes are on the disk, all others are whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from morrow.engine.io.local import disable_fsync
from tests.durability.checks import check_table, newest
from tests.durability.moments import IS_LONG, MANY_ALIKE
from tests.durability.operations import OPERATIONS, Operation, at
from tests.support.power_loss import Disk, PowerLoss
from tests.support.profile import every


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder


def states(operation: Operation, disks: list[Disk], folder: Path, past: int) -> list[object]:
    """Check the table on each disk; in `make test`, the largest operation checks one disk in four."""
    found: list[object] = []
    some = disks if IS_LONG or OPERATIONS[MANY_ALIKE] is not operation else [*disks[:-1:4], disks[-1]]
    for number, disk in enumerate(some):
        path = folder / str(number) / "t"
        disk.restore(path)
        with disable_fsync():
            found.append(check_table(operation, str(path), past=past))
    return found


@pytest.mark.parametrize(("disk", "name"), every(2, product(["lazy", "hasty"], OPERATIONS)))
def test_power_fails_before_any_sync(
    name: str, disk: str, copy: Callable[[str], str], kept: Path, tmp_path: Path
) -> None:
    operation, path = OPERATIONS[name], copy(name)
    past, _ = newest(path)
    power = PowerLoss(Path(path), kept)
    with power.watching():
        operation.run(at(path))

    found = states(operation, getattr(power, disk), tmp_path / disk, past)
    assert found[0] == operation.before
    assert found[-1] == operation.after


def test_what_is_not_synced_is_lost(copy: Callable[[str], str], kept: Path, tmp_path: Path) -> None:
    """The test itself notices a store that acknowledges too early."""
    operation, path = OPERATIONS["append"], copy("append")
    power = PowerLoss(Path(path), kept)
    with power.watching(), disable_fsync():
        operation.run(at(path))

    assert states(operation, power.lazy, tmp_path / "lazy", 1) == [operation.before]
