"""Secrets lent to processes of the same user on the same machine: in memory, at a path that pickles may name.

On Linux a loan is an anonymous file (``memfd``), which others open as ``/proc/<process>/fd/<number>``: the system
frees it when the process ends, however that ends. Elsewhere, and where a loan must outlive its process (Spark's Python
workers, which plan for other processes), it is a file in a separate folder that only this user may enter. The process
removes it when it ends; files left by a killed process are removed when the next one lends, or opens a session of
Spark (`sweep`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from atexit import register as at_exit
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

IN_MEMORY = "/dev/shm"  # a private folder is made in it
OWNER_ONLY = 0o600
LOANS = "morrow-secrets-"
OF_WORKERS = "PYTHON_WORKER_FACTORY_PORT"
"""An environment variable that Spark sets for its Python workers."""
IS_LINUX = sys.platform == "linux"
NEVER_CHANGED = 0x1 | 0x2 | 0x4 | 0x8
"""Seals of Linux: no further seals, no shrinking, no growing, no writing."""
ADD_SEALS = 1033

_lock = Lock()
_lent: dict[str, str] = {}
"""Path of each loan by its name."""


def lend(name: str, secrets: Mapping[str, str]) -> str:
    """Returns the path from which other processes of this user borrow the secrets; the same path for the same name."""
    with _lock:
        if name not in _lent:
            data, owner = json.dumps(dict(secrets)).encode(), _owner()
            sweep()
            in_memory = IS_LINUX and owner == os.getpid()
            _lent[name] = _without_folder(name, data) if in_memory else _in_folder(name, data, owner)
        return _lent[name]


def borrowed(name: str, place: str) -> Mapping[str, str]:
    """Returns the secrets lent at `place` under `name`.

    Empty on another machine, for another user, or when the lender is gone.
    """
    if not place:
        return {}
    try:
        if place.startswith("/proc/") and not str(Path(place).readlink()).startswith(f"/memfd:{LOANS}{name}"):
            return {}  # another process has the number, and another file open
        with Path(place).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return {}
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def sweep(folder: str | None = None) -> None:
    """Removes the loans of this user's processes that have ended. Ignores errors: loans that cannot be removed stay."""
    for left in Path(folder or _place()).glob(f"{LOANS}[0-9]*-*"):
        owner, _, rest = left.name.removeprefix(LOANS).partition("-")
        with suppress(OSError):
            mine = owner.isdigit() and left.lstat().st_uid == os.geteuid()
            if mine and rest.partition("-")[0] != _born(int(owner)):
                shutil.rmtree(left, ignore_errors=True)


def _without_folder(name: str, data: bytes) -> str:
    import fcntl

    file = os.memfd_create(f"{LOANS}{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.fchmod(file, OWNER_ONLY)
    os.write(file, data)
    fcntl.fcntl(file, ADD_SEALS, NEVER_CHANGED)
    return f"/proc/{os.getpid()}/fd/{file}"


def _in_folder(name: str, data: bytes, owner: int) -> str:
    if owner == os.getpid() and not _lent:
        at_exit(_take_back, owner)
    path = Path(tempfile.mkdtemp(prefix=f"{LOANS}{owner}-{_born(owner)}-", dir=_place()), name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return str(path)


def _place() -> str:
    return IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tempfile.gettempdir()


def _owner() -> int:
    """Returns the process whose end ends a loan: of Spark's workers, which end before their plan does, the parent."""
    return os.getppid() if OF_WORKERS in os.environ else os.getpid()


def _take_back(process: int) -> None:
    if os.getpid() == process:
        for path in _lent.values():
            shutil.rmtree(Path(path).parent, ignore_errors=True)


def _born(process: int) -> str:
    """Returns when a process began, as the system counts, since process ids are reused; "gone" when it has ended."""
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
