"""Storage options as Paimon and Hadoop spell them, translated for obstore, Polars and hdfs-native.

=================================  ================================================================
Paimon                             here
=================================  ================================================================
``s3.x``, ``s3a.x``, ``fs.s3a.x``  ``aws_...``; the prefixes mean the same, as in Paimon
``fs.oss.x``                       ``aws_...``: OSS is used by its S3 interface
``fs.gs.x``, ``fs.google.x``       ``google_...``
``fs.azure.x``                     ``azure_...``
=================================  ================================================================

Options that only tune Java clients are ignored; other unknown options are refused.

For S3 credentials, this module asks the listed providers in order, as Java does, and uses the first that has
credentials. `given` maps names without prefix (``aws.credentials.provider``) to the key as the user spelled it and its
value.

For HDFS, the prefix ``hadoop.`` is removed, as in Paimon: ``hadoop.dfs.replication`` is ``dfs.replication``.
Options that are not given come from ``core-site.xml`` and ``hdfs-site.xml`` of `CONF_DIR`, or of the environment
variables ``HADOOP_CONF_DIR`` and ``HADOOP_HOME``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.redaction import register_secrets, suggest_name

ENCRYPTION_KINDS = {
    **dict.fromkeys(("AES256", "SSE-S3"), "AES256"),
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
    "SSE-C": "sse-c",
}
ENCRYPTION_ALGORITHM = ("encryption.algorithm", "server-side-encryption-algorithm")
ENCRYPTION_KEY = ("encryption.key", "server-side-encryption.key")
"""Options for server-side encryption of written objects; the second name of each is the old one."""
PROXY = ("proxy.host", "proxy.port")


def translate_encryption(given: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return obstore's options for server-side encryption.

    Raises `Unsupported`: an unknown kind of encryption. `InvalidArgument`: a key without a kind.
    """
    key, algorithm = next((given[name] for name in ENCRYPTION_ALGORITHM if name in given), ("", ""))
    of_key, kept = next((given[name] for name in ENCRYPTION_KEY if name in given), ("", ""))
    if not algorithm:
        if kept:
            raise InvalidArgument(f"the option {of_key} counts beside {ENCRYPTION_ALGORITHM[0]} only, which is not set")
        return {}
    found = ENCRYPTION_KINDS.get(algorithm.strip().upper())
    if found is None:
        raise Unsupported(f"the option {key} = {algorithm}", hint=f"known are {', '.join(ENCRYPTION_KINDS)}")
    name = "aws_sse_customer_key_base64" if found == "sse-c" else "aws_sse_kms_key_id"
    return {"aws_server_side_encryption": found, **({name: kept} if kept and found != "AES256" else {})}


