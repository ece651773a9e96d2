"""Options of a catalog, as Paimon spells them (``metastore``, ``uri``, ``warehouse``), and its kind.

Each kind of catalog declares its options; store options are passed to the store. Unknown options are refused.

A kind, the value of ``metastore``, is a function that makes a catalog from its `Settings`. Other packages register
their kinds as entry points ``morrow.catalogs``, under the name of the metastore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from morrow.engine.arguments import check_text
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.storage_options import is_store_option, to_store_options
from morrow.engine.options.declarations import (
    BOOL,
    DURATION,
    INT,
    MEMORY,
    TEXT,
    AnyOption,
    Options,
    declare_honoured,
    declare_idle,
    make_choice,
)
from morrow.engine.plugins import CATALOGS, load_plugin
from morrow.engine.redaction import is_secret, redact_text, register_secrets, suggest_name

TABLE_DEFAULT = "table-default."
"""The prefix of default options for new tables."""
FILESYSTEM = "filesystem"
CACHES = "Morrow's caches are its own"

METASTORE = declare_honoured("metastore", TEXT, FILESYSTEM, "Kind of catalog")
WAREHOUSE = declare_honoured("warehouse", TEXT, "", "Folder or URL of the tables, or their name at a server")
URI = declare_honoured("uri", TEXT, "", "Address of the catalog")
CATALOG_TYPE = declare_honoured("type", make_choice("paimon"), "paimon", "Kind of catalog in Flink")
LOCK_ENABLED = declare_honoured("lock.enabled", BOOL, None, "Locks commits; by default in object stores")
LOCK_TYPE = declare_honoured("lock.type", TEXT, "", "Kind of lock; by default the catalog's own")
LOCK_CHECK_MAX_SLEEP = declare_honoured(
    "lock-check-max-sleep", DURATION, timedelta(seconds=8), "Longest pause before the lock is asked for again"
)
LOCK_ACQUIRE_TIMEOUT = declare_honoured(
    "lock-acquire-timeout", DURATION, timedelta(minutes=8), "Longest wait for the lock; older locks are broken"
)
SYNC_ALL_PROPERTIES = declare_honoured(
    "sync-all-properties", BOOL, True, "Copies the options of tables to the metastore"
)
COMMON: tuple[AnyOption, ...] = (
    *(CATALOG_TYPE, METASTORE, WAREHOUSE, URI, LOCK_ENABLED, LOCK_TYPE, LOCK_CHECK_MAX_SLEEP, LOCK_ACQUIRE_TIMEOUT),
    SYNC_ALL_PROPERTIES,
    declare_idle(CACHES, "cache-enabled", BOOL, True, "Caches tables"),
    declare_idle(CACHES, "cache.expire-after-access", DURATION, None, "Age", former=("cache.expiration-interval",)),
    declare_idle(CACHES, "cache.expire-after-write", DURATION, None, "Age of what is cached"),
    declare_idle(CACHES, "cache.partition.max-num", INT, 0, "Number of partitions"),
    declare_idle(CACHES, "cache.snapshot.max-num-per-table", INT, 20, "Number of snapshots"),
    declare_idle(CACHES, "cache.deletion-vectors.max-num", INT, 100_000, "Number of deletion vectors"),
    declare_idle(CACHES, "cache.manifest.small-file-memory", MEMORY, None, "Bytes of manifests"),
    declare_idle(CACHES, "cache.manifest.small-file-threshold", MEMORY, None, "Bytes of a manifest"),
    declare_idle(CACHES, "cache.manifest.max-memory", MEMORY, None, "Bytes of manifests"),
    declare_idle(CACHES, "cache.manifest.soft-values", BOOL, True, "References to manifests"),
    declare_idle(CACHES, "file-io.allow-cache", BOOL, True, "Shares clients of stores"),
    declare_idle("connections are made as they are needed", "client-pool-size", INT, 2, "Number of connections"),
    declare_idle(
        "names are case-sensitive", "case-sensitive", BOOL, None, "Case of names", former=("allow-upper-case",)
    ),
    declare_idle("sys.catalog_options is always there", "catalog-options-table.enabled", BOOL, False, "Shows options"),
    declare_idle(
        "folders outside of the table are named in allowed_roots", "resolving-file-io.enabled", BOOL, False, "Stores"
    ),
)


@dataclass(frozen=True)
class Settings:
    """The options of one catalog. Printed and pickled without secrets (see `morrow.engine.io.secrets`)."""

    raw: StorageOptions
    allowed_roots: tuple[str, ...] = ()
    verify: str | None = None
    extra: StorageOptions = field(default_factory=StorageOptions)
    """Storage options with obstore's names."""

    @classmethod
    def of(
        cls,
        options: Mapping[str, object],
        *,
        storage_options: Mapping[str, str] | None = None,
        allowed_roots: tuple[str, ...] = (),
        verify: str | None = None,
    ) -> Settings:
        """Return settings from user options; numbers and booleans become text. Raises `InvalidArgument`."""
        raw = {check_text(key, "the name of an option"): _check_text(key, value) for key, value in options.items()}
        uri = raw.get(URI.key, "")
        register_secrets(raw, url=uri)
        register_secrets(storage_options)
        return cls(StorageOptions(raw, uri), allowed_roots, verify, StorageOptions(storage_options, uri))

    @property
    def given(self) -> Options:
        """The options, to be read through their declarations."""
        place = self.raw.get(URI.key) or self.raw.get(WAREHOUSE.key)
        return Options(self.raw, f"the catalog {place!r}" if place else "the catalog")

    def checked(self, declared: Iterable[AnyOption] = (), prefixes: tuple[str, ...] = ()) -> Settings:
        """Return these settings. Raises `InvalidArgument` for an unknown option or an invalid value."""
        known = {key: option for option in (*COMMON, *declared) for key in option.keys}
        for key in self.raw:
            if key in known:
                self.given.get(known[key])
            elif not key.startswith((TABLE_DEFAULT, *prefixes)) and not is_store_option(key):
                hint = suggest_name(key, known)
                kind = self.given.get(METASTORE)
                raise InvalidArgument(f"the catalog has the unknown option {key!r}; {hint}its metastore is {kind!r}")
        return self

    def required(self, option: AnyOption) -> str:
        """Return the text of an option. Raises `InvalidArgument` if it is not set."""
        found = (self.given.text(option) or "").strip()
        if not found:
            raise InvalidArgument(f"a catalog with metastore={self.given.get(METASTORE)!r} needs the option {option}")
        return found

    def updated(self, options: Mapping[str, str]) -> Settings:
        """Return the settings with some options replaced, for example by a server's."""
        register_secrets(options)
        return Settings(
            StorageOptions({**self.raw, **options}, self.raw.url), self.allowed_roots, self.verify, self.extra
        )

    def storage_options(self, location: str) -> dict[str, str] | None:
        """Return the store options for `location`; None if none are given. Raises as `to_store_options`."""
        return {**to_store_options(self.raw, location), **self.extra} or None

    @property
    def public(self) -> dict[str, str]:
        """The options without secrets."""
        return {key: value for key, value in self.raw.items() if not is_secret(key) and redact_text(value) == value}


