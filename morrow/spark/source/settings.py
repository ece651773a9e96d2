"""Settings of the session: ``spark.paimon.<option>``, ``spark.paimon.<catalog>.<database>.<table>.<option>``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.paths import DATABASE_SUFFIX
from morrow.engine.options.declared import spark as connector
from morrow.engine.options.declaring import TUNING
from morrow.engine.options.registry import OPTIONS, options_of
from morrow.engine.telling import is_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.paimon."
ANY, SPARKS_CATALOG = "*", "spark_catalog"
HARMLESS = frozenset(
    option.key
    for option in (
        connector.REQUIRED_SPARK_CONFS_CHECK_ENABLED,
        connector.WRITE_USE_V2_WRITE,
        connector.SOURCE_SPLIT_TARGET_SIZE_WITH_COLUMN_PRUNING,
        *(option for option in OPTIONS.values() if option.idle == TUNING),
    )
)
"""Options of Paimon's connector, and of Java's threads and memory, that say how it works, and not what it does."""


def options_for(settings: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Returns the options that the settings, without their prefix, have for a table. Raises as `settings_for`."""
    return {option: settings[key] for option, key in settings_for(settings, catalog, database, table).items()}


def names_in(path: str) -> tuple[str, str, str]:
    """Returns the names by which settings are for the table of a path: Spark's own catalog, its last two folders."""
    folder, _, table = object_name(path).table.rstrip("/").rpartition("/")
    return SPARKS_CATALOG, folder.rpartition("/")[2].removesuffix(DATABASE_SUFFIX), table


def refuse_settings(spark: SparkSession, what: str, catalog: str, database: str, table: str) -> None:
    """Refuses settings for a table in a session whose JVM does not ask for them; errors speak of `what`.

    Raises `Unsupported`; others as `settings_for`.
    """
    rows = spark.sql("SET").collect()
    given = {row[0].removeprefix(PREFIX): row[1] for row in rows if row[0].startswith(PREFIX)}
    if found := settings_for(given, catalog, database, table):
        key = next(iter(found.values()))
        raise Unsupported(f"{what} under the setting {PREFIX}{key}, without a catalog in the JVM,", hint="unset it")


def settings_for(settings: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Returns by option the setting, without its prefix, that says its value for a table.

    Those for the table count before those for all; with fewer ``*`` before those with more.

    Raises:
        InvalidArgument: a setting that names no option. Unsupported: one that holds a secret.
    """
    found: list[tuple[int, str, str]] = []
    for key in settings:
        if options_of(key):
            found.append((-1, key, key))
            continue
        given = [own for own in _own(key, (catalog, database, table)) if options_of(own[1])]
        found += [(rank, option, key) for rank, option in given]
        if not given and is_secret(key):
            raise Unsupported(
                f"the setting {PREFIX}{key}, which Spark shows to all who see its events,",
                hint="RESET it, and give the catalog storage_options, or format('morrow') the option storage.<name>",
            )
        if not given and not any(options_of(rest) for rest in _rests(key)):
            raise InvalidArgument(f"the setting {PREFIX}{key}: there is no option {key!r} of tables")
    return {option: key for _, option, key in sorted(found) if option not in HARMLESS}


def _own(key: str, names: tuple[str, ...], rank: int = 0) -> Iterator[tuple[int, str]]:
    """Yields what follows the names of a table, or ``*`` in their place, and how many names are given."""
    if not names:
        yield rank, key
        return
    for name in (ANY, names[0]):
        if key.startswith(f"{name}."):
            yield from _own(key.removeprefix(f"{name}."), names[1:], rank + (name != ANY))


def _rests(key: str) -> Iterator[str]:
    """Yields what follows three names and more: the settings for other tables."""
    parts = key.split(".")
    return (".".join(parts[at:]) for at in range(3, len(parts)))
