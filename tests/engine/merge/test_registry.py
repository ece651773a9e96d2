"""Merge engines have one home."""

from __future__ import annotations

import re
from pathlib import Path

from morrow.engine.merge.registry import BUILT_IN
from morrow.engine.options.kinds import MERGE_ENGINES

ROOT = Path(__file__).parents[3]


def test_engines_are_told_apart_by_their_traits() -> None:
    """Only `engine/merge` and the declaration of the option name engines."""
    named = re.compile("|".join(f"[\"']{engine}[\"']" for engine in BUILT_IN))
    sources = [path for folder in ("engine", "readers", "writers", "morrow") for path in (ROOT / folder).rglob("*.py")]
    homes = ("engine/merge/", "engine/options/", "cli/demo.py")  # the demo makes tables as users do

    found = [
        str(path.relative_to(ROOT))
        for path in sources
        if not str(path.relative_to(ROOT)).removeprefix("morrow/").startswith(homes) and named.search(path.read_text())
    ]

    assert len(sources) > 100
    assert found == []


def test_the_option_takes_the_engines_that_are_built_in() -> None:
    """`MERGE_ENGINES` stands below the registry, which it cannot import."""
    assert set(MERGE_ENGINES) == set(BUILT_IN)
