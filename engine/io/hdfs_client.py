"""Clients of Hadoop's file system, one for each address and process, and what they say of errors."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.engine.extras import needing
from morrow.engine.io.hadoop_options import ATTEMPTS, DEFAULT, USER, HadoopOptions
from morrow.engine.telling import harmless, redacted

if TYPE_CHECKING:
    from hdfs_native import Client

DEFAULT_PORT = 8020
FEW_ATTEMPTS = "4"
"""Attempts at a namenode that is no pair: some ten seconds. hdfs-native's own number takes three minutes."""
NO_HOSTS = "No NameNode hosts found"
REMOTE = re.compile(r'RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*?)(?:\\n|"\))', re.DOTALL)
"""An error of the namenode as hdfs-native prints it: its class, and the first line of its text."""

_clients: dict[tuple[object, ...], Client] = {}
_making = threading.Lock()


def connected(base_url: str, options: HadoopOptions) -> Client:
    """Returns the client that this process has for ``hdfs://host[:port]``; a forked process makes its own.

    Raises:
        Unsupported: hdfs-native is not installed. InvalidArgument: the address means nothing.
    """
    config = tuple(sorted(options.config.items()))
    key = (os.getpid(), base_url, os.environ.get(USER), config, options.conf_dir, options.principal, options.keytab)
    with _making:
        if key not in _clients:
            _clients[key] = _made(base_url, options)
        return _clients[key]


def at(path: str) -> str:
    """Returns the path with one slash before each segment, as the namenode wants it."""
    return "/" + "/".join(part for part in path.split("/") if part)


def said(error: BaseException) -> str:
    """Returns what an error says in one line, without the Java stack that the namenode sends."""
    text = str(harmless(error))
    remote = REMOTE.search(text)
    if remote is not None:
        return f"{remote[1]}: {remote[2]}"
    return (text.strip().splitlines() or [type(error).__name__])[0]


def _made(base_url: str, options: HadoopOptions) -> Client:
    with needing("HDFS", "hdfs_native", "hdfs"):
        from hdfs_native import Client
    scheme, _, host = base_url.partition("://")
    if "@" in host:
        raise InvalidArgument(f"{redacted(base_url)}: the user is not a part of the address; set {USER}")
    config = dict(options.config)
    if ":" in host:
        config.setdefault(ATTEMPTS, FEW_ATTEMPTS)
    more = {"kerberos_principal": options.principal, "kerberos_keytab": options.keytab}
    for address in (host, f"{host}:{DEFAULT_PORT}") if host and ":" not in host else (host,):
        try:
            return Client(f"{scheme}://{address}" if host else None, config, options.conf_dir, **more)
        except (RuntimeError, ValueError, OSError) as error:
            why = said(error)
            if NO_HOSTS not in why:
                break
    hint = f"give hdfs://host:port/path, or {DEFAULT} and the name services in HADOOP_CONF_DIR or as options"
    raise InvalidArgument(f"cannot open {redacted(base_url)}: {why}; {hint}")
