"""What the options of ``format("morrow")`` come to, and how the text of each kind is parsed.

A parser of text raises ValueError for text that it does not take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from morrow.engine.io.resolve import VERIFY_PAGES
from morrow.engine.plan.time_travel import TravelArguments
from morrow.session import Verify
from morrow.spark.source.limits import Limit
from morrow.spark.writing.evolving import Evolution


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read: arguments of `Table.scan`."""

    columns: tuple[str, ...] | None
    filter: str | None
    travel: TravelArguments
    changes: Mapping[str, str] = field(default_factory=dict)
    """Options that ask for the changes between two states."""


@dataclass(frozen=True)
class LeastRows:
    """The rows that a micro-batch waits for, and for how long at most after the previous one."""

    rows: int
    within_seconds: float


@dataclass(frozen=True)
class StreamOptions:
    """The options of a stream: its start, the leading columns of its rows, and the size of a micro-batch."""

    columns: tuple[str, ...] | None
    filter: str | None
    starting_snapshot: int | None
    starting_timestamp: int | str | None
    start: str
    """`FULL`: all rows, of the starting snapshot if there is one, before changes; otherwise `CHANGES`."""
    begins: bool
    """Whether the query says where the stream begins; otherwise the table's options do."""
    kinds: bool
    consumer_id: str | None
    most_snapshots: int | None
    limit: Limit | None
    least_rows: LeastRows | None
    raw: bool = False
    """Whether rows as they were written are asked for, where they are no whole rows."""


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write; `table` are options that the table has or is created with."""

    kinds: str | None
    commit_user: str | None
    commit_identifier: int | None
    dynamic_overwrite: bool | None
    """None where it is not given."""
    table: Mapping[str, str]
    evolution: Evolution | None = None
    """How the table's columns follow those of the rows; None: not at all."""
    replace_where: str | None = None
    """The condition of an overwrite."""


@dataclass(frozen=True)
class Place:
    """The table's path and branch, and the options of its store; `branch` None is main. `by_catalog`: as packed."""

    path: str
    branch: str | None
    storage_options: Mapping[str, str] = field(repr=False)
    verify: Verify | None = None
    by_catalog: str | None = field(default=None, repr=False)


def names_of_columns(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a JSON list of names is expected")
        return tuple(names)
    return tuple(name.strip() for name in text.split(","))


def id_or_text(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it is 1 at least")
    return number


def one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"it is {' or '.join(values)}")
        return text.lower()

    return parse


def verify(text: str) -> Verify:
    return cast("Verify", one_of(VERIFY_PAGES)(text))


def boolean(text: str) -> bool:
    return one_of("true", "false")(text) == "true"
