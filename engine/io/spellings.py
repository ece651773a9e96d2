"""The options of stores as Paimon spells them, in the words of obstore and Polars.

=================================  ================================================================
Paimon                             here
=================================  ================================================================
``s3.x``, ``s3a.x``, ``fs.s3a.x``  ``aws_...``; the prefixes mean the same, as in Paimon
``fs.oss.x``                       ``aws_...``: OSS is asked by its S3 interface
``fs.gs.x``, ``fs.google.x``       ``google_...``
``fs.azure.x``                     ``azure_...``
=================================  ================================================================

Options that only tune Java's clients have no effect; any other that is not understood is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io import hadoop_options
from morrow.engine.io.s3_credentials import KNOWN as CREDENTIALS
from morrow.engine.io.s3_credentials import credentials
from morrow.engine.io.s3_options import ALGORITHM, KEY, PROXY, encryption, proxy
from morrow.engine.telling import did_you_mean, remember

OWN_PREFIXES = ("aws_", "google_", "azure_")
CONNECTION_OPTIONS = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent"),
        *("http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host"),
    }
)
"""Options of the connection. Polars takes them among the others, obstore (whose ``aws_allow_http`` panics) apart."""

S3_PREFIXES = ("fs.s3a.", "fs.s3.", "s3a.", "s3.")
OSS_PREFIX = "fs.oss."
GOOGLE_PREFIXES = ("fs.gs.", "fs.google.", "gs.")
AZURE_PREFIX = "fs.azure."
PREFIXES = (*S3_PREFIXES, OSS_PREFIX, *GOOGLE_PREFIXES, AZURE_PREFIX)

S3_SCHEMES = ("s3", "s3a", "s3n")
OSS_SCHEME = "oss"
GOOGLE_SCHEMES = ("gs", "gcs")
AZURE_SCHEMES = ("az", "adl", "azure", "abfs", "abfss", "wasb", "wasbs")

S3_NAMES = {
    **dict.fromkeys(("access-key", "access.key"), "aws_access_key_id"),
    **dict.fromkeys(("secret-key", "secret.key"), "aws_secret_access_key"),
    **dict.fromkeys(("session-token", "session.token"), "aws_session_token"),
    **dict.fromkeys(("region", "endpoint.region", "endpoint-region"), "aws_region"),
}
S3_KNOWN = (
    *(*S3_NAMES, "endpoint", "path.style.access", "connection.ssl.enabled", "requester.pays.enabled"),
    *(*PROXY, *ALGORITHM, *KEY, *CREDENTIALS),
)
S3_TUNING = re.compile(
    r"(connection\.(maximum|timeout|establish\.timeout|keepalive|ttl|acquisition\.timeout|request\.timeout|idle\.time)"
    r"|attempts\.maximum|retry\..+|fast\.upload.*|multipart\..+|threads\..+|buffer\.dir|block\.size|readahead\.range"
    r"|(experimental\.)?input\..+|max\.total\.tasks|impl|signing-algorithm|list\.version|paging\.maximum|change\..+"
    r"|socket\..+|directory\.marker\..+|metadatastore\..+|vectored\..+|optimized\..+|performance\..+|executor\..+)"
)
OSS_NAMES = {
    "accesskeyid": "aws_access_key_id",
    "accesskeysecret": "aws_secret_access_key",
    "securitytoken": "aws_session_token",
    "region": "aws_region",
}
"""In small letters: capitals make no difference."""
OSS_TUNING = re.compile(
    r"(impl|connection\..+|attempts\..+|multipart\..+|upload\..+|download\..+|buffer\.dir|core\..+)"
)
OSS_HOST = re.compile(r"(?:[^.]+\.)?oss-([a-z0-9-]+?)(-internal)?\.aliyuncs\.com")
GOOGLE_NAMES = {
    "auth.service.account.json.keyfile": "google_service_account",
    "auth.type": "",
    "project.id": "",
    "impl": "",
}
AZURE_CLIENT = ("account.oauth2.client.id", "account.oauth2.client.secret", "account.oauth2.client.endpoint")
AZURE_OAUTH = re.compile(r"account\.(oauth\.provider\.type|oauth2\.client\.(?:id|secret|endpoint))(?:\.|$)")
AZURE_LOGINS = ("sharedkey", "sas", "oauth")


def is_store_option(key: str) -> bool:
    """Returns whether an option of a catalog is one of its store."""
    own = key.startswith((*OWN_PREFIXES, *PREFIXES)) or key in CONNECTION_OPTIONS
    return own or hadoop_options.is_hadoop_option(key)


def store_options(options: Mapping[str, str], location: str) -> dict[str, str]:
    """Returns the options of the store that serves `location`, by obstore's names, from those of a catalog.

    Raises:
        InvalidArgument: an unknown option of that store. Unsupported: one that Morrow does not handle.
    """
    scheme, _, rest = location.partition("://")
    bucket = rest.partition("/")[0]
    own = {key: value for key, value in options.items() if key.startswith(OWN_PREFIXES) or key in CONNECTION_OPTIONS}
    translate = _OF_SCHEME.get(scheme.lower())
    return {**(translate(options, bucket) if translate else {}), **own}


def understood(options: Mapping[str, str] | None, location: str) -> Mapping[str, str] | None:
    """Returns storage options by obstore's names; those that Paimon spells otherwise are translated, others stay.

    Raises: as `store_options`.
    """
    if options is None or not any(map(prefix_of, options)):
        return options
    remember(options)
    others = {key: value for key, value in options.items() if not prefix_of(key)}
    return {**store_options(options, location), **others}


def _s3(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    given: dict[str, tuple[str, str]] = {}
    for prefix in reversed(S3_PREFIXES):  # the first prefix counts where several are set
        given |= {key.removeprefix(prefix): (key, text) for key, text in options.items() if key.startswith(prefix)}
    of_bucket = f"bucket.{bucket}."
    given |= {name.removeprefix(of_bucket): pair for name, pair in given.items() if name.startswith(of_bucket)}
    given = {name: pair for name, pair in given.items() if not name.startswith("bucket.")}
    found: dict[str, str] = {}
    for name, (key, value) in given.items():
        if name in S3_NAMES:
            found[S3_NAMES[name]] = value
        elif name in ("path.style.access", "path-style-access"):
            found["aws_virtual_hosted_style_request"] = "false" if _is_true(key, value) else "true"
        elif name == "requester.pays.enabled":
            found["aws_request_payer"] = str(_is_true(key, value)).lower()
        elif name not in S3_KNOWN and not S3_TUNING.fullmatch(name):
            raise _unknown(key, prefix_of(key), S3_KNOWN)
    if "endpoint" in given:
        secure = "connection.ssl.enabled" not in given or _is_true(*given["connection.ssl.enabled"])
        found["aws_endpoint_url"] = _with_scheme(given["endpoint"][1], secure)
    return {**found, **credentials(given, found), **encryption(given), **proxy(given)}


def _oss(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    found: dict[str, str] = {}
    endpoint = ""
    for key, value in options.items():
        name = key.removeprefix(OSS_PREFIX)
        if not key.startswith(OSS_PREFIX):
            continue
        if name == "endpoint":
            endpoint = _with_scheme(value, secure=True)
        elif name.lower() in OSS_NAMES:
            found[OSS_NAMES[name.lower()]] = value
        elif not OSS_TUNING.fullmatch(name):
            raise _unknown(key, OSS_PREFIX, (*OSS_NAMES, "endpoint"))
    if not endpoint:
        return found
    parts = urlsplit(endpoint)
    aliyun = OSS_HOST.fullmatch(parts.hostname or "")
    if aliyun:
        # OSS itself answers only where the bucket is part of the host's name.
        found.setdefault("aws_region", f"oss-{aliyun[1]}")
        host = parts.netloc if parts.netloc.startswith(f"{bucket}.") else f"{bucket}.{parts.netloc}"
        endpoint = f"{parts.scheme}://{host}"
        found["aws_virtual_hosted_style_request"] = "true"
    found.setdefault("aws_region", "us-east-1")
    return {**found, "aws_endpoint_url": endpoint}


def _google(options: Mapping[str, str], bucket: str) -> dict[str, str]:  # noqa: ARG001  # as all of them
    found: dict[str, str] = {}
    for key, value in options.items():
        prefix = next((each for each in GOOGLE_PREFIXES if key.startswith(each)), None)
        if prefix is None:
            continue
        name = key.removeprefix(prefix)
        if name not in GOOGLE_NAMES:
            raise _unknown(key, prefix, GOOGLE_NAMES)
        if GOOGLE_NAMES[name]:
            found[GOOGLE_NAMES[name]] = value
    return found


def _azure(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Translates ``fs.azure.account.key[.<account>.dfs.core.windows.net]``, tokens of containers, clients of OAuth."""
    account = bucket.rpartition("@")[2].partition(".")[0] if "@" in bucket else ""
    found = {"azure_storage_account_name": account} if account else {}
    for key, value in options.items():
        if not key.startswith(AZURE_PREFIX):
            continue
        name = key.removeprefix(AZURE_PREFIX)
        kind, _, of = name.removeprefix("account.").partition(".")
        if name.startswith("account.key"):
            found["azure_storage_account_key"] = value
            if of:
                found["azure_storage_account_name"] = of.partition(".")[0]
        elif name.startswith("sas."):
            found["azure_storage_sas_key"] = value
        elif (oauth := AZURE_OAUTH.match(name)) is not None:
            found |= _azure_client(oauth[1], key, value)
        elif kind == "auth":
            if value.strip().lower() not in AZURE_LOGINS:
                raise Unsupported(f"the option {key} = {value}", hint="known are SharedKey, SAS and OAuth")
        elif name != "impl":
            raise _unknown(key, AZURE_PREFIX, ("account.key", "sas.fixed.token", *AZURE_CLIENT))
    return found


