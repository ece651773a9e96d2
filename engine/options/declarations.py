"""Declarations of options, and the kinds of their values: the texts that Paimon accepts, and what they mean.

An option is declared once: ``BUCKET = declare_honoured("bucket", INT, -1, "Number of buckets", rows=True)``.
`declare_idle` is for an option without effect in Morrow, and gives the reason: ``declare_idle(TUNING, "page-size",
MEMORY, 64 << 10, "Size of a page of memory")``; a theme lists those that no code reads in `declare_all_idle`.
`declare_refused` is for an option with only harmless values supported.
`rows` marks options that decide which rows a batch read returns. If a key of a stored table looks like a misspelling of
such an option, the table is refused, rather than the key considered unknown.

`Options` holds the texts of a table. ``read_values(Sizes, options)`` gives the values for a frozen struct whose
attributes name their declarations: ``target: int | None = bind_option(TARGET_FILE_SIZE)``.

Units and their spellings are Paimon's; words are case-insensitive. A value that is being set must be valid exactly as
given; blanks around a stored value are stripped first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, StrEnum
from functools import lru_cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.units import NANOS_PER_MICRO

T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound=StrEnum)

MAX_LONG = 2**63 - 1
# Patterns as text: `re` compiles each when it is first used.
MEMORY_TEXT = r"([0-9]+)\s*([a-z]*)"
MEMORY_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
DURATION_TEXT = r"([0-9]+)\s*([a-zµ]*)"
DURATION_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 1_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 1_000_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 1_000_000_000),
}
"""Unit -> nanoseconds. A number without a unit is in milliseconds."""
REAL_TEXT = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
QUOTES = ("'", '"')
"""Paimon allows parts of pairs to be quoted; no option that has pairs needs it."""
FIRST_ROW = "first-row"
"""The merge engine that does not support changelogs by full compaction."""
MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation", FIRST_ROW)
BLOB_ENGINES = ("deduplicate", "partial-update", FIRST_ROW)
"""Merge engines of tables with a primary key that may have BLOB columns."""
MERGE_ENGINE_PLUGINS = "morrow.merge_engines"
"""The entry points by which other packages add merge engines."""
AGGREGATE_FUNCTION_PLUGINS = "morrow.aggregate_functions"
"""The entry points by which other packages add aggregate functions."""


class BadValue(Exception):
    """A text that is not a value of a kind; its message describes valid values. It never leaves this package."""


class UnknownWord(BadValue):
    """A word that an option does not know; the message lists the known words."""


class Kind(msgspec.Struct, Generic[T_co], frozen=True):
    """The values that an option accepts: `name` and `expected` describe them, `parse` raises `BadValue` for others.

    `strict`: blanks around a value are refused when it is set, as in Paimon. `is_open`: other software may know more
    values than Morrow does.
    """

    name: str
    expected: str
    parse: Callable[[str], T_co]
    strict: bool = True
    is_open: bool = False

    def accepts(self, text: str) -> bool:
        """Return whether this value may be set."""
        try:
            self.parse(text)
        except BadValue:
            return self.is_open
        return not self.strict or text == text.strip()


def _make_kind(name: str, expected: str, parse: Callable[[str], T_co | None], strict: bool = True) -> Kind[T_co]:
    def parsed(text: str) -> T_co:
        found = parse(text)
        if found is None:
            raise BadValue(f"it must be {expected}")
        return found

    return Kind(name, expected, parsed, strict)


def parse_whole(text: str) -> int | None:
    """Parse decimal digits with an optional sign; return None for any other text."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas, without surrounding blanks; empty names are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def _make_integer_parser(bits: int) -> Callable[[str], int | None]:
    most = 1 << (bits - 1)

    def parse(text: str) -> int | None:
        found = parse_whole(text.strip())
        return found if found is not None and -most <= found < most else None

    return parse


def _parse_bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _parse_real(text: str) -> float | None:
    text = text.strip()
    return float(text.rstrip("fFdD")) if re.fullmatch(REAL_TEXT, text) else None


def _parse_memory(text: str) -> int | None:
    match = re.fullmatch(MEMORY_TEXT, text.strip().lower())
    size = int(match[1]) * MEMORY_UNITS[match[2]] if match and match[2] in MEMORY_UNITS else None
    return None if size is None or size > MAX_LONG else size


