"""Tests with libraries older than the newest: refusals that name a version are skips, not failures.

With Polars 1 the errors of Python sources reach callers of `pl.LazyFrame.collect` as `ComputeError`, as the README
says. Tests that collect frames themselves get the error that was raised.
"""

from __future__ import annotations

import re
import sys
from functools import wraps
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from morrow.engine.library_versions import RAISES_SOURCE_ERRORS, find_source_error

TESTS = str(Path(__file__).parents[1])
REFUSED = re.compile(r"(DuckDB 1|Polars 1|pyarrow (1\d|2[0-5]))[\d.]* is not supported")
"""Refusals by version; newer libraries never cause one."""
NEW_CALLS = re.compile(
    r"(module 'polars' has no attribute 'Map'"
    r"|module 'pyarrow' has no attribute '(uuid|json_|decimal32|decimal64|bool8)'"
    r"|by the name of 'to_arrow_(reader|table)'"
    r"|No module named 'duckdb\._relation')"
)
"""Errors of tests that themselves call what an older library lacks."""


def find_refusal(report: str) -> str | None:
    """Return the part of a failure's text that says what the older library lacks."""
    found = REFUSED.search(report) or NEW_CALLS.search(report)
    return found and found[0]


def skip_refused(report: pytest.TestReport) -> None:
    """Turn a failure into a skip if Morrow refused the versions of the libraries."""
    refusal = find_refusal(report.longreprtext) if report.failed else None
    if refusal is not None:
        report.outcome = "skipped"
        report.longrepr = (str(report.fspath), 0, f"refused: {refusal}")


def raise_own_errors() -> None:
    """Let `collect`, called by tests, raise the errors of Python sources with Polars 1, too."""
    if RAISES_SOURCE_ERRORS:
        return

    def raising(call: Any) -> Any:
        @wraps(call)
        def collect(*args: Any, **options: Any) -> Any:
            try:
                return call(*args, **options)
            except pl.exceptions.ComputeError as error:
                if sys._getframe(1).f_code.co_filename.startswith(TESTS) and (own := find_source_error(error)):
                    raise own from None
                raise

        return collect

    pl.LazyFrame.collect = raising(pl.LazyFrame.collect)  # type: ignore[method-assign]
    pl.collect_all = raising(pl.collect_all)