def _azure_client(name: str, key: str, value: str) -> dict[str, str]:
    """Translates an option of a client that logs in by OAuth 2.0 with a secret."""
    if name == "oauth.provider.type":
        if not value.endswith("ClientCredsTokenProvider"):
            raise Unsupported(f"the option {key} = {value}", hint="take ClientCredsTokenProvider, a key or a token")
        return {}
    if name != "oauth2.client.endpoint":
        return {f"azure_client_{name.rpartition('.')[2]}": value}
    parts = urlsplit(value)
    tenant = parts.path.strip("/").partition("/")[0]
    if not parts.hostname or not tenant:
        raise InvalidArgument(f"the option {key!r} is https://HOST/TENANT/oauth2/token, not {value!r}")
    return {"azure_tenant_id": tenant, "azure_authority_host": f"{parts.scheme}://{parts.netloc}"}


_OF_SCHEME: dict[str, Callable[[Mapping[str, str], str], dict[str, str]]] = {
    **dict.fromkeys(S3_SCHEMES, _s3),
    OSS_SCHEME: _oss,
    **dict.fromkeys(GOOGLE_SCHEMES, _google),
    **dict.fromkeys(AZURE_SCHEMES, _azure),
    **dict.fromkeys(hadoop_options.SCHEMES, hadoop_options.only_hadoop),
}


def prefix_of(key: str) -> str:
    """Returns Paimon's prefix of an option of a store, empty where it has none."""
    return next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")


def _with_scheme(endpoint: str, secure: bool) -> str:
    return endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"


def _is_true(key: str, value: str) -> bool:
    found = {"true": True, "false": False}.get(value.strip().lower())
    if found is None:
        raise InvalidArgument(f"the option {key!r} is true or false, not {value!r}")
    return found


def _unknown(key: str, prefix: str, known: object) -> InvalidArgument:
    names = [str(name) for name in known] if isinstance(known, (tuple, dict)) else []
    hint = did_you_mean(key.removeprefix(prefix), names)
    return InvalidArgument(f"the option {key!r} of the store is not known; {hint}known are {', '.join(sorted(names))}")


def connection_option(key: str) -> str | None:
    """Returns obstore's name of a connection option, None for an option of the store itself."""
    name = key.lower().removeprefix("aws_")
    return name if name in CONNECTION_OPTIONS else None
