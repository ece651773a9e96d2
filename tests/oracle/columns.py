"""The aggregate function of each column according to the table's options."""

from __future__ import annotations

from tests.oracle.functions import Aggregator, Call, aggregator
from tests.oracle.records import NullError, Row, Rules


def function_of(name: str, rules: Rules) -> str | None:
    """Return the function that the options name for a column outside the primary key."""
    default = rules.options.get("fields.default-aggregate-function")
    return rules.options.get(f"fields.{name}.aggregate-function", default)


def aggregator_of(function: str, name: str, rules: Rules) -> Aggregator:
    kind = next(f.type for f in rules.fields if f.name == name)
    prefix = f"fields.{name}."
    options = {k.removeprefix(prefix): v for k, v in rules.options.items() if k.startswith(prefix)}
    return aggregator(Call(function, kind, options))


def restarted(row: Row, rules: Rules) -> list[object]:
    """Return a row that begins with the values of a retraction, in which NOT NULL columns must have values."""
    for field, value in zip(rules.fields, row, strict=True):
        if value is None and not field.type.nullable:
            raise NullError(field.name)
    return list(row)
