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

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plan.time_travel import TravelArguments
from morrow.spark.source.by_catalog import BY_CATALOG
from morrow.spark.source.instants import Clock, with_zone
from morrow.spark.source.limits import Limit
from morrow.spark.source.option_names import (
    ALIASES,
    CASTING,
    CHANGES,
    CONSUMER_ID,
    ELSEWHERE,
    EVOLVING,
    FULL,
    KINDS,
    LEAST_ROWS,
    LIMITS,
    MERGE_SCHEMA,
    MODE,
    MODES,
    MOST_DELAY,
    OF_CHANGES,
    OF_PAIMONS_WRITES,
    OF_SPARK,
    OF_STATES,
    OF_STREAMS,
    OVERWRITE_MODE,
    PATH,
    PUSH_FILTERS,
    RAW,
    REPLACE_WHERE,
    SNAPSHOTS,
    SOURCES_OF_CHANGES,
    STORAGE_PREFIX,
    TIMESTAMPS,
    WIDENING,
)
from morrow.spark.source.option_values import (
    LeastRows,
    Place,
    ReadOptions,
    SinkOptions,
    StreamOptions,
    boolean,
    id_or_text,
    names_of_columns,
    one_of,
    positive,
    verify,
)
from morrow.spark.writing.evolving import Evolution

T = TypeVar("T")

TRAVEL: Mapping[str, Callable[[str], int | str]] = {
    "as-of": id_or_text,
    "snapshot": int,
    "tag": str,
    "timestamp": id_or_text,
    "watermark": int,
    "version": str,
}
"""Options that choose the state of a read, and how their text is parsed."""
OF_READS = ("columns", "filter", PUSH_FILTERS, *TRAVEL)
OF_ALL = ("branch", "verify", *OF_SPARK)
"""Options of reads and writes alike, besides those of stores."""


