"""Text for people, with terminal control characters and secrets removed, all in this module.

Names, option values and file contents come with a table of any origin; URLs and messages of libraries may repeat a
password. Errors, log messages, reprs and the screen output of the command line go through `clean_text`. Data that other
programs read (JSON, CSV, Arrow, `Table.path`) stay exact.
"""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, MutableMapping
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote, unquote

E = TypeVar("E", bound=BaseException)

HIDDEN = "***"
MIN_SECRET_LENGTH = 6
"""The minimum length, in characters, of a secret that is searched for by itself: shorter ones occur in other words."""
MAX_SECRETS = 10_000
MAX_NAMED_COLUMNS = 40
"""The limit of columns that an error names."""

MIN_SIMILARITY = 0.6
"""The least similarity, by difflib's measure, of names that are suggested for a misspelled one."""

# Removed: C0 except tab and newline, DEL and C1, directional marks and overrides, line separators, surrogates.
UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
NEXT_LINE = "\n(?! )"
"""A line break that may come from a name: the line is indented, so that it does not look like a line of Morrow."""

SECRET_WORDS = (
    r"secret|passw(?:or)?d|passphrase|token|credential|signature|private[-_.]?key|account[-_.]?key|access[-_.]?key|"
    r"api[-_.]?key|sas[-_.]?key|encryption[-_.]?key|customer[-_.]?key|master[-_.]?key|service[-_.]?account"
)
SECRET_NAME = rf"(?i){SECRET_WORDS}|^sig$|^sas$|^pwd$|authorization"
OF_COLUMN = r"^(?:fields|file-index)\."
"""Options with columns in their names: a column may be called token."""
# Patterns as text: `re` compiles each at its first use, which most processes never reach.
_USERINFO = r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)([^\s/?#'\"<>]+)@"
_PARAMETER = rf"(?i)([?&;](?:[\w.~-]{{0,64}}(?:{SECRET_WORDS})[\w.~-]{{0,64}}|sig|sas|pwd|key)=)[^&\s'\"<>()]+"
_NAMED = (
    rf"(?i)((?<![\w.-])[\w.-]{{0,64}}(?:{SECRET_WORDS})[\w.-]{{0,64}}[\"']?"
    r"(?:\s{0,4}=>?\s{0,4}|\s{0,4}:\s{1,4}|:(?=[\"']))(?:Some\()?)"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;)}\]'\"]+)"
)
ABOUT_SECRETS = r"(?i)token\.provider|dlf\.token-(loader|path|ecs-metadata-url|ecs-role-name)"
"""Options that say where a secret comes from, and contain none."""
_BEARER = r"(?i)\b(bearer|basic|aws4-hmac-sha256)\s+[A-Za-z0-9._~+/=-]{8,}"
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_", "GCS_", "GCP_", "S3_", "OSS_", "MINIO_", "ARM_", "MORROW_")

_secrets: OrderedDict[str, None] = OrderedDict()
_lock = Lock()


def register_secrets(options: Mapping[str, str] | None = None, *, url: str = "") -> None:
    """Register the secrets among options of a store, and the password in its URL: they are hidden from now on."""
    found = [value for key, value in (options or {}).items() if is_secret(key) and isinstance(value, str)]
    for text in (url, *(options or {}).values()):
        if isinstance(text, str):
            found += [match[2].partition(":")[2] for match in re.finditer(_USERINFO, text)]
    with _lock:
        for secret in found:
            if _is_findable(secret):
                _secrets[secret] = None
        while len(_secrets) > MAX_SECRETS:
            _secrets.popitem(last=False)


def is_secret(name: str) -> bool:
    """Return whether an option or environment variable of this name holds a secret."""
    if re.fullmatch(ABOUT_SECRETS, name) is not None:
        return False
    return re.search(SECRET_NAME, name) is not None and re.search(OF_COLUMN, name) is None


def hide_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return options for display, by name, without secrets: values with secret names, and passwords in URLs."""
    return {key: HIDDEN if is_secret(key) else redact_text(value) for key, value in sorted(options.items())}


def clean_text(text: str) -> str:
    """Return the text without secrets and terminal control characters. Harmless text is unchanged."""
    return escape_controls(redact_text(text))


def clean_lines(text: str) -> str:
    """Return Morrow's own lines with line breaks kept, each of them processed by `clean_text`."""
    return "\n".join(map(clean_text, text.split("\n")))


