"""The options of ``format("morrow")``, parsed and checked; unknown options are errors.

Reading    columns, filter, push-filters, branch, one of as-of, snapshot, tag, timestamp, watermark, version
Streams    starting-snapshot, starting-timestamp, scan.mode (`option_names.MODES`), read.changelog, consumer-id,
           max-snapshots-per-trigger, one of read.stream.maxFilesPerTrigger, ...maxBytesPerTrigger and
           ...maxRowsPerTrigger, read.stream.minRowsPerTrigger together with read.stream.maxTriggerDelayMs
Writing    kinds, commit-user, commit-identifier, partitionOverwriteMode (``static`` or ``dynamic``)
New tables primary-key, partition and the table's own options
Stores     ``storage.<name>``, as `storage_options` of `morrow.open`; verify, as its `verify`

``push-filters`` is for the data source alone (`datasource.PushingReader`): in a registered session Spark's own scan has
the filters anyway.

Names ignore case, as in Spark. Other tools' names of the same options are accepted too (`option_names.ALIASES`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.resolve import VERIFY_PAGES
from morrow.engine.plan.time_travel import TravelArguments
from morrow.session import Verify
from morrow.spark.source.limits import Limit
from morrow.spark.source.option_names import (
    ALIASES,
    CASTING,
    CHANGES,
    CONSUMER_ID,
    EVOLVING,
    FULL,
    KINDS,
    LEAST_ROWS,
    LIMITS,
    MERGE_SCHEMA,
    MODE,
    MODES,
    MOST_DELAY,
    OF_PAIMONS_WRITES,
    OF_SPARK,
    OF_STREAMS,
    OVERWRITE_MODE,
    PUSH_FILTERS,
    REPLACE_WHERE,
    SNAPSHOTS,
    STORAGE_PREFIX,
    TIMESTAMPS,
    WIDENING,
)
from morrow.spark.writing.evolving import Evolution

T = TypeVar("T")


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read: arguments of `Table.scan`."""

    columns: tuple[str, ...] | None
    filter: str | None
    travel: TravelArguments


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
    """The table's path and branch, and the options of its store; `branch` None is main."""

    path: str
    branch: str | None
    storage_options: Mapping[str, str] = field(repr=False)
    verify: Verify | None = None


