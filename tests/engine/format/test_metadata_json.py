"""Slips: unknown names that differ from a known one by a typing error or a damaged byte."""

from __future__ import annotations

import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.format.metadata_json import is_misspelling, refuse_slips

SLIPS = [
    ("merge-enginf", "merge-engine"),
    ("Merge-engine", "merge-engine"),
    ("mereg-engine", "merge-engine"),
    ("merg-engine", "merge-engine"),
    ("merge-enginee", "merge-engine"),
    ("merge-gine", "merge-engine"),
    ("mergerge-engine", "merge-engine"),
    ("bucked", "bucket"),
    ("primaryKeyr", "primaryKeys"),
    ("iodexManifest", "indexManifest"),
]
OTHERS = [
    ("merge-engine", "merge-engine"),
    ("sequence", "sequence.field"),
    ("sequence.field.sort-order", "sequence.field"),
    ("buckets", "bucket"),
    ("paths", "path"),
    ("merge", "merge-engine"),
    ("engine", "merge-engine"),
    ("custom.merge-engine", "merge-engine"),
    ("deltaManifestList", "baseManifestList"),
]


@pytest.mark.parametrize(("name", "meant"), SLIPS)
def test_a_slip(name: str, meant: str) -> None:
    assert is_misspelling(name, meant)


@pytest.mark.parametrize(("name", "meant"), OTHERS)
def test_another_name(name: str, meant: str) -> None:
    assert not is_misspelling(name, meant)


def test_every_single_changed_character_is_a_slip() -> None:
    meant = "deletion-vectors.enabled"
    assert all(is_misspelling(meant[:i] + "Z" + meant[i + 1 :], meant) for i in range(len(meant)))


def test_a_slip_counts_only_where_the_member_is_missing() -> None:
    refuse_slips({"statistics": 1, "statistica": 2, "anything": 3}, ("statistics",), "f")
    with pytest.raises(CorruptFile, match="'statistica' looks like a damaged 'statistics', which is missing"):
        refuse_slips({"statistica": 2}, ("statistics",), "f")