def _parse_duration(text: str) -> timedelta | None:
    match = re.fullmatch(DURATION_TEXT, text.strip().lower())
    if match is None or match[2] not in DURATION_UNITS or int(match[1]) > MAX_LONG:
        return None
    try:
        return timedelta(microseconds=int(match[1]) * DURATION_UNITS[match[2]] // NANOS_PER_MICRO)
    except OverflowError:
        return timedelta.max


def _parse_pairs(text: str) -> Mapping[str, str] | None:
    """Parse pairs separated by commas; return None also for a duplicate key."""
    pairs: dict[str, str] = {}
    for part in parse_names(text):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and value) or name in pairs or any(mark in part for mark in QUOTES):
            return None
        pairs[name] = value
    return pairs


def _parse_levels(text: str) -> Mapping[int, str]:
    levels: dict[int, str] = {}
    for level, value in PAIRS.parse(text).items():
        if not (level.isascii() and level.isdigit()):
            raise BadValue(f"it names the level {level!r}; write 0:avro,1:parquet")
        levels[int(level)] = value.lower()
    return levels


BOOL: Kind[bool] = _make_kind("bool", "true or false", _parse_bool)
INT: Kind[int] = _make_kind("int", "a whole number of 32 bits", _make_integer_parser(32))
LONG: Kind[int] = _make_kind("long", "a whole number of 64 bits", _make_integer_parser(64))
REAL: Kind[float] = _make_kind("number", "a number", _parse_real, strict=False)
TEXT: Kind[str] = Kind("text", "text", lambda text: text, strict=False)
PREFIX: Kind[str] = _make_kind(
    "prefix", "a text without / and \\", lambda text: None if {"/", "\\", "\0"} & set(text) else text, strict=False
)
"""The beginning of a file name."""
WORD: Kind[str] = Kind("word", "a word", lambda text: text.strip().lower(), strict=False)
"""A word of an open set: formats and codecs."""
NAMES: Kind[tuple[str, ...]] = Kind("names", "names between commas", parse_names, strict=False)
MEMORY: Kind[int] = _make_kind("size", "a size such as 128 mb (units b, kb, mb, gb, tb)", _parse_memory, strict=False)
DURATION: Kind[timedelta] = _make_kind(
    "time span", "a time span such as 10 s (units ns, µs, ms, s, min, h, d)", _parse_duration, strict=False
)
PAIRS: Kind[Mapping[str, str]] = _make_kind("pairs", "pairs such as 0:avro,1:parquet", _parse_pairs, strict=False)
LEVELS: Kind[Mapping[int, str]] = Kind("words by level", PAIRS.expected, _parse_levels, strict=False)
NO_LEVELS: Mapping[int, str] = MappingProxyType({})


def make_choice(*choices: str) -> Kind[str]:
    """Return the kind of an option with these words as values."""

    def parse(text: str) -> str:
        return _match_word(text, choices)

    return Kind(" \\| ".join(choices), f"one of {', '.join(choices)}", parse)


def make_choices(*choices: str) -> Kind[str]:
    """Return the kind of an option whose value has some of these words, between commas. Its value is the text."""

    def parse(text: str) -> str:
        for word in parse_names(text):
            _match_word(word, choices)
        return text

    return Kind("words", f"some of {', '.join(choices)}, between commas", parse, strict=False)


def make_enum_choice(choices: type[W], *, is_open: bool = False) -> Kind[W]:
    """Return the kind of an option with the words of an enumeration as values."""

    def parse(text: str) -> W:
        return choices(_match_word(text, tuple(choices)))

    return Kind(" \\| ".join(choices), f"one of {', '.join(choices)}", parse, is_open=is_open)


def _match_word(text: str, choices: Sequence[str]) -> str:
    word = text.strip().lower()
    if word not in choices:
        raise UnknownWord(", ".join(choices))
    return word


def _parse_merge_engine(text: str) -> str:
    """Parse a built-in engine, or one that an installed package registers."""
    word = text.strip().lower()
    registered = () if word in MERGE_ENGINES else tuple(entry_points(group=MERGE_ENGINE_PLUGINS).names)
    return _match_word(word, (*MERGE_ENGINES, *registered))


