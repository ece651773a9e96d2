"""The Spark guide runs as written; `tests.test_docs` runs the other guides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docs import SPARK_GUIDE, run_guide


@pytest.mark.usefixtures("spark")  # the guide gets this session when it asks for one
def test_the_guide_runs(golden_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_guide(SPARK_GUIDE, golden_root)
