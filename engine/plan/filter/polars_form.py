"""The JSON form of Polars expressions as Python values, at any depth.

``a & b & c & ...`` nests to the left, two levels of JSON per operation, and Python's parser gives up after about a
thousand.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'[\s,:]*([{}\[\]]|"(?:[^"\\]|\\.)*+"|[^\s,:{}\[\]"]++)', re.DOTALL)


def parsed(text: str) -> Any:
    """Parses well-formed JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        return _without_recursion(text)


def _without_recursion(text: str) -> Any:
    done: list[Any] = []
    open_: list[list[Any]] = [done]
    for match in _TOKEN.finditer(text):
        token = match[1]
        if token in "{[":
            open_.append([])
        elif token in "}]":
            items = open_.pop()
            open_[-1].append(items if token == "]" else dict(zip(items[::2], items[1::2], strict=True)))
        else:
            open_[-1].append(json.loads(token))
    return done[0]
