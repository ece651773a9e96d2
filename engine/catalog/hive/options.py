"""The options of a Hive catalog: Paimon's options, and the ``hive-site.xml`` options that a metastore client needs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from morrow.engine.catalog.hive.client import Wire, read_trust_store
from morrow.engine.catalog.settings import (
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_ENABLED,
    LOCK_TYPE,
    SYNC_ALL_PROPERTIES,
    URI,
    WAREHOUSE,
    Settings,
)
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declarations import BOOL, LONG, TEXT, TUNING, declare_honoured, declare_idle, make_choice

METASTORE = "hive"
SITE = "hive-site.xml"
CONF_DIR = "HIVE_CONF_DIR"
"""The environment variable, which Java reads too."""
SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")

HIVE_CONF_DIR = declare_honoured("hive-conf-dir", TEXT, "", f"Folder of {SITE}; by default that of {CONF_DIR}")
LOCATION_IN_PROPERTIES = declare_honoured("location-in-properties", BOOL, False, "Keeps locations in properties")
TABLE_TYPE = declare_honoured(
    "table.type", make_choice("managed", "external"), "managed", "Kind of new tables in the metastore"
)
FORMAT_TABLES = declare_honoured("format-table.enabled", BOOL, True, "Shows tables of Hive's own as format tables")
ALTER_TABLE_CASCADE = declare_honoured("alter-table-cascade", BOOL, True, "Changes of columns reach partitions")
SKIP_STATS = declare_honoured(
    "hive.skip-update-stats", BOOL, False, "Has Hive leave statistics alone when a table changes"
)
URIS = declare_honoured("hive.metastore.uris", TEXT, "", "Address of the metastore, where uri is not set")
WAREHOUSE_DIR = declare_honoured("hive.metastore.warehouse.dir", TEXT, "", "Warehouse, where warehouse is not set")
TIMEOUT = declare_honoured("hive.metastore.client.socket.timeout", TEXT, "600s", "Longest wait for an answer")
SET_UGI = declare_honoured("hive.metastore.execute.setugi", BOOL, True, "Tells the metastore who asks")
SASL = declare_honoured("hive.metastore.sasl.enabled", BOOL, False, "Authenticates by Kerberos, with the user's ticket")
PRINCIPAL = declare_honoured(
    "hive.metastore.kerberos.principal", TEXT, "hive/_HOST", "The metastore's name in Kerberos; _HOST is its host"
)
PROTECTION = declare_honoured(
    "hadoop.rpc.protection", make_choice("authentication"), "authentication", "What Kerberos protects"
)
MODE = declare_honoured(
    "hive.metastore.client.thrift.transport.mode", TEXT, "binary", "HTTP, which Morrow's client does not do"
)
SSL = declare_honoured("hive.metastore.use.SSL", BOOL, False, "Talks to the metastore by TLS")
TRUSTSTORE = declare_honoured("hive.metastore.truststore.path", TEXT, "", "Trusted certificates, a PEM file")
FRAMED = declare_honoured("hive.metastore.thrift.framed.transport.enabled", BOOL, False, "Talks in frames")
COMPACT = declare_honoured(
    "hive.metastore.thrift.compact.protocol.enabled", BOOL, False, "Talks in thrift's compact protocol"
)
DECLARED = (
    *(HIVE_CONF_DIR, LOCATION_IN_PROPERTIES, TABLE_TYPE, FORMAT_TABLES, ALTER_TABLE_CASCADE, SKIP_STATS),
    *(URIS, WAREHOUSE_DIR, TIMEOUT, SET_UGI, SASL, PRINCIPAL, PROTECTION, MODE, SSL),
    *(TRUSTSTORE, FRAMED, COMPACT),
    declare_idle(
        "a trust store tells its kind itself", "hive.metastore.truststore.type", TEXT, None, "Kind of the trust store"
    ),
    declare_idle(
        "PEM files need no password", "hive.metastore.truststore.password", TEXT, "", "Password of the trust store"
    ),
    declare_idle(TUNING, "metastore.client.class", TEXT, None, "Java class of the client"),
    declare_idle(TUNING, "client-pool-cache.eviction-interval-ms", LONG, None, "Age of connections"),
    declare_idle(TUNING, "client-pool-cache.keys", TEXT, None, "What connections are told apart by"),
)
OF_SITE = (
    *(URIS, WAREHOUSE_DIR, TIMEOUT, SET_UGI, SASL, PRINCIPAL, PROTECTION, MODE, SSL, TRUSTSTORE, FRAMED),
    COMPACT,
)
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")


@dataclass(frozen=True)
class HiveOptions:
    """The parsed options of a Hive catalog. `of_changes` is sent with each change of a table."""

    uris: str
    warehouse: str
    timeout: float
    tells_user: bool
    locks: bool | None
    lock_timeout: float
    longest_sleep: float
    all_properties: bool
    location_in_properties: bool
    makes_external: bool
    has_format_tables: bool
    wire: Wire
    of_changes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def location(self) -> str:
        """The warehouse as Hadoop writes it: a local folder is ``file:/...``."""
        return to_hadoop_location(self.warehouse)


def to_hadoop_location(location: str) -> str:
    """Return a folder or URL as Hadoop writes it: a local folder is ``file:/...``."""
    if SCHEME.match(location):
        return location.rstrip("/")
    return f"file:{Path(location).expanduser().absolute()}".rstrip("/")


def read_hive_options(settings: Settings) -> HiveOptions:
    """Return the options; options that are not set come from ``hive-site.xml``.

    Raises:
        InvalidArgument: an option is missing, unknown, or has an invalid value; a file cannot be read.
        Unsupported: Kerberos with encryption, HTTP, or a lock or trust store of an unsupported kind.
    """
    settings.checked(DECLARED)
    of_site = _read_site(settings.given.get(HIVE_CONF_DIR) or os.environ.get(CONF_DIR, ""))
    known = {option.key for option in OF_SITE}
    given = settings.updated({**{k: v for k, v in of_site.items() if k in known}, **settings.raw}).given
    if given.get(SASL):
        given.get(PROTECTION)  # raises for what Morrow's client does not protect
    if (mode := given.get(MODE)) != MODE.default:
        raise Unsupported(
            f"{MODE}={mode!r}", where="Hive's metastore", hint="Morrow's client has no HTTP; name a port of thrift"
        )
    if (kind := given.get(LOCK_TYPE)) not in ("", METASTORE):
        raise Unsupported(f"lock.type={kind!r} in a Hive catalog", hint="leave it out: its lock is the metastore's")
    uris = given.get(URI).strip() or given.get(URIS).strip()
    warehouse = given.get(WAREHOUSE).strip() or given.get(WAREHOUSE_DIR).strip()
    for needed, found in ((URI, uris), (WAREHOUSE, warehouse)):
        if not found:
            raise InvalidArgument(f"a catalog with metastore='hive' needs the option {needed}, or a {SITE} that has it")
    return HiveOptions(
        uris,
        warehouse,
        _parse_seconds(given.get(TIMEOUT)),
        given.get(SET_UGI) and not given.get(SASL),
        given.get(LOCK_ENABLED),
        given.get(LOCK_ACQUIRE_TIMEOUT).total_seconds(),
        given.get(LOCK_CHECK_MAX_SLEEP).total_seconds(),
        given.get(SYNC_ALL_PROPERTIES),
        given.get(LOCATION_IN_PROPERTIES),
        given.get(TABLE_TYPE) == "external",
        given.get(FORMAT_TABLES),
        Wire(
            given.get(SSL),
            given.get(FRAMED),
            given.get(COMPACT),
            read_trust_store(given.get(TRUSTSTORE)) if given.get(SSL) else b"",
            given.get(PRINCIPAL) if given.get(SASL) else "",
        ),
        {
            **({"CASCADE": "true"} if given.get(ALTER_TABLE_CASCADE) else {}),
            "DO_NOT_UPDATE_STATS": str(given.get(SKIP_STATS)).lower(),
        },
    )


def _read_site(folder: str) -> dict[str, str]:
    """Return the properties of the ``hive-site.xml`` in a folder; empty without a folder."""
    if not folder:
        return {}
    file = Path(folder).expanduser() / SITE
    try:
        properties = ElementTree.fromstring(file.read_text()).iter("property")
        found = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in properties}
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise InvalidArgument(f"{file}: {error}; the option {HIVE_CONF_DIR} names its folder") from error
    return {key: value for key, value in found.items() if value}


def _parse_seconds(text: str) -> float:
    match = DURATION.fullmatch(text.lower())
    if match is None or match[2] not in UNITS:
        raise InvalidArgument(f"the option {TIMEOUT} is a time such as 600s, not {text!r}")
    return int(match[1]) * UNITS[match[2]]
