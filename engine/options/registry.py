"""All options by key, and their checks: values being set, values that are refused, misspelled keys.

An option that would change a read or a write is honoured or refused by name, never ignored. Options unknown to Paimon
are kept unchanged, by Paimon and by Morrow; a key that looks misspelled is refused when it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.metadata_json import find_meant_name
from morrow.engine.options.declarations import (
    AGGREGATE_FUNCTION_PLUGINS,
    FIELDS,
    AnyOption,
    ColumnOption,
    Declared,
    Options,
    Stage,
    make_value_error,
)
from morrow.engine.options.declared import connectors, features, files, maintenance, merging, scans, table
from morrow.engine.options.retention import TAG_KEYS, parse_tag_options

THEMES: tuple[ModuleType, ...] = (table, files, merging, maintenance, scans, features, connectors)
"""The modules that declare options, in the order of the documentation."""


def list_options(theme: ModuleType) -> tuple[AnyOption, ...]:
    """Return the options that a module declares, in its order."""
    return tuple(value for value in vars(theme).values() if isinstance(value, Declared))


OPTIONS: Mapping[str, AnyOption] = {option.key: option for theme in THEMES for option in list_options(theme)}
COLUMN_OPTIONS: Mapping[str, ColumnOption[object]] = {
    option.suffix: option for option in vars(merging).values() if isinstance(option, ColumnOption)
}
IMMUTABLE = frozenset(key for key, option in OPTIONS.items() if option.immutable)

FREE_PREFIXES = (
    *("file-index.", "parquet.", "orc.", "avro.", "metadata.iceberg.", "commit.callback.", "tag.callback."),
    *("blob-descriptor.", "btree-index.", "bitmap-index.", "multivalue-index.", "sorted-index.", "lumina."),
)
"""Families of options that are not individually listed here."""

ANY = "#"
"""A placeholder for any name in the keys of callbacks."""

MIN_SIMILARITY = 0.8
"""The similarity above which one key may be a misspelling of the other."""
SEPARATORS = "[._]"


def _index_by_key() -> dict[str, tuple[AnyOption, ...]]:
    found: dict[str, tuple[AnyOption, ...]] = {}
    for option in OPTIONS.values():
        for key in option.keys:
            found[key] = (*found.get(key, ()), option)
    return found


BY_ANY_KEY: Mapping[str, tuple[AnyOption, ...]] = _index_by_key()
"""Key or former key -> the options it sets; ``lineSep`` sets an option of several formats."""


@lru_cache(maxsize=1 << 12)
def find_options(key: str) -> tuple[AnyOption, ...]:
    """Return the options that a key sets: none for a key that Paimon does not know."""
    found = BY_ANY_KEY.get(key, ())
    if not found and (column := split_column_option(key)) is not None:
        names, suffix = column
        return (COLUMN_OPTIONS[suffix].of(names),) if suffix in COLUMN_OPTIONS else ()
    return found


def find_present_key(key: str) -> str:
    """Return the present key of a former one; other keys are returned unchanged."""
    found = BY_ANY_KEY.get(key, ())
    return found[0].key if len(found) == 1 else key


def resolve_former_keys(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options with present keys added to former ones, unless a key of higher precedence is set."""
    options = dict(raw)
    for key in raw:
        for option in BY_ANY_KEY.get(key, ()):
            if option.key not in options:
                text = Options(raw).text(option)
                assert text is not None  # one of its keys is set
                options[option.key] = text
    return options


def check_new_options(raw: Mapping[str, str], keys: Iterable[str], where: str) -> None:
    """Check options being set now, in a new table or by a change.

    Raises:
        InvalidArgument: a value of the wrong kind, a key that looks misspelled, or settings of tags that
            contradict each other.
        Unsupported: a value that Morrow does not honour.
    """
    keys = tuple(keys)
    for key in keys:
        found = find_options(key)
        for option in found:
            if not _is_common_word(key, option) and not option.kind.accepts(raw[key]):
                raise make_value_error(raw, key, where, f"it must be {option.kind.expected}")
        if not found:
            _refuse_slip(key, raw, where)
    refuse_options({key: raw[key] for key in keys}, where)
    if any(key.startswith(TAG_KEYS) for key in keys):
        parse_tag_options(raw, where=where)


