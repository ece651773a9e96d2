"""Atomic creation of an object where none exists: one conditional put (``If-None-Match: *``).

Three things make the answer to the request uncertain:

* A put that was carried out and whose answer was lost is reported as "exists" when it is sent again. Every call
  therefore leaves a unique token in the object's metadata: the call whose token is there created the object.
  (The bytes alone do not tell: two processes may create equal files.)
* A timeout says nothing. The object is looked up and the request sent once more, which the token makes harmless.
* Some S3-compatible servers accept the condition and ignore it. Each of those is asked once to create the same object
  twice, and refused when it does.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome, Unsupported
from morrow.engine.telling import harmless, one_line

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

TOKEN = "writer"
"""Name of the metadata field: a single word, which every store and proxy passes on."""

ATTEMPTS = 2
HEEDS_CONDITIONS = ".amazonaws.com"
"""Suffix of the host names of AWS, which are not probed."""

_proven: set[str] = set()
"""Servers that have refused the second creation of an object to this process."""


class ConditionalPut:
    """Creates objects of one bucket; `base_url` names it in messages."""

    def __init__(self, bucket: Bucket, base_url: str) -> None:
        self._bucket = bucket
        self._base_url = base_url

    def create(self, key: str, data: bytes) -> bool:
        """Returns True if this call created the object, False if another one did.

        Raises:
            Unsupported: the store cannot create atomically.
            UnclearOutcome: whether the object was created is unknown.
            StorageError: refused; nothing was created.
        """
        self._prove(key)
        return self._created(key, data)

    def _created(self, key: str, data: bytes) -> bool:
        from obstore import exceptions

        token = uuid.uuid4().hex
        unclear: Exception
        for _ in range(ATTEMPTS):
            try:
                self._bucket.put(key, data, mode="create", use_multipart=False, attributes={TOKEN: token})
            except (NotImplementedError, exceptions.NotSupportedError) as error:
                raise self._without_conditions(first_line(error)) from error
            except (
                FileNotFoundError,
                exceptions.PermissionDeniedError,
                exceptions.UnauthenticatedError,
                exceptions.InvalidPathError,
            ) as error:
                raise self._failed(key, error) from error
            except (exceptions.BaseError, OSError) as error:
                unclear = error
            except ValueError as error:  # a control character
                raise no_such_name(f"{self._base_url}/{key}", error) from None
            else:
                return True
            try:
                found = self._token(key)
            except (exceptions.BaseError, OSError) as error:
                unclear = error
                continue
            if found is not None:
                return found == token
        raise UnclearOutcome(
            f"{self._base_url}/{key}: {first_line(unclear)}; whether the object was created is not known, look for it"
        ) from unclear

    def _token(self, key: str) -> str | None:
        """Returns the token of the call that created the object: empty when absent, None when there is no object."""
        try:
            return self._bucket.get(key).attributes.get(TOKEN, "")
        except FileNotFoundError:
            return None

    def _prove(self, key: str) -> None:
        """Checks that the server heeds the condition, once per server; the probe object lies beside `key`."""
        server = _unknown_server(self._bucket)
        if server is None or server in _proven:
            return
        folder, _, name = key.rpartition("/")
        probe = f"{folder}/.{name}.{uuid.uuid4().hex}.probe".lstrip("/")
        try:
            heeds = self._created(probe, b"") and not self._created(probe, b"")
        finally:
            self._forget(probe)
        if not heeds:
            raise self._without_conditions("the server replaces an object that it was asked to create")
        _proven.add(server)

    def _forget(self, key: str) -> None:
        from obstore.exceptions import BaseError

        with suppress(BaseError, OSError):
            self._bucket.delete(key)

    def _failed(self, key: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self._base_url}/{key}: {first_line(error)}; check the address, the credentials and their permissions"
        )

    def _without_conditions(self, why: str) -> Unsupported:
        return Unsupported(
            "committing without conditional put",
            where=f"{self._base_url} ({why})",
            hint="commits of others would be lost; allow conditional puts ('aws_conditional_put': 'etag'), use a "
            "newer server that heeds If-None-Match, or keep the table elsewhere",
        )


def first_line(error: BaseException) -> str:
    """Returns the message without the structures that obstore prints below it; the error loses its secrets."""
    return (str(harmless(error)).strip().splitlines() or [type(error).__name__])[0]


def no_such_name(url: str, error: ValueError) -> InvalidArgument:
    """Returns the error for a name that no object can have, which obstore refuses."""
    return InvalidArgument(f"{one_line(url)}: no object has such a name: {one_line(str(error)).partition(': ')[2]}")


def _unknown_server(bucket: Any) -> str | None:
    """Returns the endpoint of an S3-compatible server; None for stores that are known to heed conditions."""
    from obstore.store import S3Store

    if not isinstance(bucket, S3Store):
        return None
    endpoint = str(bucket.config.get("endpoint") or "")
    host = endpoint.partition("://")[2].partition("/")[0].partition(":")[0]
    return None if not endpoint or host.endswith(HEEDS_CONDITIONS) else endpoint
