"""The damage campaign (``python -m tests.campaigns.damage``) and its parts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.campaigns.damage import made
from tests.campaigns.damage.campaign import PROJECT, random_jobs, replayed_jobs, run
from tests.campaigns.damage.changes import apply, random_change
from tests.campaigns.damage.kinds import KINDS, files_of
from tests.campaigns.damage.readings import is_renamed, is_same
from tests.campaigns.damage.tables import tables
from tests.support.profile import every

METADATA = [name for name in KINDS if not name.startswith("data.")]
IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
COUNT = 20_000 if IS_LONG else 32
SEED = random.randrange(1 << 30) if IS_LONG else 4
WORKERS = 2 if IS_LONG else 1
"""Each worker imports Morrow and reads the intact tables, which takes longer than a few damages."""
SMALL = (
    "public/branches",
    "public/statistics",
    "changelog_decoupled",
    "public/manifest_orc",
    "public/manifest_parquet",
)
"""Parts of the names of a few tables that are fast to read and together have most kinds of files."""


def test_no_damage_of_metadata_is_read_as_other_rows(golden_root: Path) -> None:
    """Run a campaign; `make test-long` tries 20,000 damages with a new seed."""
    known = tables(golden_root)
    if not IS_LONG:
        known = {name: folder for name, folder in known.items() if any(part in name for part in SMALL)}
    outcomes = run(random_jobs(known, METADATA, COUNT, SEED), workers=WORKERS)
    assert len(outcomes.cases) > COUNT // 2
    assert [f"seed {SEED}: {case}" for case in outcomes.bad] == []


CASES = every(4, json.loads((Path(__file__).parent / "damage" / "cases.json").read_text()))
"""Earlier findings of campaigns, which have been fixed."""


def test_what_was_found_once_is_refused(golden_root: Path) -> None:
    outcomes = run(replayed_jobs(tables(golden_root), CASES), workers=WORKERS)
    assert len(outcomes.cases) == len(CASES)
    # ORC values lack checksums: for data files, it is enough that the process survives.
    survived = {"data.orc": {"refused", "same", "silent"}}
    assert [case for case in outcomes.cases if case["out"] not in survived.get(case["kind"], {"refused"})] == []


def test_columns_of_other_names_are_told_from_other_rows() -> None:
    rows = pa.table({"a": [1, 2], "day": pa.array([2**30, 5], pa.int32()).cast(pa.date32())})
    assert is_same(rows, rows.take([1, 0]))
    assert is_renamed(rows.rename_columns(["x", "day"]), rows)
    assert not is_renamed(rows.slice(0, 1), rows)


CONTENT = bytes(range(40))


def test_damages_behind_a_place() -> None:
    made = [random_change(random.Random(seed), CONTENT, 30) for seed in range(300)]
    assert all(apply(what, CONTENT)[:30] == CONTENT[:30] for what in made)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("bit 1.7", b"\x00\x81" + CONTENT[2:]),
        ("byte 2=255", CONTENT[:2] + b"\xff" + CONTENT[3:]),
        ("cut 3", CONTENT[:3]),
        ("hole 4 2", CONTENT[:4] + b"\0\0" + CONTENT[6:]),
        ("drop 4 2", CONTENT[:4] + CONTENT[6:]),
        ("double 4 2", CONTENT[:6] + CONTENT[4:]),
        ("swap 1 4 2", b"\x00\x04\x05\x03\x01\x02" + CONTENT[6:]),
    ],
)
def test_a_damage_is_made_from_its_name(what: str, expected: bytes) -> None:
    assert apply(what, CONTENT) == expected


def test_damages_of_a_seed_are_always_the_same_and_change_something() -> None:
    made = [random_change(random.Random(seed), CONTENT) for seed in range(200)]
    assert made == [random_change(random.Random(seed), CONTENT) for seed in range(200)]
    assert all(apply(what, CONTENT) != CONTENT for what in made)
    assert len({what.split()[0] for what in made}) == 7


@pytest.mark.parametrize("form", made.FORMATS)
def test_data_files_of_tables_that_morrow_makes(form: str) -> None:
    tables = {name: folder for name, folder in made.made(PROJECT / ".cache").items() if name.split("/")[1] == form}
    plain, pages, verified = (KINDS[f"data.{form}{how}"] for how in ("", " pages", " verify"))
    for folder in tables.values():
        damaged = [file for file in files_of(folder) if plain.has(folder, file)]
        assert damaged
        assert all(kind.has(folder, file) for kind in (pages, verified) for file in damaged)
        truth = [reading.ask(folder) for kind in (plain, pages) for reading in kind.readings(folder, damaged[0])[:2]]
        assert all(is_same(answer, truth[0]) for answer in truth)
