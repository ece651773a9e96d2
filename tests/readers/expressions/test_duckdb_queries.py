"""The version of DuckDB."""

from __future__ import annotations

import duckdb
import pytest

import morrow
from morrow.engine.errors import Unsupported


def test_a_duckdb_that_would_end_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    with pytest.raises(Unsupported, match=r"DuckDB 1\.5\.6.*pip install 'duckdb>=2'"):
        morrow.duckdb.install()
