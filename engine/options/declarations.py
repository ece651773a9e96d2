"""Declarations of options (key, kind, default, support, documentation), and the values of given options.

An option is declared once: ``BUCKET = declare_honoured("bucket", INT, -1, "Number of buckets", rows=True)``.
`declare_idle` is for an option without effect in Morrow, and gives the reason: ``declare_idle(TUNING, "page-size",
MEMORY, 64 << 10, "Size of a page of memory")``. `declare_refused` is for an option with only harmless values supported.
`rows` marks options that decide which rows a batch read returns. If a key of a stored table looks like a misspelling of
such an option, the table is refused, rather than the key considered unknown.

`Options` holds the texts of a table. ``read_values(Sizes, options)`` gives the values for a frozen struct whose
attributes name their declarations: ``target: int | None = bind_option(TARGET_FILE_SIZE)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.kinds import BadValue, Kind, UnknownWord

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

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
NO_BLOBS = "Morrow does not write blob files"
NO_INDEXES = "Morrow plans without global indexes"
ALWAYS_RAISES = "Morrow raises it always"

NOT_WRITTEN = "Morrow does not write such tables"
OTHER_TABLE = "Morrow reads and writes Paimon's own tables only"
OTHER_ROWS = "it changes which rows a read returns"
CHANGES = "it changes which rows a read returns; call Table.changes instead"
JAVA_CLASSES = "Morrow cannot call Java classes"
UNSHREDDED = "Morrow writes variants unshredded"


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
                return self._parsed(option, key)
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

    def _parsed(self, option: Declared[T], key: str) -> T:
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
