"""Secrets of object stores: left out of pickles, and found again by the process that unpickles.

A pickled table, catalog, scan or job has the names of its store's secrets, but not the secrets. The process that
unpickles it gets them from the first of these sources that has them:

1. its own memory, if it is the process that pickled, or a fork of that process;
2. a file that the Spark driver shares with processes of the same user on the same machine;
3. the resolver that was registered in the process (`register`), or that the environment variable ``MORROW_SECRETS``
   names as ``package.module:function``: a function from the store's URL (``s3://bucket``) to storage options;
4. the store's own sources: environment variables such as ``AWS_...``, or the role of the machine.

On Linux the shared file is anonymous (``memfd``). Other processes open it as ``/proc/<process>/fd/<number>``, and
the system frees it when the process ends, even if it is killed. On other systems, it is a file in a separate folder
that only this user may enter. The same applies if the file must outlive its process, as for Spark's Python workers,
which plan for other processes. The process removes the file when it ends. Files of a killed process are removed by the
next process that shares secrets or opens a Spark session.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import uuid
from atexit import register as at_exit
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.redaction import is_secret, redact_text

ENVIRONMENT = "MORROW_SECRETS"

Resolver: TypeAlias = Callable[[str], Mapping[str, str]]

_resolver: Resolver | None = None
_lock = Lock()
_held: dict[str, Mapping[str, str]] = {}
"""The secrets that this process left out of pickles, by the names that pickles have for them."""
_names: dict[tuple[tuple[str, str], ...], str] = {}


def register(resolver: Resolver | None) -> None:
    """Register this process's resolver, which finds secrets left out of pickles; None removes it.

    The resolver is called with the URL of a store, such as ``s3://bucket``, and returns storage options for
    `morrow.open`. Processes that start later, such as Spark executors, must register a resolver themselves, or import
    the one that the environment variable ``MORROW_SECRETS`` names.

    Raises `InvalidArgument`: not a function.
    """
    global _resolver
    if resolver is not None and not callable(resolver):
        raise InvalidArgument(f"a resolver is a function from the URL of a store to its options, not {resolver!r}")
    _resolver = resolver


class StorageOptions(dict[str, str]):
    """Options of the store at `url`, whose secrets are not printed and are left out of pickles.

    `withheld` has the names of secrets that were left out and not found again. All option names begin with `prefix`,
    followed by the store's own names.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, url: str = "", *, prefix: str = "", lent: bool = False
    ) -> None:
        super().__init__(options or {})
        self.url, self.prefix, self._is_lent = url, prefix, lent
        self.withheld: tuple[str, ...] = ()

    def lent(self) -> StorageOptions:
        """Share the secrets with this user's processes on this machine, until this process ends; return the options."""
        return StorageOptions(self, self.url, prefix=self.prefix, lent=True)

    @property
    def secrets(self) -> dict[str, str]:
        """The options whose values are secret."""
        return {name: value for name, value in self.items() if is_secret(name) or redact_text(value) != value}

    def __repr__(self) -> str:
        return repr({name: "***" if name in self.secrets else value for name, value in self.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        secrets = self.secrets
        public = {name: value for name, value in self.items() if name not in secrets}
        missing = (*secrets, *self.withheld)
        name = _keep_secrets(secrets) if secrets else ""
        place = share_secrets(name, secrets) if secrets and self._is_lent else ""
        return _restore_options, (public, redact_text(self.url), self.prefix, missing, name, place)


def share_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a store for Spark tasks: see `StorageOptions.lent`."""
    return options.lent() if isinstance(options, StorageOptions) else StorageOptions(options, lent=True)


def _restore_options(
    public: Mapping[str, str], url: str, prefix: str, missing: tuple[str, ...], name: str, place: str
) -> StorageOptions:
    """Return the options of a pickle, with the secrets that this process can find."""
    options = StorageOptions(public, url, prefix=prefix, lent=bool(place))
    if missing:
        found = _held.get(name) or read_shared_secrets(name, place) or _resolve_secrets(url, prefix)
        options.update(found)
        options.withheld = () if found else missing
    return options


def _keep_secrets(secrets: Mapping[str, str]) -> str:
    with _lock:
        name = _names.setdefault(tuple(sorted(secrets.items())), uuid.uuid4().hex)
        _held[name] = dict(secrets)
    return name


# Resolvers


def _resolve_secrets(url: str, prefix: str) -> dict[str, str]:
    """Return the resolver's options for a store. Raises `InvalidArgument` for an invalid resolver."""
    resolver = _resolver or _import_resolver()
    if resolver is None:
        return {}
    found = resolver(url)
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise InvalidArgument(f"the resolver of secrets gives storage options as a mapping of text, not for {url}")
    return {f"{prefix}{name}": value for name, value in found.items()}


def _import_resolver() -> Resolver | None:
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


IN_MEMORY = "/dev/shm"  # a private folder is created in it
OWNER_ONLY = 0o600
SHARED_PREFIX = "morrow-secrets-"
OF_WORKERS = "PYTHON_WORKER_FACTORY_PORT"
"""An environment variable that Spark sets for its Python workers."""
IS_LINUX = sys.platform == "linux"
NEVER_CHANGED = 0x1 | 0x2 | 0x4 | 0x8
"""Linux file seals: no further seals, no shrinking, no growing, no writing."""
ADD_SEALS = 1033

_share_lock = Lock()
_shared: dict[str, str] = {}
"""Path of each shared file by name."""


def share_secrets(name: str, secrets: Mapping[str, str]) -> str:
    """Share secrets with this user's other processes and return the path; equal names have equal paths."""
    with _share_lock:
        if name not in _shared:
            data, owner = json.dumps(dict(secrets)).encode(), _find_owner()
            remove_stale_shares()
            in_memory = IS_LINUX and owner == os.getpid()
            _shared[name] = _share_in_memory(name, data) if in_memory else _share_in_folder(name, data, owner)
        return _shared[name]


def read_shared_secrets(name: str, place: str) -> Mapping[str, str]:
    """Return the secrets shared at `place` under `name`.

    Empty on another machine, for another user, or if the sharing process has ended.
    """
    if not place:
        return {}
    try:
        if place.startswith("/proc/") and not str(Path(place).readlink()).startswith(f"/memfd:{SHARED_PREFIX}{name}"):
            return {}  # the process id now belongs to another process
        with Path(place).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return {}
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def remove_stale_shares(folder: str | None = None) -> None:
    """Remove files shared by ended processes of this user. Errors are ignored: files that cannot be removed stay."""
    for left in Path(folder or _choose_folder()).glob(f"{SHARED_PREFIX}[0-9]*-*"):
        owner, _, rest = left.name.removeprefix(SHARED_PREFIX).partition("-")
        with suppress(OSError):
            mine = owner.isdigit() and left.lstat().st_uid == os.geteuid()
            if mine and rest.partition("-")[0] != _find_start_time(int(owner)):
                shutil.rmtree(left, ignore_errors=True)


def _share_in_memory(name: str, data: bytes) -> str:
    import fcntl

    file = os.memfd_create(f"{SHARED_PREFIX}{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.fchmod(file, OWNER_ONLY)
    os.write(file, data)
    fcntl.fcntl(file, ADD_SEALS, NEVER_CHANGED)
    return f"/proc/{os.getpid()}/fd/{file}"


def _share_in_folder(name: str, data: bytes, owner: int) -> str:
    if owner == os.getpid() and not _shared:
        at_exit(_remove_shares, owner)
    path = Path(
        tempfile.mkdtemp(prefix=f"{SHARED_PREFIX}{owner}-{_find_start_time(owner)}-", dir=_choose_folder()), name
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return str(path)


def _choose_folder() -> str:
    return IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tempfile.gettempdir()


def _find_owner() -> int:
    """Return the process that owns shared files: Spark workers end before their plan, so it is their parent."""
    return os.getppid() if OF_WORKERS in os.environ else os.getpid()


def _remove_shares(process: int) -> None:
    if os.getpid() == process:
        for path in _shared.values():
            shutil.rmtree(Path(path).parent, ignore_errors=True)


def _find_start_time(process: int) -> str:
    """Return the system's start time of a process, as process ids are reused; "gone" if the process has ended."""
    if IS_LINUX:
        with suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
        return "gone"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass
    return "running"