def select_table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Return the default options of new tables: ``table-default.bucket`` of the catalog becomes their ``bucket``."""
    return {key.removeprefix(TABLE_DEFAULT): value for key, value in options.items() if key.startswith(TABLE_DEFAULT)}


def _check_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise InvalidArgument(f"the option {key!r} of a catalog is text, not {type(value).__name__}")
    return check_text(value, f"the option {key!r}")


CatalogMaker: TypeAlias = Callable[[Settings], Catalog]

BUILT_IN = {
    "filesystem": "morrow.engine.catalog.filesystem:open_catalog",
    "hive": "morrow.engine.catalog.hive.catalog:open_catalog",
    "jdbc": "morrow.engine.catalog.jdbc:open_catalog",
    "rest": "morrow.engine.catalog.rest.catalog:open_catalog",
}
"""Kind -> the function that makes the catalog; its module is imported on first use."""
WITHOUT = {
    "dlf": "a catalog of DLF by its own client",
}
"""Kinds that only Paimon has -> their description."""
INSTEAD = "open its tables by their folders, or name them in a catalog with metastore=jdbc or metastore=rest"


def open_catalog(settings: Settings) -> Catalog:
    """Return the catalog that the settings describe.

    Raises:
        Unsupported: an unknown metastore, or its driver is not installed.
        InvalidArgument: an option is missing, unknown, or has an invalid value.
        StorageError: the catalog does not answer.
    """
    kind = settings.given.get(METASTORE).strip().lower()
    home = BUILT_IN.get(kind)
    if home is not None:
        module, _, name = home.partition(":")
        return cast(CatalogMaker, getattr(import_module(module), name))(settings)
    made = load_plugin(CATALOGS, kind)
    if made is None:
        if kind in WITHOUT:
            raise Unsupported(f"metastore={kind!r}, {WITHOUT[kind]},", where="catalogs", hint=INSTEAD)
        known = sorted({*BUILT_IN, *entry_points(group=CATALOGS).names})
        hint = f"{suggest_name(kind, known)}known are {', '.join(known)}"
        raise Unsupported(f"metastore={kind!r}", where="catalogs", hint=hint)
    return cast(CatalogMaker, made)(settings)
