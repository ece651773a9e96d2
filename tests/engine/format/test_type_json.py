"""Types in schema files, also as other writers spell them."""

from __future__ import annotations

from typing import Any

import pytest

from morrow.engine.format.type_json import from_json, to_json


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "MAP<STRING NOT NULL, INT>", "key": "STRING NOT NULL", "value": "INT"}, "MAP"),
        ({"type": "MAP<STRING NOT NULL, INT> NOT NULL", "key": "STRING NOT NULL", "value": "INT"}, "MAP NOT NULL"),
        ({"type": "MULTISET<INT NOT NULL>", "element": "INT NOT NULL"}, "MULTISET"),
        ({"type": "MULTISET<INT> NOT NULL", "element": "INT"}, "MULTISET NOT NULL"),
        ({"type": "ARRAY<INT NOT NULL>", "element": "INT NOT NULL", "nullable": True}, "ARRAY"),
        ({"type": "VECTOR<FLOAT, 2>", "element": "FLOAT", "length": 2}, "VECTOR"),
    ],
)
def test_a_type_may_repeat_its_members(node: dict[str, Any], expected: str) -> None:
    read = from_json(node)
    assert to_json(read) == {**{k: v for k, v in node.items() if k != "nullable"}, "type": expected}
