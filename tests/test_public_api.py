"""The public interface changes only on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.support.public_api import lines

LOCK = Path(__file__).with_name("public_api.txt")


def test_names_and_signatures_are_those_that_were_agreed_on() -> None:
    """After an intended change, run: python -m tests.support.public_api > tests/public_api.txt"""
    assert list(lines()) == LOCK.read_text().splitlines()
