"""The tags as they are looked at after every commit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from morrow.engine.errors import CorruptFile
from morrow.writers.history.tags.creation import create_tag
from morrow.writers.history.tags.listing import tag_files
from morrow.writers.history.tags.success import write_success
from tests.support.recording_store import RecordingStore
from tests.support.tags import table


def test_tags_are_read_once(tmp_path: Path) -> None:
    store = RecordingStore()
    metadata = table(tmp_path, "2024-05-14", "2024-05-15", store=store)
    create_tag(metadata, "b", 1)
    create_tag(metadata, "a", 1)
    create_tag(metadata, "c", 1)
    write_success(metadata, "a", 0)
    store.reads.clear()

    for _ in range(3):
        assert [file.tag.name for file in tag_files(metadata)] == ["a", "b", "c"]
    assert sorted(store.reads) == ["tag-a", "tag-b", "tag-c"]


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-14", "2024-05-15")
    create_tag(metadata, "v1", 1)
    assert [file.tag.snapshot.id for file in tag_files(metadata)] == [1]

    path = Path(metadata.paths.tag("v1"))
    path.write_bytes(Path(metadata.paths.snapshot(2)).read_bytes())
    os.utime(path, (1, 1))

    assert [(file.tag.snapshot.id, file.modified_millis) for file in tag_files(metadata)] == [(2, 1000)]


def test_a_damaged_tag_is_named(tmp_path: Path) -> None:
    metadata = table(tmp_path, "2024-05-14")
    metadata.store.write(metadata.paths.tag("v1"), b"{")

    with pytest.raises(CorruptFile, match="tag-v1"):
        tag_files(metadata)
