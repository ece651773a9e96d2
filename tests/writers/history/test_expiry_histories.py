"""Golden tables with expiry, tags and rollbacks, replayed by Morrow: the same snapshots and files remain."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.io.local import disable_fsync
from tests.lifecycle.needed import balance
from tests.support.golden_lives import GoldenLife, left

pytestmark = pytest.mark.golden

THE_SAME = (
    *("snapshots_expired", "snapshots_auto_expire", "changelog_decoupled_expire", "consumers"),
    *("tags_append_expired", "tags_basic", "tags_deleted_all", "tags_dv", "tags_expired_snapshots"),
    *("tags_pip_deletion", "tags_replace_rename", "tags_schema_evolution"),
)
ROLLED_BACK = ("rollback_snapshot", "rollback_tag")


def lived(case: str, golden_root: Path, tmp_path: Path) -> GoldenLife:
    life = GoldenLife(golden_root / "public" / case, tmp_path)
    with disable_fsync():
        life.run()
    return life


def check_balance(life: GoldenLife) -> None:
    found = balance(life.of_morrow.root)
    assert (found.missing, found.unneeded) == (frozenset(), frozenset())


@pytest.mark.parametrize("case", THE_SAME)
def test_the_same_is_left(case: str, golden_root: Path, tmp_path: Path) -> None:
    life = lived(case, golden_root, tmp_path)
    assert left(life.of_morrow) == left(life.of_java)
    check_balance(life)


@pytest.mark.parametrize("case", ROLLED_BACK)
def test_the_same_states_after_a_rollback_and_fewer_files(case: str, golden_root: Path, tmp_path: Path) -> None:
    """Java leaves the files of rolled-back snapshots to the cleanup of orphan files."""
    life = lived(case, golden_root, tmp_path)
    check_balance(life)
    mine, theirs = left(life.of_morrow), left(life.of_java)
    assert [mine[name] for name in ("snapshots", "tags", "changelogs")] == [
        theirs[name] for name in ("snapshots", "tags", "changelogs")
    ]
    assert all(count <= theirs["files"][kind] for kind, count in mine["files"].items())
    assert sum(mine["files"].values()) < sum(theirs["files"].values())
