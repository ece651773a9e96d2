"""States walked one after another name the files that each of them names by itself."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.roots import Line
from morrow.engine.plan.state_walk import NAME, StateWalk
from morrow.engine.values import replace
from tests.support import golden
from tests.writers.history.expiry.lives import Life

SAMPLE = ("public/dv_pk", "public/tags_dv", "public/branches", "public/changelog_lookup", "public/rollback_tag")


def names(frame: pl.DataFrame) -> set[tuple[object, ...]]:
    return set(frame.select(*NAME).iter_rows())


@pytest.mark.parametrize("case", [c.name for c in golden.cases() if c.name in SAMPLE])
def test_what_is_new_is_what_no_state_before_had(golden_root: Path, case: str) -> None:
    metadata = TableMetadata(LocalStore(), str(golden_root / case / "warehouse" / "db.db" / "t"))
    walk, seen = StateWalk(), set[tuple[object, ...]]()
    for root in reversed([root for root in Line.of(metadata).roots() if root.keeps_data]):
        schema = metadata.schema(root.snapshot.schema_id)
        whole = names(live_entries(metadata, root.snapshot, schema).frame)

        assert names(walk.unseen(metadata, root.snapshot, schema)) == whole - seen
        seen |= whole
    assert seen


def test_a_state_that_contradicts_itself_raises_what_its_read_raises(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("a")
    life.write("b")
    walk, metadata = StateWalk(), life.metadata
    newest = metadata.snapshot(2)
    wrong = replace(newest, total_record_count=77)

    with pytest.raises(Unsupported, match="says 77"):
        walk.unseen(metadata, wrong, metadata.latest_schema())
    assert len(walk.unseen(metadata, newest, metadata.latest_schema())) == 2
