"""Errors can be sent between processes."""

from __future__ import annotations

import pickle

import pytest

from morrow.engine import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptFile("t/manifest/m", "ends too soon"),
        errors.Unsupported("the engine 'x'", where="t", hint="upgrade"),
        errors.FileMissing("t/bucket-0/a"),
        errors.UnclearOutcome("no answer"),
        errors.ColumnNotFound("no column 'x'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_they_come_back_as_they_were(error: errors.MorrowError) -> None:
    back = pickle.loads(pickle.dumps(error))

    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
