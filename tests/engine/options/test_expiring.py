"""How long snapshots and changelogs stay, by the options of a table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.expiring import UNLIMITED, ExpireOptions, Retention, parse_expire_options

HOUR = timedelta(hours=1)


def test_defaults_are_those_of_paimon() -> None:
    options = parse_expire_options({}, where="t")
    assert options == ExpireOptions(
        snapshots=Retention(UNLIMITED, 10, HOUR),
        changelogs=Retention(UNLIMITED, 10, HOUR),
        limit=50,
        clean_empty_directories=False,
        consumers_keep_changelogs_only=False,
        write_only=False,
    )
    assert not options.decoupled


def test_changelogs_stay_as_long_as_snapshots_unless_they_are_told_to_stay_longer() -> None:
    raw = {"snapshot.num-retained.max": "20", "snapshot.time-retained": "2 h"}
    options = parse_expire_options(raw, where="t")
    assert options.changelogs == options.snapshots == Retention(20, 10, 2 * HOUR)

    for key, value in (("num-retained.max", "21"), ("num-retained.min", "11"), ("time-retained", "3 h")):
        assert parse_expire_options({**raw, f"changelog.{key}": value}, where="t").decoupled
    for key, value in (("num-retained.max", "20"), ("num-retained.min", "5"), ("time-retained", "1 h")):
        assert not parse_expire_options({**raw, f"changelog.{key}": value}, where="t").decoupled


def test_other_options() -> None:
    raw = {
        "snapshot.expire.limit": "7",
        "snapshot.expire.clean-empty-directories": "true",  # its former name
        "consumer.changelog-only": "true",
        "write-only": "true",
    }
    options = parse_expire_options(raw, where="t")
    assert options.limit == 7
    assert options.clean_empty_directories
    assert options.consumers_keep_changelogs_only
    assert options.write_only


def test_values_that_do_not_parse() -> None:
    with pytest.raises(InvalidArgument, match=r"snapshot\.time-retained"):
        parse_expire_options({"snapshot.time-retained": "an hour"}, where="t")


@pytest.mark.parametrize(("most", "least"), [(1, 2), (5, 0), (0, 0)])
def test_numbers_that_contradict_each_other(most: int, least: int) -> None:
    with pytest.raises(InvalidArgument, match="retained"):
        Retention(most, least, HOUR).check("t")
