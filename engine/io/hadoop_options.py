"""The options of Hadoop's file system, as Paimon and Hadoop spell them, in those of hdfs-native.

``hadoop.`` before a name of Hadoop is left out, as Paimon does: ``hadoop.dfs.replication`` is ``dfs.replication``. What
is not given comes from ``core-site.xml`` and ``hdfs-site.xml`` of `CONF_DIR`, or of the environment variables
``HADOOP_CONF_DIR`` and ``HADOOP_HOME``. Options that only tune Java's client have no effect; any other that is not
understood is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.telling import did_you_mean

SCHEMES = ("hdfs", "viewfs")
CONF_DIR = "hadoop-conf-dir"
PREFIX = "hadoop."
USER = "HADOOP_USER_NAME"
"""The environment variable that names the user, as Java and hdfs-native read it."""
DEFAULT = "fs.defaultFS"
REPLICATION, BLOCK_SIZE = "dfs.replication", "dfs.blocksize"
PRINCIPAL, KEYTAB = "security.kerberos.login.principal", "security.kerberos.login.keytab"
ATTEMPTS = "dfs.client.failover.max.attempts"
KNOWN = (
    *(CONF_DIR, DEFAULT, REPLICATION, BLOCK_SIZE, PRINCIPAL, KEYTAB, ATTEMPTS),
    *(
        "dfs.nameservices",
        "dfs.data.transfer.protection",
        "dfs.client.use.datanode.hostname",
        "dfs.user.home.dir.prefix",
    ),
    *("hadoop.security.authentication", "hadoop.security.key.provider.path", "hadoop-load-default-config"),
)
# Patterns as text: `re` compiles each when it is first used.
UNDERSTOOD = (
    r"(dfs\.ha\.namenodes|dfs\.namenode\.rpc-address|fs\.viewfs\.mounttable|dfs\.client\.failover"
    r"|dfs\.client\.block\.write\.replace-datanode-on-failure)\..+"
)
TUNING = r"(dfs\.client|ipc\.client|io)\..+|fs\.hdfs\.impl.*|(dfs\.)?hadoop\.security\.token\..+"
PREFIXES = ("dfs.", PREFIX, "ipc.client.", "fs.viewfs.", "fs.hdfs.", "security.kerberos.login.")
SIZE = r"(?i)(\d+)([kmgt]?)b?"
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class HadoopOptions(msgspec.Struct, frozen=True):
    """What a client of Hadoop's file system is made with. `config` goes before the files of `conf_dir`."""

    config: Mapping[str, str] = msgspec.field(default_factory=dict)
    conf_dir: str | None = None
    principal: str | None = None
    keytab: str | None = None
    replication: int | None = None
    block_size: int | None = None


def is_hadoop_option(key: str) -> bool:
    """Returns whether an option of a catalog is one of Hadoop's file system."""
    return key in (CONF_DIR, DEFAULT, "hadoop-load-default-config") or key.startswith(PREFIXES)


def only_hadoop(options: Mapping[str, str], _authority: str = "") -> dict[str, str]:
    """Returns those options that are of Hadoop's file system, as they are spelt."""
    return {key: value for key, value in options.items() if is_hadoop_option(key)}


def hadoop_options(options: Mapping[str, str]) -> HadoopOptions:
    """Returns options by their meaning. Raises `InvalidArgument` for one that is unknown, or of no meaning."""
    config: dict[str, str] = {}
    for key, value in options.items():
        name = key.removeprefix(PREFIX) if not key.startswith("hadoop.security.") else key
        if key in KNOWN or name in KNOWN or f"{PREFIX}{name}" in KNOWN or re.fullmatch(UNDERSTOOD, name):
            config[name] = value
        elif not re.fullmatch(TUNING, name):
            hint = did_you_mean(key, KNOWN)
            raise InvalidArgument(
                f"the option {key!r} of HDFS is not known; {hint}known are {', '.join(sorted(KNOWN))}"
            )
    taken = {key: config.pop(key, None) for key in (CONF_DIR, PRINCIPAL, KEYTAB, REPLICATION, BLOCK_SIZE)}
    return HadoopOptions(
        config,
        taken[CONF_DIR],
        taken[PRINCIPAL],
        taken[KEYTAB],
        _size(REPLICATION, taken[REPLICATION]),
        _size(BLOCK_SIZE, taken[BLOCK_SIZE]),
    )


def _size(key: str, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(SIZE, value.strip())
    if found is None or not int(found[1]):
        raise InvalidArgument(f"the option {key!r} is a number, 1 or more, not {value!r}")
    return int(found[1]) * UNITS[found[2].lower()]
