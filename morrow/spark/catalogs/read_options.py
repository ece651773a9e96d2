"""Options of a read by name, which choose another state of the table."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import Unsupported
from morrow.engine.plan.time_travel import TravelArguments
from morrow.spark.source.instants import Clock, with_zone
from morrow.spark.source.option_names import ALIASES
from morrow.spark.source.options import Options

TRAVELS = ("as-of", "snapshot", "tag", "timestamp", "watermark", "version")


def travel(
    given: Mapping[str, str], what: str = "the option {!r} of a read by name", *, clock: Clock = with_zone
) -> TravelArguments:
    """Returns the state that the options name, of which errors speak as `what`; `clock` reads Spark's own moments.

    Raises:
        Unsupported: an option that names none. InvalidArgument: a value that is none of the option's.
    """
    other = next((key for key in given if ALIASES.get(key.lower(), key.lower()) not in TRAVELS), None)
    if other is not None:
        raise Unsupported(what.format(other), hint="set options of a table by ALTER TABLE")
    return Options(given, clock).read().travel
