"""Who gives the credentials of S3: the options of Hadoop that say so, in the words of obstore and of `roles`.

`given` maps names without prefix (``aws.credentials.provider``) to the key as it was given and its value. Java asks the
providers in the order of their list, and takes the first that has credentials; so does this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported

Given: TypeAlias = Mapping[str, tuple[str, str]]

OWN = "aws_assumed_role_"
"""How the options of a role begin here; see `roles`."""
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
"""What follows ``assumed.role.`` in Hadoop -> what follows ``aws_assumed_role_`` here."""
ROLE_PROVIDER = "credentials.provider"
"""Who gives the credentials with which the role is assumed."""
KNOWN = (PROVIDER, *(f"{ROLE}{name}" for name in (*ROLE_NAMES, ROLE_PROVIDER)))

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
"""What gives credentials in Java, and does so here where no keys are given: a token of the environment, the machine."""
SPAN = r"(\d{1,9})\s*([smhd]?)"
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
LEAST_SECONDS, MOST_SECONDS = 900, 43_200
"""What STS accepts."""
KEYS = ("aws_access_key_id", "aws_secret_access_key")
TOKEN = "aws_session_token"


def seconds(text: str, key: str) -> int:
    """Returns how long a role is assumed. Raises `InvalidArgument` for a span that STS does not accept."""
    span = re.fullmatch(SPAN, text.strip().lower())
    found = int(span[1]) * SECONDS[span[2]] if span else 0
    if not LEAST_SECONDS <= found <= MOST_SECONDS:
        raise InvalidArgument(f"the option {key!r} is from 15m to 12h, not {text!r}")
    return found


def credentials(given: Given, found: Mapping[str, str]) -> dict[str, str]:
    """Returns what is to be added to the options `found`: no signatures, or a role to be assumed.

    Raises:
        Unsupported: a provider that Morrow does not know. InvalidArgument: one that lacks what it needs.
    """
    if PROVIDER not in given:
        return _role(given) if f"{ROLE}arn" in given else {}
    key, value = given[PROVIDER]
    names = _names(key, value)
    for name in names:
        if name in ANONYMOUS:
            return {"aws_skip_signature": "true"}
        if name == ASSUMED:
            return _role(given)
        if _has_credentials(name, found):
            return {}
    lacking = TOKEN if names[-1] in OF_TOKEN and all(each in found for each in KEYS) else " and ".join(KEYS)
    if set(names) <= {*OF_KEYS, *OF_TOKEN}:
        raise InvalidArgument(f"{names[-1]} of {key} needs the options {lacking}, or what Paimon calls them")
    return {}


def _has_credentials(name: str, found: Mapping[str, str]) -> bool:
    """Returns whether a provider has credentials; of the machine's, which are asked last, nobody knows here."""
    if name in OF_ENVIRONMENT:
        return all(os.environ.get(each.upper()) for each in KEYS)
    return all(each in found for each in (KEYS if name in OF_KEYS else (*KEYS, TOKEN)))


def _names(key: str, value: str) -> list[str]:
    names = [part.strip().rpartition(".")[2] for part in value.split(",") if part.strip()]
    for name in names:
        if name not in (*ANONYMOUS, ASSUMED, *OF_KEYS, *OF_TOKEN, *OF_ENVIRONMENT, *OF_MACHINE):
            raise Unsupported(f"the provider {name} of {key}", hint="give keys, or set the variables AWS_...")
    if not names:
        raise InvalidArgument(f"the option {key} names nobody; leave it out, or name a provider")
    return names


def _role(given: Given) -> dict[str, str]:
    """Returns the options of a role that is assumed. Raises as `credentials`."""
    if f"{ROLE}arn" not in given:
        raise InvalidArgument(f"{ASSUMED} needs the option fs.s3a.{ROLE}arn")
    told = {f"{OWN}{name}": given[f"{ROLE}{of}"][1] for of, name in ROLE_NAMES.items() if f"{ROLE}{of}" in given}
    if f"{ROLE}session.duration" in given:
        key, value = given[f"{ROLE}session.duration"]
        seconds(value, key)
    if f"{ROLE}{ROLE_PROVIDER}" in given:
        key, value = given[f"{ROLE}{ROLE_PROVIDER}"]
        for name in _names(key, value):
            if name == ASSUMED or name in ANONYMOUS:
                raise InvalidArgument(f"{name} cannot give those that assume a role; see {key}")
    return told
