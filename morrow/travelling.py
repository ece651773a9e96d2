"""Arguments of time travel in the signatures of the functions that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from morrow.engine.plan.time_travel import TravelArguments

F = TypeVar("F", bound=Callable[..., Any])


def travels(function: F) -> F:
    """Shows each of `TravelArguments` in the signature of a function that takes them as ``**at``.

    Type checkers read ``**at: Unpack[TravelArguments]``; ``help()``, notebooks and documentation tools read the
    signature.
    """
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    travel = [
        # The annotations of a TypedDict are wrapped; those of functions are text here.
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in TravelArguments.__annotations__.items()
        if name not in signature.parameters
    ]
    shown = signature.replace(parameters=[*own, *travel])
    function.__signature__ = shown  # type: ignore[attr-defined]  # functions take any attribute
    return function
