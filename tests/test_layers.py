"""Modules and groups of modules import each other in one direction only, including imports in functions."""

from __future__ import annotations

import pytest

from tests.support.rooms import HOUSES, imports, modules, rooms, tangles


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return imports(modules())


def test_no_module_leads_back_to_itself(graph: dict[str, set[str]]) -> None:
    assert len(graph) > 300
    assert sum(map(len, graph.values())) > len(graph)
    assert tangles(graph) == []


@pytest.mark.parametrize("house", HOUSES)
def test_no_room_leads_back_to_itself(graph: dict[str, set[str]], house: str) -> None:
    found = rooms(graph, house)

    assert len(found) > 5
    assert tangles(found) == []


def test_tangles_are_the_groups_that_lead_back_to_themselves() -> None:
    assert tangles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]