class Options:
    """Options as Spark passes them. Each getter raises `InvalidArgument` for an invalid value.

    `clock` reads Spark's own ``timestampAsOf``.
    """

    def __init__(self, given: Mapping[str, str], clock: Clock = with_zone) -> None:
        self._clock = clock
        self._given: dict[str, str] = {}
        self._called: dict[str, str] = {}
        for key, value in given.items():
            name = ALIASES.get(key.lower(), key.lower())
            if name in self._given:
                raise InvalidArgument(f"the option {name!r} is given twice, under different names")
            self._given[name] = value
            self._called[name] = key

    def place(self) -> Place:
        if "paths" in self._given:
            raise InvalidArgument("several paths: a DataFrame is of one table; join them by .union(...)")
        path = self._given.get(PATH)
        if not path:
            raise InvalidArgument(
                'there is no table: give its path, .load("warehouse/db.db/orders"), or CREATE TABLE ... USING morrow '
                "LOCATION '...'"
            )
        names = [name for name in self._given if name.startswith(STORAGE_PREFIX)]
        storage = {name.removeprefix(STORAGE_PREFIX): self._given[name] for name in names}
        return Place(path, self._given.get("branch"), storage, self._get("verify", verify), self._given.get(BY_CATALOG))

    @property
    def pushes_filters(self) -> bool:
        """Whether Spark passes its filters; see `datasource.PushingReader`."""
        return self._get(PUSH_FILTERS, boolean) or False

    @property
    def is_stream(self) -> bool:
        """Whether an option is given that only streams have."""
        return any(name in OF_STREAMS for name in self._given)

    def read(self, *, changes: bool = False) -> ReadOptions:
        """Parses the options of a batch read, with `changes` those too that ask for what has changed between states.

        Refuses those of a stream and unknown ones.
        """
        self._only(*OF_READS, *(OF_CHANGES if changes else ()))
        parsers = {**TRAVEL, TIMESTAMPS[1]: self._clock} if self._is_of_spark(TIMESTAMPS[1]) else TRAVEL
        found = {name.replace("-", "_"): self._get(name, parse) for name, parse in parsers.items()}
        chosen = {name: value for name, value in found.items() if value is not None}
        between = {name: self._given[name] for name in OF_CHANGES if name in self._given}
        if between and (chosen or not any(name in SOURCES_OF_CHANGES for name in between)):
            whose = f"and {next(iter(chosen))!r} both say what is read" if chosen else "says which changes; say of what"
            raise InvalidArgument(f"the option {next(iter(between))!r} {whose}")
        return ReadOptions(
            self._get("columns", names_of_columns), self._given.get("filter"), cast("TravelArguments", chosen), between
        )

    def stream(self) -> StreamOptions:
        """Parses the options of a stream read. Refuses those of a state, after which a stream would go on."""
        self._refuse_states()
        self._only("columns", "filter", *SNAPSHOTS, *TIMESTAMPS, *OF_STREAMS)
        begin = [name for name in (*SNAPSHOTS, *TIMESTAMPS) if name in self._given]
        _at_most_one("where a stream begins", begin)
        sizes = [name for name in LIMITS.values() if name in self._given]
        _at_most_one("what a batch takes", sizes)
        limits = (Limit(what, size) for what, name in LIMITS.items() if (size := self._get(name, positive)))
        return StreamOptions(
            columns=self._get("columns", names_of_columns),
            filter=self._given.get("filter"),
            starting_snapshot=next((self._get(name, positive) for name in begin if name in SNAPSHOTS), None),
            starting_timestamp=next((self._get(name, id_or_text) for name in begin if name in TIMESTAMPS), None),
            start=self._start(begin),
            begins=bool(begin) or MODE in self._given,
            kinds=self._get(KINDS, boolean) or False,
            consumer_id=self._given.get(CONSUMER_ID),
            most_snapshots=self._get("max-snapshots-per-trigger", positive),
            limit=next(limits, None),
            least_rows=self._least_rows(),
            raw=self._get(RAW, boolean) or False,
        )

    def _is_of_spark(self, name: str) -> bool:
        """Returns whether an option is given by Spark's own name of a state."""
        return self._called.get(name, "").lower() in OF_STATES

    def _refuse_states(self) -> None:
        for name, called in self._called.items():
            if self._is_of_spark(name) or (name in TRAVEL and name not in (*SNAPSHOTS, *TIMESTAMPS)):
                raise Unsupported(
                    f"the option {called!r} of a stream, which goes on after every state,",
                    hint=f"say where it begins, by {SNAPSHOTS[0]!r} or {TIMESTAMPS[0]!r}",
                )

    def _start(self, begin: list[str]) -> str:
        mode = self._get(MODE, one_of("default", *MODES)) or "default"
        if mode == "default":
            return CHANGES if begin else FULL
        start, needed = MODES[mode]
        if needed and not any(name in needed for name in begin):
            raise InvalidArgument(f"{MODE!r} = {mode!r} needs the option {needed[0]!r}")
        if begin and begin[0] not in needed:
            raise InvalidArgument(f"{MODE!r} = {mode!r} and {begin[0]!r} both say where a stream begins")
        return start

    def _least_rows(self) -> LeastRows | None:
        rows, delay = self._get(LEAST_ROWS, positive), self._get(MOST_DELAY, positive)
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
        mode = self._get(OVERWRITE_MODE, one_of("static", "dynamic"))
        if mode is not None and not overwrite:
            raise InvalidArgument("the option 'partitionOverwriteMode' belongs to .mode('overwrite'); leave it out")
        if "commit-identifier" in self._given and "commit-user" not in self._given:
            raise InvalidArgument("'commit-identifier' numbers the commits of a 'commit-user'; give one")
        self._refuse_paimons()
        for name in self._given:
            _refuse_elsewhere(name)
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
        merges, widens, casts = (self._get(name, boolean) or False for name in (MERGE_SCHEMA, WIDENING, CASTING))
        if merges:
            return Evolution(widens, casts)
        if widens or casts:
            raise InvalidArgument(f"{WIDENING if widens else CASTING!r} belongs to {MERGE_SCHEMA!r} = 'true'")
        return None

    def _refuse_paimons(self) -> None:
        for name in self._given:
            if name.startswith(OF_PAIMONS_WRITES) and self._get(name, boolean):
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
        allowed = {*known, BY_CATALOG, *OF_ALL}
        for name in self._given:
            if name not in allowed and not name.startswith(STORAGE_PREFIX):
                _refuse_elsewhere(name)
                raise InvalidArgument(
                    f"there is no option {name!r} here; known are {', '.join(sorted({*known}))}, branch, verify"
                )


def options_of_reads(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that a batch read takes; the others are a table's."""
    known = {*OF_READS, *OF_ALL}
    names = {key: ALIASES.get(key.lower(), key.lower()) for key in given}
    return {key: given[key] for key, name in names.items() if name in known or name.startswith(STORAGE_PREFIX)}


def options_of_streams(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with those that say where a stream begins by names that no batch has."""
    own = {SNAPSHOTS[1]: SNAPSHOTS[0], TIMESTAMPS[1]: TIMESTAMPS[0]}
    names = {key: ALIASES.get(key.lower(), key.lower()) for key in given if key.lower() not in OF_STATES}
    return {own.get(names.get(key, key), key): value for key, value in given.items()}


def check_stream_sink(given: Mapping[str, str]) -> None:
    """Raises `InvalidArgument` for options that only a batch has."""
    if Options(given).sink().commit_identifier is not None:
        raise InvalidArgument("the commits of a stream are numbered by its batches; leave 'commit-identifier' out")


def _refuse_elsewhere(name: str) -> None:
    if name in ELSEWHERE:
        raise InvalidArgument(f"there is no option {name!r} here: {ELSEWHERE[name]}")


def _at_most_one(what: str, names: list[str]) -> None:
    if len(names) > 1:
        raise InvalidArgument(f"{' and '.join(names)} both say {what}; give one of them")
