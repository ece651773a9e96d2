"""The options of ``format("morrow")``, parsed and checked; unknown options are errors.

Reading    columns, filter, push-filters, branch, one of as-of, snapshot, tag, timestamp, watermark, version
Streams    starting-snapshot, starting-timestamp, scan.mode (`settings.MODES`), read.changelog, consumer-id
Batches    max-snapshots-per-trigger, one of read.stream.maxFilesPerTrigger, read.stream.maxBytesPerTrigger and
of them    read.stream.maxRowsPerTrigger, read.stream.minRowsPerTrigger with read.stream.maxTriggerDelayMs
Writing    kinds, commit-user, commit-identifier, partitionOverwriteMode (``static`` or ``dynamic``)
New tables primary-key, partition and the table's own options
Stores     ``storage.<name>``, as `storage_options` of `morrow.open`; verify, as its `verify`
Only the data source takes ``push-filters`` (`datasource.PushingReader`): in a registered session Spark's own scan
has the filters anyway. Names ignore case, as in Spark. Other tools' names of the same options are accepted too
(`settings.ALIASES`). A parser of text raises ValueError for text that it does not take.
Spark plans a stream in another process. If the catalog decides what is in a table (a REST server), the folder alone
does not suffice to read it, so the options of the stream include the catalog (`ByCatalog`).
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from morrow.engine.catalog import settings as catalog_settings
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.resolve import VERIFY_PAGES
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import DataFile
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.structs import replace
from morrow.session import Verify
from morrow.spark.source.settings import (
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
    OF_TABLE_READS,
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
    Clock,
    check_zone,
)
from morrow.spark.writing.schema_evolution import Evolution

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


@dataclass(frozen=True)
class ReadOptions:
    """The options of a batch read: arguments of `Table.scan`."""

    columns: tuple[str, ...] | None
    filter: str | None
    travel: TravelArguments
    changes: Mapping[str, str] = field(default_factory=dict)
    """Options that request the changes between two states."""
    table: Mapping[str, str] = field(default_factory=dict)
    """Options that the table has for this read only."""


@dataclass(frozen=True)
class LeastRows:
    """The minimum rows of a micro-batch, and the maximum time to wait for them after the previous one."""

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
    """`FULL`: all rows (of the starting snapshot, if one is given), then changes. `CHANGES`: only changes."""
    begins: bool
    """Whether the query sets the start of the stream. Otherwise the table's options do."""
    kinds: bool
    consumer_id: str | None
    most_snapshots: int | None
    limit: Limit | None
    least_rows: LeastRows | None
    raw: bool = False
    """Whether the query requests rows as they were written, even if these are partial rows."""
    table: Mapping[str, str] = field(default_factory=dict)
    """Options that the table has for this stream only."""


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write; `table` are options that the table has or gets when it is created."""

    kinds: str | None
    commit_user: str | None
    commit_identifier: int | None
    dynamic_overwrite: bool | None
    """None if the option is not given."""
    table: Mapping[str, str]
    evolution: Evolution | None = None
    """The schema evolution of the table to fit the rows; None: no evolution."""
    replace_where: str | None = None
    """The condition of an overwrite."""


@dataclass(frozen=True)
class Place:
    """The table's path, branch and store options; `branch` None is main. `by_catalog`: a packed `ByCatalog`."""

    path: str
    branch: str | None
    storage_options: Mapping[str, str] = field(repr=False)
    verify: Verify | None = None
    by_catalog: str | None = field(default=None, repr=False)


