"""Success files of tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.tags import build_success_path, remove_success, write_success
from tests.support.tags import table


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    return table(tmp_path)


def test_who_was_told_once_is_told_again(metadata: TableMetadata) -> None:
    write_success(metadata, "v1", 1000)
    write_success(metadata, "v1", 2000)

    assert json.loads(metadata.store.read(build_success_path(metadata, "v1"))) == {
        "creationTime": 1000,
        "modificationTime": 2000,
    }


def test_nobody_is_told_any_more(metadata: TableMetadata) -> None:
    write_success(metadata, "v1", 1000)

    assert remove_success(metadata, "v1")
    assert not remove_success(metadata, "v1")


def test_a_damaged_file_is_named(metadata: TableMetadata) -> None:
    metadata.store.write(build_success_path(metadata, "v1"), b"{")

    with pytest.raises(CorruptFile, match="v1_SUCCESS: not a JSON object"):
        write_success(metadata, "v1", 1000)
