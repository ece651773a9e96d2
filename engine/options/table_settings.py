"""Settings of a session for tables: ``scan.snapshot-id`` for all, ``catalog.database.table.scan.snapshot-id`` for one.

A ``*`` stands for any name. Spark's settings have the prefix ``spark.paimon.``, Flink's ``paimon.``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.table_options import find_options
from morrow.engine.redaction import is_secret

ANY = "*"
PREFIXES = ("spark.paimon.", "paimon.")
"""Prefixes of settings for tables in Spark and Flink."""


def match_settings(settings: Mapping[str, str], *names: tuple[str, ...], prefix: str = "") -> dict[str, str]:
    """Return for each option the setting that sets it for a table with one of these names.

    Settings for the table have precedence over settings for all tables; fewer ``*`` over more.

    Args:
        settings: values by their keys, without a prefix.
        names: the parts of the table's name, in each form that settings use. prefix: the prefix of the keys, for
        messages.

    Raises `InvalidArgument`: a setting of an unknown option. `Unsupported`: a setting of a secret.
    """
    found: list[tuple[int, str, str]] = []
    for key in settings:
        if find_options(key):
            found.append((-1, key, key))
            continue
        given = [own for parts in names for own in _list_own(key, parts) if find_options(own[1])]
        found += [(rank, option, key) for rank, option in given]
        if not given and is_secret(key):
            raise Unsupported(
                f"the setting {prefix}{key}, which Spark shows to all who see its events,",
                hint="RESET it, and give the catalog storage_options, or format('morrow') the option storage.<name>",
            )
        if not given and split_setting(key, min(map(len, names))) is None:
            raise InvalidArgument(f"the setting {prefix}{key}: there is no option {key!r} of tables")
    return {option: key for _, option, key in sorted(found)}


def split_setting(key: str, shortest: int = 0) -> tuple[tuple[str, ...], str] | None:
    """Split a key after at least `shortest` names into the names and the option; None without a known option."""
    parts = key.split(".")
    splits = ((tuple(parts[:at]), ".".join(parts[at:])) for at in range(shortest, len(parts)))
    return next((split for split in splits if find_options(split[1])), None)


def strip_prefix(key: str) -> str:
    """Return the key of a setting without the prefix of Spark or Flink."""
    prefix = next(filter(key.startswith, PREFIXES), "")
    return key.removeprefix(prefix)


def _list_own(key: str, names: Iterable[str], rank: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the part of a key after a table's names (or ``*`` instead of a name), and how many names are given."""
    names = tuple(names)
    if not names:
        yield rank, key
        return
    for name in (ANY, names[0]):
        if key.startswith(f"{name}."):
            yield from _list_own(key.removeprefix(f"{name}."), names[1:], rank + (name != ANY))
