"""The options of a catalog, as Paimon spells them: ``metastore``, ``uri``, ``warehouse``, ``table-default.bucket``.

Each kind of catalog declares what it knows; options of the store go to the store. What nobody knows is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from morrow.engine.arguments import text
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.spellings import is_store_option, store_options
from morrow.engine.options.declaring import AnyOption, honoured, idle
from morrow.engine.options.given import Options
from morrow.engine.options.kinds import BOOL, DURATION, INT, MEMORY, TEXT
from morrow.engine.telling import did_you_mean, is_secret, redacted, remember

TABLE_DEFAULT = "table-default."
"""The prefix of options that new tables get where their creator does not set them."""
FILESYSTEM = "filesystem"
CACHES = "Morrow's caches are its own"

METASTORE = honoured("metastore", TEXT, FILESYSTEM, "Kind of catalog")
WAREHOUSE = honoured("warehouse", TEXT, "", "Folder or URL of the tables, or their name at a server")
URI = honoured("uri", TEXT, "", "Address of the catalog")
LOCK_ENABLED = honoured("lock.enabled", BOOL, None, "Locks commits; by default in object stores")
LOCK_TYPE = honoured("lock.type", TEXT, "", "Kind of lock; by default the catalog's own")
LOCK_CHECK_MAX_SLEEP = honoured(
    "lock-check-max-sleep", DURATION, timedelta(seconds=8), "Longest pause before the lock is asked for again"
)
LOCK_ACQUIRE_TIMEOUT = honoured(
    "lock-acquire-timeout", DURATION, timedelta(minutes=8), "Longest wait for the lock; older locks are broken"
)
SYNC_ALL_PROPERTIES = honoured("sync-all-properties", BOOL, True, "Copies the options of tables to the metastore")
COMMON: tuple[AnyOption, ...] = (
    *(METASTORE, WAREHOUSE, URI, LOCK_ENABLED, LOCK_TYPE, LOCK_CHECK_MAX_SLEEP, LOCK_ACQUIRE_TIMEOUT),
    SYNC_ALL_PROPERTIES,
    idle(CACHES, "cache-enabled", BOOL, True, "Caches tables"),
    idle(CACHES, "cache.expire-after-access", DURATION, None, "Age", former=("cache.expiration-interval",)),
    idle(CACHES, "cache.expire-after-write", DURATION, None, "Age of what is cached"),
    idle(CACHES, "cache.partition.max-num", INT, 0, "Number of partitions"),
    idle(CACHES, "cache.snapshot.max-num-per-table", INT, 20, "Number of snapshots"),
    idle(CACHES, "cache.deletion-vectors.max-num", INT, 100_000, "Number of deletion vectors"),
    idle(CACHES, "cache.manifest.small-file-memory", MEMORY, None, "Bytes of manifests"),
    idle(CACHES, "cache.manifest.small-file-threshold", MEMORY, None, "Bytes of a manifest"),
    idle(CACHES, "cache.manifest.max-memory", MEMORY, None, "Bytes of manifests"),
    idle(CACHES, "cache.manifest.soft-values", BOOL, True, "References to manifests"),
    idle(CACHES, "file-io.allow-cache", BOOL, True, "Shares clients of stores"),
    idle("connections are made as they are needed", "client-pool-size", INT, 2, "Number of connections"),
    idle("names are case-sensitive", "case-sensitive", BOOL, None, "Case of names", former=("allow-upper-case",)),
    idle("sys.catalog_options is always there", "catalog-options-table.enabled", BOOL, False, "Shows options"),
    idle("folders outside of the table are named in allowed_roots", "resolving-file-io.enabled", BOOL, False, "Stores"),
)


@dataclass(frozen=True)
class Settings:
    """The options of one catalog. They print, and are pickled, without secrets (see `morrow.engine.io.secrets`)."""

    raw: StorageOptions
    allowed_roots: tuple[str, ...] = ()
    verify: str | None = None
    extra: StorageOptions = field(default_factory=StorageOptions)
    """Storage options by the names of obstore."""

    @classmethod
    def of(
        cls,
        options: Mapping[str, object],
        *,
        storage_options: Mapping[str, str] | None = None,
        allowed_roots: tuple[str, ...] = (),
        verify: str | None = None,
    ) -> Settings:
        """Returns the settings of what users give; numbers and booleans become text. Raises `InvalidArgument`."""
        raw = {text(key, "the name of an option"): _text(key, value) for key, value in options.items()}
        uri = raw.get(URI.key, "")
        remember(raw, url=uri)
        remember(storage_options)
        return cls(StorageOptions(raw, uri), allowed_roots, verify, StorageOptions(storage_options, uri))

    @property
    def given(self) -> Options:
        """The options, to be read by declaration."""
        return Options(self.raw, f"the catalog {self.raw.get(URI.key) or self.raw.get(WAREHOUSE.key, '')!r}")

    def checked(self, declared: Iterable[AnyOption] = (), prefixes: tuple[str, ...] = ()) -> Settings:
        """Returns these settings. Raises `InvalidArgument` for an unknown option, or a value of no meaning."""
        known = {key: option for option in (*COMMON, *declared) for key in option.keys}
        for key in self.raw:
            if key in known:
                self.given.get(known[key])
            elif not key.startswith((TABLE_DEFAULT, *prefixes)) and not is_store_option(key):
                hint = did_you_mean(key, known)
                kind = self.given.get(METASTORE)
                raise InvalidArgument(f"the catalog has the unknown option {key!r}; {hint}its metastore is {kind!r}")
        return self

    def required(self, option: AnyOption) -> str:
        """Returns the text of an option. Raises `InvalidArgument` where it is not set."""
        found = (self.given.text(option) or "").strip()
        if not found:
            raise InvalidArgument(f"a catalog with metastore={self.given.get(METASTORE)!r} needs the option {option}")
        return found

    def updated(self, options: Mapping[str, str]) -> Settings:
        """Returns the settings with other values of some options, such as those that a server sends."""
        remember(options)
        return Settings(
            StorageOptions({**self.raw, **options}, self.raw.url), self.allowed_roots, self.verify, self.extra
        )

    def storage_options(self, location: str) -> dict[str, str] | None:
        """Returns the options of the store of `location`; None where none are given. Raises as `store_options`."""
        return {**store_options(self.raw, location), **self.extra} or None

    @property
    def public(self) -> dict[str, str]:
        """The options that are no secrets."""
        return {key: value for key, value in self.raw.items() if not is_secret(key) and redacted(value) == value}


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that new tables get: ``table-default.bucket`` of the catalog is their ``bucket``."""
    return {key.removeprefix(TABLE_DEFAULT): value for key, value in options.items() if key.startswith(TABLE_DEFAULT)}


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise InvalidArgument(f"the option {key!r} of a catalog is text, not {type(value).__name__}")
    return text(value, f"the option {key!r}")