def refuse_options(raw: Mapping[str, str], where: str, stage: Stage | None = None) -> None:
    """Raise `Unsupported` for options whose value Morrow does not honour: at a stage, or (None) when they are set."""
    for key, value in raw.items():
        for option in find_options(key):
            if option.refusal is not None and _is_refused(option, value, stage) and not _is_common_word(key, option):
                what = f"the option {key!r} = {value!r}"
                raise Unsupported(what, where=where, hint=option.refusal.reason)


def _is_common_word(key: str, option: AnyOption) -> bool:
    """Return whether a former key is a common word such as ``mode``, which tables of other formats may use."""
    return key != option.key and key.isalpha()


def _is_refused(option: AnyOption, value: str, stage: Stage | None) -> bool:
    refusal = option.refusal
    if refusal is None or (stage is not None and stage not in refusal.stages):
        return False
    word = value.strip().lower()
    says_nothing = not word and stage is not Stage.READING and option.kind.accepts(word)
    return word not in refusal.unless and not says_nothing


def split_column_option(key: str) -> tuple[str, str] | None:
    """Return the columns and the suffix of a column option, None for another key.

    Column names may contain dots. The suffix is the longest known suffix of the key. Without a known suffix (an option
    of another package, or a misspelling), it is the text after the first dot.
    """
    if not key.startswith(FIELDS):
        return None
    rest = key.removeprefix(FIELDS)
    known = max((suffix for suffix in COLUMN_OPTIONS if rest.endswith(f".{suffix}")), key=len, default=None)
    names, dot, suffix = rest.partition(".") if known is None else (rest[: -len(known) - 1], ".", known)
    return (names, suffix) if dot and names else None


def _refuse_slip(key: str, raw: Mapping[str, str], where: str) -> None:
    meant = _find_nearest(key)
    if meant is not None:
        raise InvalidArgument(f"{where}: there is no option {key!r}; did you mean {meant!r}?")
    column = split_column_option(key)
    if column is not None and not _is_of_other_package(key, raw):
        known = ", ".join(COLUMN_OPTIONS)
        raise InvalidArgument(f"{where}: there is no option {key!r}; the options of a column are {known}")


def _is_of_other_package(key: str, raw: Mapping[str, str]) -> bool:
    """Return whether the aggregate function of a column is from another package, which may have options of its own."""
    parts = key.removeprefix(FIELDS).split(".")
    heads = (".".join(parts[:length]) for length in range(1, len(parts)))
    functions = (Options(raw).get(merging.AGGREGATE_FUNCTION.of(head)) for head in heads)
    return any(name and entry_points(group=AGGREGATE_FUNCTION_PLUGINS, name=name) for name in functions)


def _find_nearest(key: str) -> str | None:
    if (column := split_column_option(key)) is not None:
        near = next(iter(_find_close(column[1], COLUMN_OPTIONS)), None)
        return None if near is None else f"{FIELDS}{column[0]}.{near}"
    if key.startswith(FREE_PREFIXES):
        family = key.partition(".")[0]
        return find_meant_name(key, [known for known in OPTIONS if known.startswith(f"{family}.") and ANY not in known])
    return next(_find_close(key, OPTIONS), None)


def _find_close(name: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the known names that are similar, ignoring dots, dashes and case."""
    plain = {re.sub(SEPARATORS, "-", other.lower()): other for other in known}
    import difflib

    for near in difflib.get_close_matches(re.sub(SEPARATORS, "-", name.lower()), plain, n=1, cutoff=MIN_SIMILARITY):
        yield plain[near]
