"""Short lives in which data was once lost, found by the state machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lifecycle.model import NEVER
from tests.lifecycle.observed import COLUMNS
from tests.lifecycle.tables import KINDS
from tests.lifecycle.test_machine import Lives


@pytest.fixture
def with_changelog() -> Iterator[Lives]:
    yield from _lives("vectors")


@pytest.fixture
def life() -> Iterator[Lives]:
    yield from _lives("append")


def _lives(kind: str) -> Iterator[Lives]:
    lives = Lives(KINDS[kind])
    lives.create(dict(zip(COLUMNS, COLUMNS, strict=True)))
    yield lives
    lives.teardown()


def _write(life: Lives, times: int, *, branch: int = 0) -> None:
    for number in range(times):
        life.write(pick=branch, ids=[number], partition=0)


def test_the_oldest_snapshot_to_expire_has_a_tag_and_so_has_one_before_it(life: Lives) -> None:
    """The older tag needs the files that the compaction deleted."""
    _write(life, 4)
    life.create_tag(pick=0, which=3)
    life.compact(pick=0, full=True)
    life.expire(pick=0, retain_min=1, more=0, which=0, most=NEVER)
    life.create_tag(pick=0, which=0)
    _write(life, 2)
    life.expire(pick=0, retain_min=2, more=0, which=0, most=NEVER)


def test_a_branch_goes_whose_last_common_snapshot_is_alive_and_an_older_one_a_tag(life: Lives) -> None:
    _write(life, 3)
    life.create_branch(origin="snapshot", which=2)
    _write(life, 2, branch=1)
    life.compact(pick=1, full=True)
    life.fast_forward(which=0)
    life.create_tag(pick=0, which=4)
    _write(life, 1)
    life.expire(pick=0, retain_min=2, more=0, which=0, most=NEVER)
    life.delete_branch(which=0)


def _tag_alone(life: Lives) -> None:
    """Make a tag whose snapshot and changelog have expired."""
    _write(life, 2)
    life.create_tag(pick=0, which=1)
    _write(life, 1)
    life.expire(pick=0, retain_min=1, more=0, which=0, most=NEVER)


def test_a_branch_of_a_tag_has_no_changelog_that_is_gone(with_changelog: Lives) -> None:
    _tag_alone(with_changelog)
    with_changelog.create_branch(origin="tag", which=0)
    with_changelog.clean()


def test_a_rollback_to_a_tag_brings_back_no_changelog_that_is_gone(with_changelog: Lives) -> None:
    _tag_alone(with_changelog)
    with_changelog.rollback_to_a_tag(pick=0, which=0)
    with_changelog.clean()