def escape_to_line(text: str) -> str:
    """Return the text on one line, with secrets unchanged: a value in a table for display."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escape_controls(text: str) -> str:
    """Return the text with control characters, directional overrides and lone surrogates as escapes."""
    if text.isprintable():
        return text
    return re.sub(NEXT_LINE, "\n  ", re.sub(UNPRINTABLE, _escape_match, text))


def redact_text(text: str) -> str:
    """Return the text without passwords in URLs, signatures, values of secret options, and registered secrets."""
    if "=" in text or ":" in text or len(text.split(None, 1)) > 1:  # all patterns contain one of these; a path does not
        text = re.sub(_USERINFO, _hide_password, text)
        text = re.sub(_PARAMETER, rf"\1{HIDDEN}", text)
        text = re.sub(_NAMED, _hide_value, text)
        text = re.sub(_BEARER, rf"\1 {HIDDEN}", text)
    # Registered secrets come last: one may be part of the name by which another is found.
    for secret in _list_known_secrets():
        for form in {secret, quote(secret, safe=""), quote(secret), unquote(secret)}:
            if form in text:
                text = text.replace(form, HIDDEN)
    return text


def redact_error(error: E) -> E:
    """Return another library's error without secrets in its messages and notes: it may be the cause of a Morrow error.

    Its own chain of causes is cleaned, too.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        words = tuple(redact_text(word) if isinstance(word, str) else word for word in one.args)
        if words != one.args:
            one.args = words
        notes = getattr(one, "__notes__", None)
        if notes:
            one.__notes__ = [redact_text(note) for note in notes]
        one = one.__cause__ or one.__context__
    return error


class RedactingLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose messages are `clean_text`. Created by `get_logger`."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            text = str(msg) % args if args else str(msg)
            super().log(level, "%s", clean_text(text), **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        return msg, kwargs


def get_logger(name: str) -> RedactingLogger:
    """Return the logger of this name, for messages that contain text from tables."""
    return RedactingLogger(logging.getLogger(name))


def _list_known_secrets() -> Iterable[str]:
    with _lock:
        known = list(_secrets)
    # By name: reading a value takes as long as looking at its name, and few values are requested.
    names = [name for name in os.environ if name.upper().startswith(_ENVIRONMENT) and is_secret(name)]
    environment = [os.environ.get(name, "") for name in names]
    # The longest first: one secret may be part of another.
    return sorted({*known, *filter(_is_findable, environment)}, key=len, reverse=True)


def _is_findable(secret: str) -> bool:
    """Return whether a secret is searched for by itself: it is long enough, and not a word such as "password".

    A test store whose secret is "secret" would otherwise remove that word from every message. Its value is still hidden
    if the name of its option is shown.
    """
    return len(secret) >= MIN_SECRET_LENGTH and re.fullmatch(SECRET_WORDS, secret, re.IGNORECASE) is None


def _escape_match(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _hide_password(found: re.Match[str]) -> str:
    # In Azure URLs, a container without a password also precedes the @.
    hides = ":" in found[2] or found[1].lower().startswith(("http", "ftp"))
    return f"{found[1]}{HIDDEN}@" if hides else found[0]


def _hide_value(found: re.Match[str]) -> str:
    value = found[2]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{found[1]}{mark}{HIDDEN}{mark}"


MONOSPACE = "font-family: monospace; white-space: pre; overflow-x: auto"
"""The style of printed text in notebooks: some show `pre` in a proportional font."""


class PrintedText(str):
    """Text of several lines, which notebooks and IPython show as printed, not quoted."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import html

        return f'<pre style="{MONOSPACE}">{html.escape(self)}</pre>'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(str(self))


def list_public_names(value: object) -> list[str]:
    """Return the attributes that users call, sorted: the result of ``dir`` and completion."""
    return sorted(name for name in object.__dir__(value) if not name.startswith("_"))


def explain_missing_name(kind: str, name: str, elsewhere: Mapping[str, str], known: Iterable[str]) -> str:
    """Return the message of an `AttributeError`: the call of that name in other libraries, or similar names."""
    is_private = name.startswith("_")  # libraries probe for these, and a search for similar names takes time
    hint = f"use {elsewhere[name]}" if name in elsewhere else "" if is_private else suggest_name(name, known).strip()
    return f"{kind!r} object has no attribute {name!r}{'; ' if hint else ''}{hint}"


def format_columns(names: Iterable[str]) -> str:
    """Return ``the columns are a, b, c``; for wide tables, the first columns and the number of the others."""
    known = [*names]
    more = f" and {len(known) - MAX_NAMED_COLUMNS:,} more" if len(known) > MAX_NAMED_COLUMNS else ""
    return f"the columns are {', '.join(known[:MAX_NAMED_COLUMNS])}{more}"


def suggest_name(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return ``did you mean 'x'? `` for the names nearest to a missing name, or empty text.

    Case is ignored.
    """
    from difflib import get_close_matches  # only imported after an error

    folded = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), folded, n=most, cutoff=MIN_SIMILARITY)
    return f"did you mean {' or '.join(repr(folded[other]) for other in near)}? " if near else ""
