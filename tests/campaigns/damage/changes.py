"""Kinds of damage to a file's content. Each has a name, from which `apply` reproduces it:

======================  =================================================
``bit p.b``             bit b of byte p is the other one
``byte p=v``            byte p is v
``cut n``               only the first n bytes are left
``hole p n``            n bytes from p on are zero
``drop p n``            n bytes from p on are gone
``double p n``          n bytes from p on are there twice
``swap p q n``          n bytes from p on and n bytes from q on change places
======================  =================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

TELLING_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF, 0x20, 0x22, 0x30, 0x64)
HOLE = 16
"""Default number of bytes in a hole."""


def apply(what: str, content: bytes) -> bytes:
    """Return `content` with this damage."""
    kind, _, rest = what.partition(" ")
    return _APPLIED[kind](content, [int(number) for number in re.findall(r"\d+", rest)])


def random_change(random: Random, content: bytes, start: int = 0) -> str:
    """Draw a damage of non-empty `content` at or after byte `start`."""
    while True:
        kind = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        what = _RANDOM[kind](random, content, start)
        if apply(what, content) != content:
            return what


def _bit(content: bytes, numbers: list[int]) -> bytes:
    at, bit = numbers
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def _byte(content: bytes, numbers: list[int]) -> bytes:
    at, value = numbers
    return content[:at] + bytes([value]) + content[at + 1 :]


def _hole(content: bytes, numbers: list[int]) -> bytes:
    at, size = (*numbers, HOLE)[:2]
    size = min(size, len(content) - at)
    return content[:at] + bytes(size) + content[at + size :]


def _swap(content: bytes, numbers: list[int]) -> bytes:
    first, second, size = numbers
    one, other = content[first : first + size], content[second : second + size]
    return content[:first] + other + content[first + size : second] + one + content[second + size :]


_APPLIED: dict[str, Callable[[bytes, list[int]], bytes]] = {
    "bit": _bit,
    "byte": _byte,
    "cut": lambda content, numbers: content[: numbers[0]],
    "hole": _hole,
    "drop": lambda content, numbers: content[: numbers[0]] + content[sum(numbers) :],
    "double": lambda content, numbers: content[: sum(numbers)] + content[numbers[0] :],
    "swap": _swap,
}

_WEIGHTS = {"bit": 55, "byte": 15, "hole": 8, "swap": 8, "double": 5, "drop": 5, "cut": 4}


def _random_swap(random: Random, content: bytes, start: int) -> str:
    size = random.randint(1, max(min(64, (len(content) - start) // 2), 1))
    first = random.randint(start, max(len(content) - 2 * size, start))
    second = random.randint(min(first + size, len(content)), max(len(content) - size, first + size))
    return f"swap {first} {second} {size}"


def _random_range(kind: str) -> Callable[[Random, bytes, int], str]:
    def change(random: Random, content: bytes, start: int) -> str:
        at = random.randrange(start, len(content))
        return f"{kind} {at} {random.randint(1, min(64, len(content) - at))}"

    return change


_RANDOM: dict[str, Callable[[Random, bytes, int], str]] = {
    "bit": lambda random, content, start: f"bit {random.randrange(start, len(content))}.{random.randrange(8)}",
    "byte": lambda random, content, start: (
        f"byte {random.randrange(start, len(content))}={random.choice(TELLING_BYTES)}"
    ),
    "cut": lambda random, content, start: f"cut {random.randrange(start, len(content))}",
    "hole": _random_range("hole"),
    "drop": _random_range("drop"),
    "double": _random_range("double"),
    "swap": _random_swap,
}
