from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.consumers import Consumers
from morrow.writers.history.expiry.consumers import expire_consumers
from tests.support.written import new_table

HOUR = 3600


def table_with_consumers(folder: Path, **hours_ago: float) -> morrow.Table:
    """Makes a table with consumers that were last heard of some hours ago."""
    table = new_table(folder, "v INT")
    for name, hours in hours_ago.items():
        Consumers(table._metadata).record(name, 1)
        moment = time.time() - hours * HOUR
        os.utime(Path(table._metadata.root) / "consumer" / f"consumer-{name}", (moment, moment))
    return table


def test_silent_consumers_are_forgotten(tmp_path: Path) -> None:
    table = table_with_consumers(tmp_path, old=5, older=9, young=1)
    moment = int((time.time() - 3 * HOUR) * 1000)
    assert expire_consumers(table._metadata, older_than_millis=moment) == ["old", "older"]
    assert Consumers(table._metadata).all() == {"young": 1}
    assert expire_consumers(table._metadata, older_than_millis=moment) == []


def test_the_option_says_how_long_they_may_be_silent(tmp_path: Path) -> None:
    table = table_with_consumers(tmp_path, old=5, young=1)
    assert expire_consumers(table._metadata) == []  # without the option they stay for ever
    table.alter.set_options({"consumer.expiration-time": "3 h"})
    assert expire_consumers(table._metadata) == ["old"]


def test_an_option_that_is_no_time_span_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "v INT")
    with pytest.raises(InvalidArgument):
        table.alter.set_options({"consumer.expiration-time": "long"})
