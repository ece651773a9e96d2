"""Table options that define where streams begin and end, and their consumer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported


def table(path: Path, **options: str) -> morrow.Table:
    """Make three snapshots with one row each and the watermarks 100, 200 and 300."""
    made = morrow.Catalog(path).create_table("db.t", schema="n INT", options={"bucket": "-1", **options})
    with made.writer() as writer:
        for n in (1, 2, 3):
            writer.write({"n": [n]})
            writer.commit(watermark=100 * n)
    return made


def altered(made: morrow.Table, options: dict[str, str]) -> morrow.Table:
    made.alter.set_options(options)
    return made


def read(made: morrow.Table, **arguments: Any) -> list[list[int]]:
    return [changes.to_arrow()["n"].to_pylist() for changes in made.stream(wait=0, **arguments)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[1, 2, 3]]),
        ({"scan.mode": "latest-full"}, [[1, 2, 3]]),
        ({"scan.mode": "latest"}, []),
        ({"log.scan": "latest"}, []),
        ({"scan.snapshot-id": "2"}, [[2], [3]]),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}, [[3]]),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [[1, 2], [3]]),
        ({"scan.timestamp-millis": "0"}, [[1], [2], [3]]),
        ({"scan.bounded.watermark": "200", "scan.snapshot-id": "1"}, [[1], [2]]),
        ({"scan.bounded.watermark": "50"}, [[1, 2, 3]]),
        ({"streaming.read.snapshot.delay": "1 d", "scan.snapshot-id": "1"}, []),
    ],
)
def test_where_a_stream_begins_and_ends(options: dict[str, str], expected: list[list[int]], tmp_path: Path) -> None:
    assert read(altered(table(tmp_path), options)) == expected


def test_the_caller_says_it_first(tmp_path: Path) -> None:
    made = table(tmp_path, **{"scan.mode": "latest"})
    assert read(made, start="full") == [[1, 2, 3]]
    assert read(made, from_snapshot=3) == [[3]]


def test_a_bounded_stream_is_over_for_good(tmp_path: Path) -> None:
    made = table(tmp_path, **{"scan.bounded.watermark": "100", "scan.mode": "latest-full"})
    stream = made.stream()  # an unbounded stream would wait forever
    assert [changes.to_arrow().num_rows for changes in stream] == [3]
    made.append({"n": [4]})
    assert list(stream) == []


def test_the_consumer_of_the_options(tmp_path: Path) -> None:
    made = table(tmp_path, **{"consumer-id": "me"})
    with made.stream(from_snapshot=1, wait=0) as stream:
        assert next(stream).to_arrow()["n"].to_pylist() == [1]
    assert made.consumers.all() == {"me": 2}
    assert read(made) == [[2], [3]]

    anew = altered(made, {"consumer.ignore-progress": "true"})
    assert read(anew) == [[1, 2, 3]]
    assert read(anew, consumer_id="me") == [[2], [3]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scan.tag-name": "t"}, Unsupported),
        ({"scan.watermark": "100"}, Unsupported),
        ({"scan.bounded.watermark": "soon"}, InvalidArgument),
    ],
)
def test_beginnings_that_streams_do_not_have(options: dict[str, str], error: type[Exception], tmp_path: Path) -> None:
    made = table(tmp_path)
    if error is Unsupported:
        made = altered(made, options)
        with pytest.raises(Unsupported, match="a stream of a table with the option"):
            made.stream(wait=0)
        assert read(made, start="full") == [[1, 2, 3]]
    else:
        with pytest.raises(InvalidArgument):
            altered(made, options)