MERGE_ENGINE_NAME: Kind[str] = Kind(
    " \\| ".join(MERGE_ENGINES), f"one of {', '.join(MERGE_ENGINES)}", _parse_merge_engine, is_open=True
)


class ChangelogProducer(StrEnum):
    """The source of changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class LookupCompact(StrEnum):
    """The urgency of compacting level 0 for lookups: at each write, or within an interval of writes."""

    RADICAL = "radical"
    GENTLE = "gentle"


class ExpireStrategy(StrEnum):
    """The age of a partition: according to the time in its values, or to its newest file."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class TagCreation(StrEnum):
    """The occasions for automatic tag creation."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class Period(StrEnum):
    """The named periods."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """The format of a period's time in the name of its tag."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


T = TypeVar("T")

FIELDS = "fields."
"""The prefix of the keys of column options."""

TUNING = "it tunes memory, threads or caches of Java"
FLINK = "it is for jobs of Flink"
SPARK = "it is for Paimon's own connector"
ENGINES = "it is for query engines"
PYPAIMON = "it is for pypaimon's own readers and writers"
METASTORE = "it is for a metastore"
AUDIT = "catalogs write it for users to see"
INTERNAL = "Paimon sets it for itself"
NO_CHAIN_STREAMS = "Morrow streams the branches of a chain table alone"
ONE_BUILDER = "Morrow builds an index in one process"
READS_ALL_ROWS = "Morrow always reads rows that no index covers"
ALWAYS_RAISES = "Morrow raises it always"

NOT_WRITTEN = "Morrow does not write such tables"
OTHER_TABLE = "Morrow reads and writes Paimon's own tables only"
OTHER_ROWS = "it changes which rows a read returns"
CHANGES = "it changes which rows a read returns; call Table.changes instead"
JAVA_CLASSES = "Morrow cannot call Java classes"
ONE_INFERENCE = "Morrow infers the columns of shredded variants once in a write"


class Stage(Enum):
    """The occasions, besides setting an option, on which a value is refused."""

    READING = "reads"
    STREAMING = "streams"
    WRITING = "writes"


class Refusal(msgspec.Struct, frozen=True):
    """Values that are refused: all except those in `unless` (in lower case)."""

    reason: str
    unless: frozenset[str]
    stages: frozenset[Stage]


