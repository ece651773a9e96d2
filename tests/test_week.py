"""The days of ``python -m examples.week``, each on the tables that the days before left."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.week.__main__ import DAYS


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("week")


@pytest.mark.parametrize("day", DAYS)
def test_a_day_ends_as_it_says(warehouse: Path, day: str, capsys: pytest.CaptureFixture[str]) -> None:
    DAYS[day](warehouse, 400)

    assert capsys.readouterr().out