def translate_proxy(given: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the connection option for the proxy. Raises `InvalidArgument` if the port is missing."""
    if "proxy.host" not in given:
        return {}
    host, (key, port) = given["proxy.host"][1], given.get("proxy.port", ("proxy.port", ""))
    if not port.isdigit():
        raise InvalidArgument(f"the option {key!r} is the number of a port, not {port!r}")
    return {"proxy_url": f"http://{host}:{port}"}


Given: TypeAlias = Mapping[str, tuple[str, str]]

ROLE_PREFIX = "aws_assumed_role_"
"""Prefix of the options of a role, see `morrow.engine.io.temporary_credentials`."""
PROVIDER = "aws.credentials.provider"
ROLE = "assumed.role."
ROLE_NAMES = {
    "arn": "arn",
    "session.name": "session_name",
    "session.duration": "duration",
    "external.id": "external_id",
    "policy": "policy",
    "sts.endpoint": "sts_endpoint",
    "sts.endpoint.region": "sts_region",
}
"""Hadoop's names after ``assumed.role.`` -> names after ``aws_assumed_role_`` here."""
ROLE_PROVIDER = "credentials.provider"
"""The provider of the credentials with which the role is assumed."""
S3_CREDENTIAL_OPTIONS = (PROVIDER, *(f"{ROLE}{name}" for name in (*ROLE_NAMES, ROLE_PROVIDER)))

ANONYMOUS = ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider")
ASSUMED = "AssumedRoleCredentialProvider"
OF_KEYS = ("SimpleAWSCredentialsProvider", "BasicAWSCredentialsProvider", "StaticCredentialsProvider")
OF_TOKEN = ("TemporaryAWSCredentialsProvider",)
OF_ENVIRONMENT = ("EnvironmentVariableCredentialsProvider",)
OF_MACHINE = (
    *("DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider", "IAMInstanceCredentialsProvider"),
    *("InstanceProfileCredentialsProvider", "EC2ContainerCredentialsProviderWrapper", "ContainerCredentialsProvider"),
    *("WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider"),
)
"""Java providers that Morrow uses if no keys are given: a token from the environment, or the machine's role."""
SPAN = r"(\d{1,9})\s*([smhd]?)"
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
MIN_SECONDS, MAX_SECONDS = 900, 43_200
"""Durations that STS accepts."""
KEYS = ("aws_access_key_id", "aws_secret_access_key")
TOKEN = "aws_session_token"


def parse_duration(text: str, key: str) -> int:
    """Return the duration of an assumed role. Raises `InvalidArgument` for a duration that STS does not accept."""
    span = re.fullmatch(SPAN, text.strip().lower())
    found = int(span[1]) * SECONDS[span[2]] if span else 0
    if not MIN_SECONDS <= found <= MAX_SECONDS:
        raise InvalidArgument(f"the option {key!r} is from 15m to 12h, not {text!r}")
    return found


def translate_credentials(given: Given, found: Mapping[str, str]) -> dict[str, str]:
    """Return options to add to `found`: anonymous access, or a role to assume.

    Raises:
        Unsupported: a provider that Morrow does not support. InvalidArgument: a provider lacks options that it needs.
    """
    if PROVIDER not in given:
        return _translate_role(given) if f"{ROLE}arn" in given else {}
    key, value = given[PROVIDER]
    names = _split_names(key, value)
    for name in names:
        if name in ANONYMOUS:
            return {"aws_skip_signature": "true"}
        if name == ASSUMED:
            return _translate_role(given)
        if _has_credentials(name, found):
            return {}
    lacking = TOKEN if names[-1] in OF_TOKEN and all(each in found for each in KEYS) else " and ".join(KEYS)
    if set(names) <= {*OF_KEYS, *OF_TOKEN}:
        raise InvalidArgument(f"{names[-1]} of {key} needs the options {lacking}, or what Paimon calls them")
    return {}


def _has_credentials(name: str, found: Mapping[str, str]) -> bool:
    """Return whether a provider has credentials; unknown for the machine's provider, which is asked last."""
    if name in OF_ENVIRONMENT:
        return all(os.environ.get(each.upper()) for each in KEYS)
    return all(each in found for each in (KEYS if name in OF_KEYS else (*KEYS, TOKEN)))


def _split_names(key: str, value: str) -> list[str]:
    names = [part.strip().rpartition(".")[2] for part in value.split(",") if part.strip()]
    for name in names:
        if name not in (*ANONYMOUS, ASSUMED, *OF_KEYS, *OF_TOKEN, *OF_ENVIRONMENT, *OF_MACHINE):
            raise Unsupported(f"the provider {name} of {key}", hint="give keys, or set the variables AWS_...")
    if not names:
        raise InvalidArgument(f"the option {key} names no provider; leave it out, or name a provider")
    return names


def _translate_role(given: Given) -> dict[str, str]:
    """Return the options of an assumed role. Raises as `translate_credentials`."""
    if f"{ROLE}arn" not in given:
        raise InvalidArgument(f"{ASSUMED} needs the option fs.s3a.{ROLE}arn")
    told = {
        f"{ROLE_PREFIX}{name}": given[f"{ROLE}{of}"][1] for of, name in ROLE_NAMES.items() if f"{ROLE}{of}" in given
    }
    if f"{ROLE}session.duration" in given:
        key, value = given[f"{ROLE}session.duration"]
        parse_duration(value, key)
    if f"{ROLE}{ROLE_PROVIDER}" in given:
        key, value = given[f"{ROLE}{ROLE_PROVIDER}"]
        for name in _split_names(key, value):
            if name == ASSUMED or name in ANONYMOUS:
                raise InvalidArgument(f"{name} cannot give those that assume a role; see {key}")
    return told


HADOOP_SCHEMES = ("hdfs", "viewfs")
CONF_DIR = "hadoop-conf-dir"
HADOOP_PREFIX = "hadoop."
HADOOP_USER = "HADOOP_USER_NAME"
"""The environment variable that names the user, as Java and hdfs-native read it."""
DEFAULT_FILE_SYSTEM = "fs.defaultFS"
REPLICATION, BLOCK_SIZE = "dfs.replication", "dfs.blocksize"
PRINCIPAL, KEYTAB = "security.kerberos.login.principal", "security.kerberos.login.keytab"
FAILOVER_ATTEMPTS = "dfs.client.failover.max.attempts"
HADOOP_OPTIONS = (
    *(CONF_DIR, DEFAULT_FILE_SYSTEM, REPLICATION, BLOCK_SIZE, PRINCIPAL, KEYTAB, FAILOVER_ATTEMPTS),
    *(
        "dfs.nameservices",
        "dfs.data.transfer.protection",
        "dfs.client.use.datanode.hostname",
        "dfs.user.home.dir.prefix",
    ),
    *("hadoop.security.authentication", "hadoop.security.key.provider.path", "hadoop-load-default-config"),
)
# Patterns as text: `re` compiles each when it is first used.
HADOOP_PATTERN = (
    r"(dfs\.ha\.namenodes|dfs\.namenode\.rpc-address|fs\.viewfs\.mounttable|dfs\.client\.failover"
    r"|dfs\.client\.block\.write\.replace-datanode-on-failure)\..+"
)
HADOOP_TUNING = r"(dfs\.client|ipc\.client|io)\..+|fs\.hdfs\.impl.*|(dfs\.)?hadoop\.security\.token\..+"
HADOOP_PREFIXES = ("dfs.", HADOOP_PREFIX, "ipc.client.", "fs.viewfs.", "fs.hdfs.", "security.kerberos.login.")
SIZE = r"(?i)(\d+)([kmgt]?)b?"
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class HadoopOptions(msgspec.Struct, frozen=True):
    """The configuration of an HDFS client. `config` takes precedence over the files of `conf_dir`."""

    config: Mapping[str, str] = msgspec.field(default_factory=dict)
    conf_dir: str | None = None
    principal: str | None = None
    keytab: str | None = None
    replication: int | None = None
    block_size: int | None = None


def is_hadoop_option(key: str) -> bool:
    """Return whether a catalog option is an HDFS option."""
    return key in (CONF_DIR, DEFAULT_FILE_SYSTEM, "hadoop-load-default-config") or key.startswith(HADOOP_PREFIXES)


def select_hadoop_options(options: Mapping[str, str], _authority: str = "") -> dict[str, str]:
    """Return the HDFS options, with their original names."""
    return {key: value for key, value in options.items() if is_hadoop_option(key)}


def parse_hadoop_options(options: Mapping[str, str]) -> HadoopOptions:
    """Parse HDFS options. Raises `InvalidArgument` for an unknown option or an invalid value."""
    config: dict[str, str] = {}
    for key, value in options.items():
        name = key.removeprefix(HADOOP_PREFIX) if not key.startswith("hadoop.security.") else key
        if (
            key in HADOOP_OPTIONS
            or name in HADOOP_OPTIONS
            or f"{HADOOP_PREFIX}{name}" in HADOOP_OPTIONS
            or re.fullmatch(HADOOP_PATTERN, name)
        ):
            config[name] = value
        elif not re.fullmatch(HADOOP_TUNING, name):
            hint = suggest_name(key, HADOOP_OPTIONS)
            raise InvalidArgument(
                f"the option {key!r} of HDFS is not known; {hint}known are {', '.join(sorted(HADOOP_OPTIONS))}"
            )
    taken = {key: config.pop(key, None) for key in (CONF_DIR, PRINCIPAL, KEYTAB, REPLICATION, BLOCK_SIZE)}
    return HadoopOptions(
        config,
        taken[CONF_DIR],
        taken[PRINCIPAL],
        taken[KEYTAB],
        _parse_size(REPLICATION, taken[REPLICATION]),
        _parse_size(BLOCK_SIZE, taken[BLOCK_SIZE]),
    )


def _parse_size(key: str, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(SIZE, value.strip())
    if found is None or not int(found[1]):
        raise InvalidArgument(f"the option {key!r} is a number, 1 or more, not {value!r}")
    return int(found[1]) * UNITS[found[2].lower()]


OWN_PREFIXES = ("aws_", "google_", "azure_")
CONNECTION_OPTIONS = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent"),
        *("http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host"),
    }
)
"""Connection options. Polars takes them with other options, obstore (whose ``aws_allow_http`` panics) separately."""

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
    *(*PROXY, *ENCRYPTION_ALGORITHM, *ENCRYPTION_KEY, *S3_CREDENTIAL_OPTIONS),
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
"""In lower case: names are case-insensitive."""
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
    """Return whether a catalog option is a store option."""
    own = key.startswith((*OWN_PREFIXES, *PREFIXES)) or key in CONNECTION_OPTIONS
    return own or is_hadoop_option(key)