def parse_column_names(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("a JSON list of names is expected")
        return tuple(names)
    return tuple(name.strip() for name in text.split(","))


def parse_id(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def parse_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("give a whole number") from None


def parse_positive(text: str) -> int:
    number = parse_number(text)
    if number < 1:
        raise ValueError("it is 1 at least")
    return number


def make_choice_parser(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"it is {' or '.join(values)}")
        return text.lower()

    return parse


def verify(text: str) -> Verify:
    return cast("Verify", make_choice_parser(VERIFY_PAGES)(text))


def parse_boolean(text: str) -> bool:
    return make_choice_parser("true", "false")(text) == "true"


T = TypeVar("T")

TRAVEL: Mapping[str, Callable[[str], int | str]] = {
    "as-of": parse_id,
    "snapshot": parse_number,
    "tag": str,
    "timestamp": parse_id,
    "watermark": parse_number,
    "version": str,
}
"""Options that choose the state of a read, and the parsers of their text."""
OF_READS = ("columns", "filter", PUSH_FILTERS, *TRAVEL, *OF_TABLE_READS)
OF_ALL = ("branch", "verify", *OF_SPARK)
"""Options that both reads and writes accept, besides options of stores."""


class Options:
    """Options as Spark passes them. Each getter raises `InvalidArgument` for an invalid value.

    `clock` reads Spark's own ``timestampAsOf``.
    """

    def __init__(self, given: Mapping[str, str], clock: Clock = check_zone) -> None:
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
        """Whether Spark pushes filters down; see `datasource.PushingReader`."""
        return self._get(PUSH_FILTERS, parse_boolean) or False

    @property
    def is_stream(self) -> bool:
        """Whether the options include one for streams only."""
        return any(name in OF_STREAMS for name in self._given)

    def read(self, *, changes: bool = False) -> ReadOptions:
        """Parse the options of a batch read; with `changes`, also the options that request changes between states.

        Refuses options of streams and unknown options.
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
            self._get("columns", parse_column_names),
            self._given.get("filter"),
            cast("TravelArguments", chosen),
            between,
            self._of_table(),
        )

    def stream(self) -> StreamOptions:
        """Parse the options of a stream read.

        Refuses options that choose a state: the stream would continue past it.
        """
        self._refuse_states()
        bounds = next((name for name in self._given if name in SOURCES_OF_CHANGES), None)
        if bounds is not None:
            hint = "choose where a stream begins by 'scan.snapshot-id'; it has no end"
            raise InvalidArgument(f"{bounds!r} reads changes in batches, not in streams: {hint}")
        self._only("columns", "filter", *SNAPSHOTS, *TIMESTAMPS, *OF_STREAMS, *OF_TABLE_READS)
        begin = [name for name in (*SNAPSHOTS, *TIMESTAMPS) if name in self._given]
        _check_at_most_one("where a stream begins", begin)
        sizes = [name for name in LIMITS.values() if name in self._given]
        _check_at_most_one("what a batch takes", sizes)
        limits = (Limit(what, size) for what, name in LIMITS.items() if (size := self._get(name, parse_positive)))
        return StreamOptions(
            columns=self._get("columns", parse_column_names),
            filter=self._given.get("filter"),
            starting_snapshot=next((self._get(name, parse_positive) for name in begin if name in SNAPSHOTS), None),
            starting_timestamp=next((self._get(name, parse_id) for name in begin if name in TIMESTAMPS), None),
            start=self._start(begin),
            begins=bool(begin) or MODE in self._given,
            kinds=self._get(KINDS, parse_boolean) or False,
            consumer_id=self._given.get(CONSUMER_ID),
            most_snapshots=self._get("max-snapshots-per-trigger", parse_positive),
            limit=next(limits, None),
            least_rows=self._least_rows(),
            raw=self._get(RAW, parse_boolean) or False,
            table=self._of_table(),
        )

    def _of_table(self) -> dict[str, str]:
        return {name: self._given[name] for name in OF_TABLE_READS if name in self._given}

    def _is_of_spark(self, name: str) -> bool:
        """Return whether an option is given under Spark's own name for a state."""
        return self._called.get(name, "").lower() in OF_STATES

    def _refuse_states(self) -> None:
        for name, called in self._called.items():
            if self._is_of_spark(name) or (name in TRAVEL and name not in (*SNAPSHOTS, *TIMESTAMPS)):
                raise Unsupported(
                    f"the option {called!r} of a stream, which goes on after every state,",
                    hint=f"say where it begins, by {SNAPSHOTS[0]!r} or {TIMESTAMPS[0]!r}",
                )

    def _start(self, begin: list[str]) -> str:
        mode = self._get(MODE, make_choice_parser("default", *MODES)) or "default"
        if mode == "default":
            return CHANGES if begin else FULL
        start, needed = MODES[mode]
        if needed and not any(name in needed for name in begin):
            raise InvalidArgument(f"{MODE!r} = {mode!r} needs the option {needed[0]!r}")
        if begin and begin[0] not in needed:
            raise InvalidArgument(f"{MODE!r} = {mode!r} and {begin[0]!r} both say where a stream begins")
        return start

    def _least_rows(self) -> LeastRows | None:
        rows, delay = self._get(LEAST_ROWS, parse_positive), self._get(MOST_DELAY, parse_positive)
        if rows is None and delay is None:
            return None
        if rows is None or delay is None:
            raise InvalidArgument(f"{LEAST_ROWS!r} and {MOST_DELAY!r} are given together or not at all")
        return LeastRows(rows, delay / 1000)

    def sink(self, *, overwrite: bool = True) -> SinkOptions:
        """Parse the options of a write; all options that do not concern the write itself are the table's."""
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
        mode = self._get(OVERWRITE_MODE, make_choice_parser("static", "dynamic"))
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
            commit_identifier=self._get("commit-identifier", parse_number),
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
        merges, widens, casts = (self._get(name, parse_boolean) or False for name in (MERGE_SCHEMA, WIDENING, CASTING))
        if merges:
            return Evolution(widens, casts)
        if MERGE_SCHEMA not in self._given and (widens or casts):
            raise InvalidArgument(f"{WIDENING if widens else CASTING!r} belongs to {MERGE_SCHEMA!r} = 'true'")
        return None

    def _refuse_paimons(self) -> None:
        for name in self._given:
            if name.startswith(OF_PAIMONS_WRITES) and self._get(name, parse_boolean):
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


def select_read_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a batch read; the other options belong to the table."""
    known = {*OF_READS, *OF_ALL}
    names = {key: ALIASES.get(key.lower(), key.lower()) for key in given}
    return {key: given[key] for key, name in names.items() if name in known or name.startswith(STORAGE_PREFIX)}


def select_stream_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options; options for the start of a stream get names that batches do not use."""
    own = {SNAPSHOTS[1]: SNAPSHOTS[0], TIMESTAMPS[1]: TIMESTAMPS[0]}
    names = {key: ALIASES.get(key.lower(), key.lower()) for key in given if key.lower() not in OF_STATES}
    return {own.get(names.get(key, key), key): value for key, value in given.items()}


def check_stream_sink(given: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` for options that only batch writes support."""
    if Options(given).sink().commit_identifier is not None:
        raise InvalidArgument("the commits of a stream are numbered by its batches; leave 'commit-identifier' out")


def _refuse_elsewhere(name: str) -> None:
    if name in ELSEWHERE:
        raise InvalidArgument(f"there is no option {name!r} here: {ELSEWHERE[name]}")


def _check_at_most_one(what: str, names: list[str]) -> None:
    if len(names) > 1:
        raise InvalidArgument(f"{' and '.join(names)} both say {what}; give one of them")


UNBOUNDED = 2**63 - 1

SIZES: Mapping[str, Callable[[DataFile], int]] = {
    "files": lambda _: 1,
    "bytes": lambda file: file.size,
    "rows": lambda file: file.row_count,
}
"""Functions for the size of a file, by kind of limit."""


@dataclass(frozen=True)
class Limit:
    """A maximum number of ``files``, ``bytes`` or ``rows``; no limit is represented by None."""

    what: str
    most: int

    def size(self, file: DataFile) -> int:
        """Return the size of a file as it counts towards the limit."""
        return SIZES[self.what](file)


NO_END = Limit("files", UNBOUNDED)
"""A limit of a kind that Spark does not have, so that it assumes some limit."""


def to_spark(limit: Limit | None) -> ReadLimit:
    """Convert a limit to Spark's classes."""
    from pyspark.sql.streaming import datasource

    if limit is None:
        return datasource.ReadAllAvailable()
    kinds = {"files": datasource.ReadMaxFiles, "bytes": datasource.ReadMaxBytes, "rows": datasource.ReadMaxRows}
    return kinds[limit.what](limit.most)


def from_spark(limit: ReadLimit) -> Limit | None:
    """Convert a limit from Spark. Raises `Unsupported` for other kinds of limits."""
    from pyspark.sql.streaming import datasource

    if isinstance(limit, datasource.ReadAllAvailable):
        return None
    if isinstance(limit, datasource.ReadMaxFiles):
        return Limit("files", limit.max_files)
    if isinstance(limit, datasource.ReadMaxBytes):
        return Limit("bytes", limit.max_bytes)
    if isinstance(limit, datasource.ReadMaxRows):
        return Limit("rows", limit.max_rows)
    raise Unsupported(f"the limit {type(limit).__name__} of a stream")


@dataclass(frozen=True)
class ByCatalog:
    """A catalog's table, which another process opens by the catalog's settings.

    Secrets are loaned (`engine/io/secrets.py`).
    """

    settings: Settings
    name: str

    @classmethod
    def of(cls, catalog: Catalog, name: str) -> ByCatalog:
        """Describe a table.

        Raises `Unsupported` for a catalog that another process cannot open, such as a custom one.
        """
        settings = getattr(catalog, "settings", None)
        if not isinstance(settings, Settings):
            raise Unsupported("a stream of a table whose catalog commits", where=name, hint="read it in batches")
        return cls(replace(settings, raw=settings.raw.lent(), extra=settings.extra.lent()), name)

    def packed(self) -> Mapping[str, str]:
        """Return the options that contain the packed table."""
        return {BY_CATALOG: base64.b64encode(pickle.dumps(self)).decode("ascii")}

    def metadata(self) -> TableMetadata:
        """Open the table. Raises as `open_catalog` and `Catalog.table`."""
        return catalog_settings.open_catalog(self.settings).table(self.name)


BY_CATALOG = "by-catalog"
"""The option by which Morrow's Spark catalog passes a packed table; users do not set it."""


def unpack_table(text: str) -> ByCatalog:
    """Unpack a table that `packed` has packed, in another process of the session."""
    found = pickle.loads(base64.b64decode(text))
    assert isinstance(found, ByCatalog)
    return found
