"""Catalog kinds by name."""

from __future__ import annotations

import pytest

import morrow
from morrow.engine.errors import Unsupported


@pytest.mark.parametrize("kind", ["dlf", "DLF "])
def test_a_metastore_that_morrow_does_not_have_is_named(kind: str) -> None:
    options = {"metastore": kind, "uri": "https://user:hidden-word@metastore:9083", "warehouse": "lake"}
    with pytest.raises(Unsupported, match=r"metastore='dlf', a catalog of DLF.*open its tables") as told:
        morrow.open_catalog(options)
    assert "hidden-word" not in str(told.value)
    assert "\n" not in str(told.value)


def test_slips_are_told() -> None:
    with pytest.raises(Unsupported, match="did you mean 'filesystem'"):
        morrow.open_catalog({"metastore": "filesystm", "warehouse": "lake"})
