"""Writers, maintenance and readers in several processes at once: no row is wrong or missing, and the only errors are
conflicts with faster commits.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.lifecycle.needed import balance
from tests.lifecycle.observed import observe, rows
from tests.lifecycle.operations import VECTORS
from tests.lifecycle.players import FIRST_WRITER, ROLES, WRITERS, batch_rows, progress, run
from tests.lifecycle.tables import KINDS, Kind, frame, remove_all_orphans
from tests.support.processes import PROCESSES

SECONDS = 120 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1


@pytest.mark.parametrize("kind", [KINDS["append"], VECTORS], ids=["append", "vectors"])
def test_together(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    table = kind.create(path)
    table.append(frame(table, batch_rows(FIRST_WRITER, 0)))
    with ProcessPoolExecutor(len(ROLES), PROCESSES) as pool:
        played = {role: pool.submit(run, role, str(path), 1, SECONDS) for role in ROLES}
        counts = {role: future.result(SECONDS + 60) for role, future in played.items()}
    assert all(counts.values()), f"some had no turn: {counts}"

    came = progress(rows(table), keyed=kind.keyed)
    acknowledged = {number: counts[f"writer {number}"] for number in range(WRITERS)}
    assert came == {**acknowledged, FIRST_WRITER: 1}
    table.expire_snapshots(1, 1)
    remove_all_orphans(table)
    assert balance(path).unneeded == balance(path).missing == set()
    assert list(observe(str(path))["main"].snapshots.values()) == [rows(table)]