def to_store_options(options: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the store options for `location`, with obstore's names, from the options of a catalog.

    Raises `InvalidArgument`: an unknown option of the store. `Unsupported`: an option that Morrow does not support.
    """
    scheme, _, rest = location.partition("://")
    bucket = rest.partition("/")[0]
    own = {key: value for key, value in options.items() if key.startswith(OWN_PREFIXES) or key in CONNECTION_OPTIONS}
    translate = _OF_SCHEME.get(scheme.lower())
    return {**(translate(options, bucket) if translate else {}), **own}


def translate_options(options: Mapping[str, str] | None, location: str) -> Mapping[str, str] | None:
    """Return storage options with obstore's names; Paimon's spellings are translated, other options are unchanged.

    Raises: as `to_store_options`.
    """
    if options is None or not any(map(find_prefix, options)):
        return options
    register_secrets(options)
    others = {key: value for key, value in options.items() if not find_prefix(key)}
    return {**to_store_options(options, location), **others}


def _translate_s3(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    given: dict[str, tuple[str, str]] = {}
    for prefix in reversed(S3_PREFIXES):  # if several prefixes are set, the first one counts
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
            raise _make_unknown_error(key, find_prefix(key), S3_KNOWN)
    if "endpoint" in given:
        secure = "connection.ssl.enabled" not in given or _is_true(*given["connection.ssl.enabled"])
        found["aws_endpoint_url"] = _add_scheme(given["endpoint"][1], secure)
    return {**found, **translate_credentials(given, found), **translate_encryption(given), **translate_proxy(given)}


def _translate_oss(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    found: dict[str, str] = {}
    endpoint = ""
    for key, value in options.items():
        name = key.removeprefix(OSS_PREFIX)
        if not key.startswith(OSS_PREFIX):
            continue
        if name == "endpoint":
            endpoint = _add_scheme(value, secure=True)
        elif name.lower() in OSS_NAMES:
            found[OSS_NAMES[name.lower()]] = value
        elif not OSS_TUNING.fullmatch(name):
            raise _make_unknown_error(key, OSS_PREFIX, (*OSS_NAMES, "endpoint"))
    if not endpoint:
        return found
    parts = urlsplit(endpoint)
    aliyun = OSS_HOST.fullmatch(parts.hostname or "")
    if aliyun:
        # OSS itself requires the bucket in the host name.
        found.setdefault("aws_region", f"oss-{aliyun[1]}")
        host = parts.netloc if parts.netloc.startswith(f"{bucket}.") else f"{bucket}.{parts.netloc}"
        endpoint = f"{parts.scheme}://{host}"
        found["aws_virtual_hosted_style_request"] = "true"
    found.setdefault("aws_region", "us-east-1")
    return {**found, "aws_endpoint_url": endpoint}


def _translate_google(options: Mapping[str, str], bucket: str) -> dict[str, str]:  # noqa: ARG001  # same signature for all
    found: dict[str, str] = {}
    for key, value in options.items():
        prefix = next((each for each in GOOGLE_PREFIXES if key.startswith(each)), None)
        if prefix is None:
            continue
        name = key.removeprefix(prefix)
        if name not in GOOGLE_NAMES:
            raise _make_unknown_error(key, prefix, GOOGLE_NAMES)
        if GOOGLE_NAMES[name]:
            found[GOOGLE_NAMES[name]] = value
    return found


def _translate_azure(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Translate ``fs.azure.account.key[.<account>.dfs.core.windows.net]``, container tokens and OAuth clients."""
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
            found |= _translate_azure_client(oauth[1], key, value)
        elif kind == "auth":
            if value.strip().lower() not in AZURE_LOGINS:
                raise Unsupported(f"the option {key} = {value}", hint="known are SharedKey, SAS and OAuth")
        elif name != "impl":
            raise _make_unknown_error(key, AZURE_PREFIX, ("account.key", "sas.fixed.token", *AZURE_CLIENT))
    return found


def _translate_azure_client(name: str, key: str, value: str) -> dict[str, str]:
    """Translate an option of an OAuth 2.0 client that logs in with a secret."""
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
    **dict.fromkeys(S3_SCHEMES, _translate_s3),
    OSS_SCHEME: _translate_oss,
    **dict.fromkeys(GOOGLE_SCHEMES, _translate_google),
    **dict.fromkeys(AZURE_SCHEMES, _translate_azure),
    **dict.fromkeys(HADOOP_SCHEMES, select_hadoop_options),
}


def has_store(scheme: str) -> bool:
    """Return whether Morrow itself opens URLs of a scheme."""
    return scheme.lower() in _OF_SCHEME


def find_prefix(key: str) -> str:
    """Return Paimon's prefix of a store option, empty if it has none."""
    return next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")


def _add_scheme(endpoint: str, secure: bool) -> str:
    return endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"


def _is_true(key: str, value: str) -> bool:
    found = {"true": True, "false": False}.get(value.strip().lower())
    if found is None:
        raise InvalidArgument(f"the option {key!r} is true or false, not {value!r}")
    return found


def _make_unknown_error(key: str, prefix: str, known: object) -> InvalidArgument:
    names = [str(name) for name in known] if isinstance(known, (tuple, dict)) else []
    hint = suggest_name(key.removeprefix(prefix), names)
    return InvalidArgument(f"the option {key!r} of the store is not known; {hint}known are {', '.join(sorted(names))}")


def find_connection_option(key: str) -> str | None:
    """Return obstore's name of a connection option; None for an option of the store itself."""
    name = key.lower().removeprefix("aws_")
    return name if name in CONNECTION_OPTIONS else None
