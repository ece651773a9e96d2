"""A catalog of the interface of pypaimon."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import CatalogFactory


@pytest.fixture
def catalog(tmp_path: Path) -> pypaimon.Catalog:
    made = CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("db", False)
    return made
