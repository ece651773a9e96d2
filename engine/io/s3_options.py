"""Options of S3 that say more together than alone: how the store encrypts what is written, and the proxy before it.

`given` maps names without prefix (``encryption.algorithm``) to the key as it was given and its value.
"""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument, Unsupported

KINDS = {
    **dict.fromkeys(("AES256", "SSE-S3"), "AES256"),
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
    "SSE-C": "sse-c",
}
ALGORITHM = ("encryption.algorithm", "server-side-encryption-algorithm")
KEY = ("encryption.key", "server-side-encryption.key")
"""How objects that are written are encrypted in the store; the latter of each is the former's name of old."""
PROXY = ("proxy.host", "proxy.port")


def encryption(given: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Returns obstore's options of encryption in the store.

    Raises:
        Unsupported: a kind that it does not know. InvalidArgument: a key without a kind.
    """
    key, algorithm = next((given[name] for name in ALGORITHM if name in given), ("", ""))
    of_key, kept = next((given[name] for name in KEY if name in given), ("", ""))
    if not algorithm:
        if kept:
            raise InvalidArgument(f"the option {of_key} counts beside {ALGORITHM[0]} only, which is not set")
        return {}
    found = KINDS.get(algorithm.strip().upper())
    if found is None:
        raise Unsupported(f"the option {key} = {algorithm}", hint=f"known are {', '.join(KINDS)}")
    name = "aws_sse_customer_key_base64" if found == "sse-c" else "aws_sse_kms_key_id"
    return {"aws_server_side_encryption": found, **({name: kept} if kept and found != "AES256" else {})}


def proxy(given: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Returns the option of the connection that names the proxy. Raises `InvalidArgument` without its port."""
    if "proxy.host" not in given:
        return {}
    host, (key, port) = given["proxy.host"][1], given.get("proxy.port", ("proxy.port", ""))
    if not port.isdigit():
        raise InvalidArgument(f"the option {key!r} is the number of a port, not {port!r}")
    return {"proxy_url": f"http://{host}:{port}"}
