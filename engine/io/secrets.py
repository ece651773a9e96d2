"""Secrets of object stores: left out of pickles, and found again by the process that unpickles.

A pickled table, catalog, scan or job names the secrets that its store was opened with, and holds none. The process that
unpickles it gets them, in this order,

1. from its own memory, where it is the process that pickled, or a fork of it;
2. from the memory in which a driver of Spark lends them to processes of the same user on the same machine (`loans`);
3. from the resolver that was registered in it (`register`), or that the environment variable ``MORROW_SECRETS`` names
   as ``package.module:function``: a function from the store's URL (``s3://bucket``) to storage options;
4. from the sources of the store itself: ``AWS_...`` and the like in the environment, the role of the machine.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import Lock
from typing import Any, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.io import loans
from morrow.engine.telling import is_secret, redacted

ENVIRONMENT = "MORROW_SECRETS"

Resolver: TypeAlias = Callable[[str], Mapping[str, str]]

_resolver: Resolver | None = None
_lock = Lock()
_held: dict[str, Mapping[str, str]] = {}
"""The secrets that this process left out of pickles, by the names that stand for them in pickles."""
_names: dict[tuple[tuple[str, str], ...], str] = {}


def register(resolver: Resolver | None) -> None:
    """Registers the resolver that finds secrets left out of pickles, for this process; None removes it.

    It is called with the URL of a store, such as ``s3://bucket``, and returns storage options as `morrow.open` takes
    them. Processes that are started later, such as executors of Spark, register one themselves, or import the one that
    the environment variable ``MORROW_SECRETS`` names.

    Raises:
        InvalidArgument: not a function.
    """
    global _resolver
    if resolver is not None and not callable(resolver):
        raise InvalidArgument(f"a resolver is a function from the URL of a store to its options, not {resolver!r}")
    _resolver = resolver


class StorageOptions(dict[str, str]):
    """Options of a store at `url`, whose secrets do not print and are left out of pickles.

    `withheld` are the names of those that were left out and not found again. `prefix` is put before the stores' own
    names of all options.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, url: str = "", *, prefix: str = "", lent: bool = False
    ) -> None:
        super().__init__(options or {})
        self.url, self.prefix, self._is_lent = url, prefix, lent
        self.withheld: tuple[str, ...] = ()

    def lent(self) -> StorageOptions:
        """Returns the options; this user's processes on this machine find their secrets while this process lives."""
        return StorageOptions(self, self.url, prefix=self.prefix, lent=True)

    @property
    def secrets(self) -> dict[str, str]:
        """The options whose values are secret."""
        return {name: value for name, value in self.items() if is_secret(name) or redacted(value) != value}

    def __repr__(self) -> str:
        return repr({name: "***" if name in self.secrets else value for name, value in self.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        secrets = self.secrets
        public = {name: value for name, value in self.items() if name not in secrets}
        missing = (*secrets, *self.withheld)
        name = _keep(secrets) if secrets else ""
        place = loans.lend(name, secrets) if secrets and self._is_lent else ""
        return _found_again, (public, redacted(self.url), self.prefix, missing, name, place)


def lend(options: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the options of a store for tasks of Spark: see `StorageOptions.lent`."""
    return options.lent() if isinstance(options, StorageOptions) else StorageOptions(options, lent=True)


def _found_again(
    public: Mapping[str, str], url: str, prefix: str, missing: tuple[str, ...], name: str, place: str
) -> StorageOptions:
    """Returns the options of a pickle, with those of the missing secrets that this process can find."""
    options = StorageOptions(public, url, prefix=prefix, lent=bool(place))
    if missing:
        found = _held.get(name) or loans.borrowed(name, place) or _resolved(url, prefix)
        options.update(found)
        options.withheld = () if found else missing
    return options


def _keep(secrets: Mapping[str, str]) -> str:
    with _lock:
        name = _names.setdefault(tuple(sorted(secrets.items())), uuid.uuid4().hex)
        _held[name] = dict(secrets)
    return name


# Resolvers


def _resolved(url: str, prefix: str) -> dict[str, str]:
    """Returns the resolver's options for a store. Raises `InvalidArgument` for an invalid resolver."""
    resolver = _resolver or _of_environment()
    if resolver is None:
        return {}
    found = resolver(url)
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise InvalidArgument(f"the resolver of secrets gives storage options as a mapping of text, not for {url}")
    return {f"{prefix}{name}": value for name, value in found.items()}


def _of_environment() -> Resolver | None:
    named = os.environ.get(ENVIRONMENT, "").strip()
    if not named:
        return None
    module, colon, function = named.partition(":")
    try:
        resolver = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"{ENVIRONMENT} = {named!r} names no function here: {error}") from error
    if not callable(resolver):
        raise InvalidArgument(f"{ENVIRONMENT} = {named!r} names no function; write package.module:function")
    return resolver  # type: ignore[no-any-return]  # checked to be callable
