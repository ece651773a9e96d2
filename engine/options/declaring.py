"""Declarations of options: key, kind, default, Morrow's support, one line for the documentation.

    BUCKET = honoured("bucket", INT, -1, "Number of buckets", rows=True)
    PAGE_SIZE = idle(TUNING, "page-size", MEMORY, 64 << 10, "Size of a page of memory")
    BRANCH = refused("Branch", "branch", TEXT, "main", "open the branch instead", unless=["main"])

`rows` marks options that decide which rows a batch read returns: a key of a stored table that is a slip away from such
an option is refused, not taken for an unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from morrow.engine.options.kinds import Kind

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FIELDS = "fields."
"""The prefix of the keys of column options."""

TUNING = "it tunes memory, threads or caches of Java"
FLINK = "it is for jobs of Flink"
SPARK = "it is for Paimon's own connector"
ENGINES = "it is for query engines"
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
    """The occasions on which a value is refused besides being set."""

    READING = "reads"
    STREAMING = "streams"
    WRITING = "writes"


class Refusal(msgspec.Struct, frozen=True):
    """Values that are refused: all except those in `unless` (in lower case)."""

    reason: str
    unless: frozenset[str]
    stages: frozenset[Stage]


class Declared(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """An option. `idle` says why it has no effect here, `refusal` which values are refused.

    `former` are former keys, in order of precedence where the key itself is not set. An `immutable` option keeps its
    value once the table has snapshots.
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
        """Returns the key in quotes, as messages show it."""
        return repr(self.key)


AnyOption: TypeAlias = Declared[Any]


def honoured(
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
    """Declares an option with Paimon's effect, except for the values of `refusal`."""
    return Declared(key, kind, default, doc, former, immutable, rows, refusal=refusal)


def idle(
    reason: str, key: str, kind: Kind[T], default: T, doc: str, *, former: tuple[str, ...] = (), immutable: bool = False
) -> Declared[T]:
    """Declares an option that is accepted and has no effect here."""
    return Declared(key, kind, default, doc, former, immutable, idle=reason)


def beside(other: str) -> str:
    """Returns the reason for an option that counts only together with another one, which is refused."""
    return f"it counts only beside '{other}', which is refused"


def unless(reason: str, harmless: Iterable[str] = (), *stages: Stage) -> Refusal:
    """Returns the refusal of all but harmless values, when they are set and at these stages."""
    return Refusal(reason, frozenset(harmless), frozenset(stages))


def refused(
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
    """Declares an option of which Morrow supports harmless values only."""
    return Declared(key, kind, default, doc, former, immutable, rows, refusal=refusal)


class ColumnOption(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """An option that each column may have: ``fields.<column>.<suffix>``. The attributes are those of `Declared`."""

    suffix: str
    kind: Kind[T_co]
    default: T_co
    doc: str
    rows: bool = True
    idle: str | None = None
    refusal: Refusal | None = None

    def of(self, column: str) -> Declared[T_co]:
        """Returns the option of one column, or of several between commas."""
        return Declared(
            f"{FIELDS}{column}.{self.suffix}",
            self.kind,
            self.default,
            self.doc,
            rows=self.rows,
            idle=self.idle,
            refusal=self.refusal,
        )
