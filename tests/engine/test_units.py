"""Numbers in readable form."""

from __future__ import annotations

import datetime as dt

import pytest

from morrow.engine.units import format_duration


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (dt.timedelta(days=7), "7 days"),
        (dt.timedelta(days=1, hours=12), "1 day 12 hours"),
        (dt.timedelta(minutes=1, seconds=1.5), "1 minute 1.5 seconds"),
        (dt.timedelta(seconds=1), "1 second"),
        (dt.timedelta(0), "0 seconds"),
    ],
)
def test_spans_are_told_exactly(span: dt.timedelta, text: str) -> None:
    assert format_duration(span) == text