class Options:
    """Options as Spark passes them. Each getter raises `InvalidArgument` for an invalid value."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given: dict[str, str] = {}
        for key, value in given.items():
            name = ALIASES.get(key.lower(), key.lower())
            if name in self._given:
                raise InvalidArgument(f"the option {name!r} is given twice, under different names")
            self._given[name] = value

    def place(self) -> Place:
        if "paths" in self._given:
            raise InvalidArgument("several paths: a DataFrame is of one table; join them by .union(...)")
        path = self._given.get("path")
        if not path:
            raise InvalidArgument(
                'there is no table: give its path, .load("warehouse/db.db/orders"); of tables of its own catalog '
                "(CREATE TABLE ... USING morrow) Spark tells none"
            )
        names = [name for name in self._given if name.startswith(STORAGE_PREFIX)]
        storage = {name.removeprefix(STORAGE_PREFIX): self._given[name] for name in names}
        return Place(path, self._given.get("branch"), storage, self._get("verify", _verify))

    @property
    def pushes_filters(self) -> bool:
        """Whether Spark passes its filters; see `datasource.PushingReader`."""
        return self._get(PUSH_FILTERS, _boolean) or False

    @property
    def is_stream(self) -> bool:
        """Whether an option is given that only streams have."""
        return any(name in OF_STREAMS for name in self._given)

    def read(self) -> ReadOptions:
        """Parses the options of a batch read. Refuses those of a stream and unknown ones."""
        travel: dict[str, Callable[[str], int | str]] = {
            "as-of": _id_or_text,
            "snapshot": int,
            "tag": str,
            "timestamp": _id_or_text,
            "watermark": int,
            "version": str,
        }
        self._only("columns", "filter", PUSH_FILTERS, *travel)
        found = {name.replace("-", "_"): self._get(name, parse) for name, parse in travel.items()}
        chosen = {name: value for name, value in found.items() if value is not None}
        return ReadOptions(self._get("columns", _columns), self._given.get("filter"), cast("TravelArguments", chosen))

    def stream(self) -> StreamOptions:
        """Parses the options of a stream read."""
        self._only("columns", "filter", *SNAPSHOTS, *TIMESTAMPS, *OF_STREAMS)
        begin = [name for name in (*SNAPSHOTS, *TIMESTAMPS) if name in self._given]
        _at_most_one("where a stream begins", begin)
        sizes = [name for name in LIMITS.values() if name in self._given]
        _at_most_one("what a batch takes", sizes)
        limits = (Limit(what, size) for what, name in LIMITS.items() if (size := self._get(name, _positive)))
        return StreamOptions(
            columns=self._get("columns", _columns),
            filter=self._given.get("filter"),
            starting_snapshot=next((self._get(name, _positive) for name in begin if name in SNAPSHOTS), None),
            starting_timestamp=next((self._get(name, _id_or_text) for name in begin if name in TIMESTAMPS), None),
            start=self._start(begin),
            begins=bool(begin) or MODE in self._given,
            kinds=self._get(KINDS, _boolean) or False,
            consumer_id=self._given.get(CONSUMER_ID),
            most_snapshots=self._get("max-snapshots-per-trigger", _positive),
            limit=next(limits, None),
            least_rows=self._least_rows(),
        )

    def _start(self, begin: list[str]) -> str:
        mode = self._get(MODE, _one_of("default", *MODES)) or "default"
        if mode == "default":
            return CHANGES if begin else FULL
        start, needed = MODES[mode]
        if needed and not any(name in needed for name in begin):
            raise InvalidArgument(f"{MODE!r} = {mode!r} needs the option {needed[0]!r}")
        if begin and begin[0] not in needed:
            raise InvalidArgument(f"{MODE!r} = {mode!r} and {begin[0]!r} both say where a stream begins")
        return start

    def _least_rows(self) -> LeastRows | None:
        rows, delay = self._get(LEAST_ROWS, _positive), self._get(MOST_DELAY, _positive)
        if rows is None and delay is None:
            return None
        if rows is None or delay is None:
            raise InvalidArgument(f"{LEAST_ROWS!r} and {MOST_DELAY!r} are given together or not at all")
        return LeastRows(rows, delay / 1000)

    def sink(self, *, overwrite: bool = True) -> SinkOptions:
        """Parses the options of a write; all that do not concern the write itself are the table's."""
        own = {
            "kinds",
            "commit-user",
            "commit-identifier",
            OVERWRITE_MODE,
            "branch",
            "verify",
            REPLACE_WHERE,
            *EVOLVING,
        }
        mode = self._get(OVERWRITE_MODE, _one_of("static", "dynamic"))
        if mode is not None and not overwrite:
            raise InvalidArgument("the option 'partitionOverwriteMode' belongs to .mode('overwrite'); leave it out")
        if "commit-identifier" in self._given and "commit-user" not in self._given:
            raise InvalidArgument("'commit-identifier' numbers the commits of a 'commit-user'; give one")
        self._refuse_paimons()
        apart = (STORAGE_PREFIX, *OF_PAIMONS_WRITES)
        others = (name for name in self._given if name not in own | OF_SPARK and not name.startswith(apart))
        return SinkOptions(
            kinds=self._given.get("kinds"),
            commit_user=self._given.get("commit-user"),
            commit_identifier=self._get("commit-identifier", int),
            dynamic_overwrite=None if mode is None else mode == "dynamic",
            table={name: self._given[name] for name in others},
            evolution=self._evolution(),
            replace_where=self._replace_where(overwrite, mode),
        )

    def _replace_where(self, overwrite: bool, mode: str | None) -> str | None:
        condition = self._given.get(REPLACE_WHERE)
        if condition is not None and not overwrite:
            raise InvalidArgument("the option 'replaceWhere' belongs to .mode('overwrite'); leave it out")
        if condition is not None and mode == "dynamic":
            raise InvalidArgument("'replaceWhere' and 'partitionOverwriteMode' both say what is overwritten")
        return condition

    def _evolution(self) -> Evolution | None:
        merges, widens, casts = (self._get(name, _boolean) or False for name in (MERGE_SCHEMA, WIDENING, CASTING))
        if merges:
            return Evolution(widens, casts)
        if widens or casts:
            raise InvalidArgument(f"{WIDENING if widens else CASTING!r} belongs to {MERGE_SCHEMA!r} = 'true'")
        return None

    def _refuse_paimons(self) -> None:
        for name in self._given:
            if name.startswith(OF_PAIMONS_WRITES) and self._get(name, _boolean):
                raise Unsupported(f"the option {name!r}", hint="change the table first, by morrow.open(path).alter")

    def _get(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._given.get(name)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except ValueError as error:
            raise InvalidArgument(f"the option {name!r} cannot be {text!r}: {error}") from error

    def _only(self, *known: str) -> None:
        allowed = {*known, "branch", "verify", *OF_SPARK}
        for name in self._given:
            if name not in allowed and not name.startswith(STORAGE_PREFIX):
                raise InvalidArgument(
                    f"there is no option {name!r} here; known are {', '.join(sorted(known))}, branch, verify"
                )


def check_stream_sink(given: Mapping[str, str]) -> None:
    """Raises `InvalidArgument` for options that only a batch has."""
    if Options(given).sink().commit_identifier is not None:
        raise InvalidArgument("the commits of a stream are numbered by its batches; leave 'commit-identifier' out")


def _at_most_one(what: str, names: list[str]) -> None:
    if len(names) > 1:
        raise InvalidArgument(f"{' and '.join(names)} both say {what}; give one of them")


def _columns(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a JSON list of names is expected")
        return tuple(names)
    return tuple(name.strip() for name in text.split(","))


def _id_or_text(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it is 1 at least")
    return number


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"it is {' or '.join(values)}")
        return text.lower()

    return parse


def _verify(text: str) -> Verify:
    return cast("Verify", _one_of(VERIFY_PAGES)(text))


def _boolean(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"
