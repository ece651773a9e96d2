"""Options that all commands of a kind have: the warehouse, the form of a result, the state of a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from morrow.cli.arguments import TRAVEL, Format, NoPager, Vertical, Warehouse

OF_RESULTS = ("form", "output")
"""Parameters that say how a result is written, and where to."""


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of all commands of its kind: ``--warehouse``, and where there is a result (a
    parameter ``form``) ``--vertical`` and ``--no-pager``.
    """
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    has_result = any(each.name == "form" for each in parameters)
    more: list[tuple[str, object, object]] = [("warehouse", Warehouse, None)]
    if has_result:
        more += [("vertical", Vertical, False), ("no_pager", NoPager, False)]

    def run(warehouse: str | None, vertical: bool = False, no_pager: bool = False, **given: Any) -> None:
        from morrow.cli import opening, paging

        paging.forbid(no_pager)
        if warehouse is not None:
            opening.use_warehouse(warehouse)
        if vertical:
            if given["form"] not in (Format.TABLE, Format.VERTICAL):
                raise typer.BadParameter(f"--vertical and --format {given['form'].value}: give one of them")
            given["form"] = Format.VERTICAL
        command(**given)

    parameters += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
        for name, annotation, default in more
    ]
    return _signed(run, command, parameters)


def _signed(
    run: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Returns `run` with the name and help of `command` and these parameters, which typer reads."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions take any attribute
    return run


def travels(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `TRAVEL`; it gets those that are given as its first argument."""

    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in TRAVEL}
        command({name: value for name, value in values.items() if value is not None}, **given)

    _, *own = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, include_extras=True)
    shown = [each.replace(annotation=hints[each.name]) for each in own]
    travel = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)
        for name, annotation in TRAVEL.items()
    ]
    place = next(i for i, each in enumerate(shown) if each.name in OF_RESULTS)  # what is read comes first
    return _signed(run, command, [*shown[:place], *travel, *shown[place:]])