class Declared(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """An option. `idle` is the reason why it is ignored here, `refusal` the values that are refused.

    `former` are former keys, in order of precedence if the key itself is not set. An `immutable` option keeps its value
    once the table has snapshots.
    """

    key: str
    kind: Kind[T_co]
    default: T_co
    doc: str
    former: tuple[str, ...] = ()
    immutable: bool = False
    rows: bool = False
    idle: str | None = None
    refusal: Refusal | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The key and its former keys."""
        return (self.key, *self.former)

    def __str__(self) -> str:
        """Return the key in quotes, as messages show it."""
        return repr(self.key)


AnyOption: TypeAlias = Declared[Any]


def declare_honoured(
    key: str,
    kind: Kind[T],
    default: T,
    doc: str,
    *,
    former: tuple[str, ...] = (),
    immutable: bool = False,
    rows: bool = False,
    refusal: Refusal | None = None,
) -> Declared[T]:
    """Declare an option with Paimon's effect, except for the values of `refusal`."""
    return Declared(key, kind, default, doc, former, immutable, rows, refusal=refusal)


def declare_idle(
    reason: str, key: str, kind: Kind[T], default: T, doc: str, *, former: tuple[str, ...] = (), immutable: bool = False
) -> Declared[T]:
    """Declare an option that is accepted but ignored here."""
    return Declared(key, kind, default, doc, former, immutable, idle=reason)


def declare_all_idle(
    groups: Mapping[str, Sequence[tuple[str, Kind[Any], Any, str]]],
) -> tuple[AnyOption, ...]:
    """Declare options that are ignored here and read nowhere: key, kind, default and effect, by the reason."""
    return tuple(declare_idle(reason, *option) for reason, options in groups.items() for option in options)


def explain_dependency(other: str) -> str:
    """Return the reason for an option that has an effect only together with another, refused option."""
    return f"it counts only beside '{other}', which is refused"


def refuse_unless(reason: str, harmless: Iterable[str] = (), *stages: Stage) -> Refusal:
    """Return the refusal of all but harmless values, when they are set and at these stages."""
    return Refusal(reason, frozenset(harmless), frozenset(stages))


def declare_refused(
    refusal: Refusal,
    key: str,
    kind: Kind[T],
    default: T,
    doc: str,
    *,
    former: tuple[str, ...] = (),
    immutable: bool = False,
    rows: bool = False,
) -> Declared[T]:
    """Declare an option for which Morrow supports only harmless values."""
    return Declared(key, kind, default, doc, former, immutable, rows, refusal=refusal)


class ColumnOption(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """An option that each column may have: ``fields.<column>.<suffix>``. The attributes are as in `Declared`."""

    suffix: str
    kind: Kind[T_co]
    default: T_co
    doc: str
    rows: bool = True
    idle: str | None = None
    refusal: Refusal | None = None

    def of(self, column: str) -> Declared[T_co]:
        """Return the option of one column, or of several columns separated by commas."""
        return Declared(
            f"{FIELDS}{column}.{self.suffix}",
            self.kind,
            self.default,
            self.doc,
            rows=self.rows,
            idle=self.idle,
            refusal=self.refusal,
        )


class Options(msgspec.Struct, frozen=True):
    """Option texts by key; `where` names the table in errors.

    >>> Options({"bucket": "4"}).get(BUCKET)
    4
    """

    raw: Mapping[str, str] = msgspec.field(default_factory=dict)
    where: str = "options"

    def __eq__(self, other: object) -> bool:
        """Return whether the texts are the same, regardless of their origin."""
        return isinstance(other, Options) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(frozenset(self.raw.items()))

    def get(self, option: Declared[T]) -> T:
        """Return the value of an option, or its default if neither its key nor a former one is set.

        Raises:
            InvalidArgument: the text is not a value of the option's kind.
            Unsupported: an unknown word.
        """
        for key in option.keys:
            if key in self.raw:
                return self._parse(option, key)
        return option.default

    def has(self, option: Declared[Any]) -> bool:
        """Return whether the option is set, by its key or a former one."""
        return any(key in self.raw for key in option.keys)

    def text(self, option: Declared[Any]) -> str | None:
        """Return the text of an option as it was given, None if it is not set."""
        return next((self.raw[key] for key in option.keys if key in self.raw), None)

    def refused(self, option: Declared[Any], problem: str) -> InvalidArgument:
        """Return the error for the value of an option that is set."""
        key = next(key for key in option.keys if key in self.raw)
        return make_value_error(self.raw, key, self.where, problem)

    def _parse(self, option: Declared[T], key: str) -> T:
        try:
            return option.kind.parse(self.raw[key])
        except UnknownWord as error:
            hint = f"known values: {error}"
            raise Unsupported(f"the option {key!r} = {self.raw[key]!r}", where=self.where, hint=hint) from None
        except BadValue as error:
            raise make_value_error(self.raw, key, self.where, str(error)) from None


def make_value_error(raw: Mapping[str, str], key: str, where: str, problem: str) -> InvalidArgument:
    """Return the error for a value that does not parse."""
    return InvalidArgument(f"{where}: the option {key!r} has the value {raw[key]!r}; {problem}")


class _Default(msgspec.Struct, frozen=True):
    """A factory for the default of an option."""

    declared: Declared[Any]

    def __call__(self) -> Any:
        return self.declared.default


def bind_option(declared: Declared[T]) -> T:
    """Return an attribute that holds the value of an option."""
    return cast(T, msgspec.field(default_factory=_Default(declared)))


def read_values(view: type[msgspec.Struct], options: Options) -> dict[str, Any]:
    """Return the values of the attributes that are options, by name.

    Raises: as `Options.get`.
    """
    return {name: options.get(declared) for name, declared in _list_members(view)}


@lru_cache
def _list_members(view: type[msgspec.Struct]) -> tuple[tuple[str, Declared[Any]], ...]:
    defaults = (getattr(default, "factory", None) for default in view.__struct_defaults__)
    named = zip(view.__struct_fields__[-len(view.__struct_defaults__) :], defaults)
    return tuple((name, default.declared) for name, default in named if isinstance(default, _Default))
