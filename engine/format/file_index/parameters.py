"""Parameters of an index, options ``file-index.<kind>.<column>.<parameter>``: each function reads one parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument

_SIZE = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
}


def read_whole_number(options: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    """Read an integer. Raises `InvalidArgument` outside ``least .. most``."""
    try:
        value = int(options.get(name, str(default)))
    except ValueError:
        raise _make_refusal(options, name, "it must be a whole number") from None
    if not least <= value <= most:
        raise _make_refusal(options, name, f"it must lie between {least} and {most}")
    return value


def read_ratio(options: Mapping[str, str], name: str, default: float) -> float:
    """Read a number between 0 and 1, both excluded. Raises `InvalidArgument`."""
    try:
        value = float(options.get(name, str(default)))
    except ValueError:
        raise _make_refusal(options, name, "it must be a number") from None
    if not 0 < value < 1:
        raise _make_refusal(options, name, "it must lie between 0 and 1")
    return value


def read_size(options: Mapping[str, str], name: str, default: int) -> int:
    """Read a size such as ``16 kb``, in bytes. Raises `InvalidArgument`."""
    if name not in options:
        return default
    match = _SIZE.fullmatch(options[name].strip().lower())
    if match is None or match[2] not in _UNITS:
        raise _make_refusal(options, name, "it must be a size such as 16kb")
    return int(match[1]) * _UNITS[match[2]]


def _make_refusal(options: Mapping[str, str], name: str, problem: str) -> InvalidArgument:
    return InvalidArgument(f"the file index option {name!r} has the value {options[name]!r}; {problem}")
