"""All table options of Paimon 1.4.2: the kind of their values, which never change, and what Morrow makes of them.

An option that would change what a write does is either honoured or refused by name, never ignored. Options that Paimon
does not know are kept as they are, by Paimon and by Morrow; what looks like a slip of the pen is refused when set.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.kinds import KINDS, Kind, words
from morrow.engine.options.known import (
    FORMER_KEYS,
    LOOK_ALIKE,
    NEWER_KEYS,
    NOT_IN_A_WRITE,
    PROPOSED_KEYS,
    REFUSED_BECAUSE,
    TABLE,
    Treatment,
)
from morrow.engine.options.parsing import refused_value
from morrow.engine.options.tagging import TAG_KEYS, parse_tag_options


@dataclass(frozen=True)
class Option:
    """One option: `immutable` once the table has snapshots."""

    key: str
    kind: Kind
    treatment: Treatment
    immutable: bool = False


FREE_PREFIXES = (
    *("fields.", "file-index.", "parquet.", "orc.", "avro.", "csv.", "json.", "text.", "metadata.iceberg."),
    *("commit.callback.", "tag.callback."),
)
"""Families of options whose members are not listed here."""

CLOSE = 0.8
"""How alike two keys are that one slip of the pen makes of each other."""


def _options() -> dict[str, Option]:
    found: dict[str, Option] = {}
    for treatment, table in TABLE.items():
        for word in table.split():
            key, _, kind = word.rpartition(":")
            name = kind.rstrip("!")
            found[key] = Option(key, KINDS[name] if name in KINDS else words(name), treatment, kind.endswith("!"))
    return found


OPTIONS: Mapping[str, Option] = _options()
IMMUTABLE = frozenset(key for key, option in OPTIONS.items() if option.immutable)


def resolved(raw: Mapping[str, str]) -> dict[str, str]:
    """The options with former names replaced; an option that is set counts, then its first former name."""
    options = dict(raw)
    for former, key in FORMER_KEYS.items():
        if former in raw:
            options.setdefault(key, raw[former])
    return options


def check_set(raw: Mapping[str, str], keys: Iterable[str], where: str) -> None:
    """Check options that somebody sets now, in a new table or by a change.

    Raises:
        InvalidArgument: a value of the wrong kind, a key that looks like a slip of the pen, or settings of tags that
            contradict each other.
        Unsupported: an option that Morrow's writers would not honour.
    """
    keys = tuple(keys)
    for key in keys:
        option = OPTIONS.get(FORMER_KEYS.get(key, key))
        if option is not None and not option.kind.accepts(raw[key]):
            raise refused_value(raw, key, where, f"it must be {option.kind.expected}")
        if option is None:
            _refuse_slip(key, where)
    refuse_unhonoured({key: raw[key] for key in keys}, where)
    if any(key.startswith(TAG_KEYS) for key in keys):
        parse_tag_options(raw, where=where)


def refuse_unhonoured(raw: Mapping[str, str], where: str) -> None:
    """Raises `Unsupported` for options that would change what a write does and that Morrow does not honour."""
    for key, value in resolved(raw).items():
        harmless, reason = REFUSED_BECAUSE.get(key, (None, ""))
        if harmless is not None and value.strip() and value.strip().lower() not in harmless:
            raise Unsupported(f"the option {key!r} = {value!r}", where=where, hint=reason)
        if key in NEWER_KEYS and value.strip().lower() not in ("", "false"):
            raise Unsupported(f"the option {key!r} = {value!r} of a newer Paimon", where=where, hint=NOT_IN_A_WRITE)


def _refuse_slip(key: str, where: str) -> None:
    if key.startswith(FREE_PREFIXES) or key in NEWER_KEYS | LOOK_ALIKE | PROPOSED_KEYS:
        return
    # Options are written with dots and dashes; what differs in nothing else is a slip as well.
    plain = {re.sub(r"[._]", "-", known.lower()): known for known in OPTIONS}
    near = difflib.get_close_matches(re.sub(r"[._]", "-", key.lower()), plain, n=1, cutoff=CLOSE)
    if near:
        raise InvalidArgument(f"{where}: there is no option {key!r}; did you mean {plain[near[0]]!r}?")
