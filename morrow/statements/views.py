"""CREATE VIEW and DROP VIEW, parsed and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from morrow.engine.errors import Unsupported
from morrow.statements.statement import Name, Statement, format_name
from morrow.statements.tokens import Words

if TYPE_CHECKING:
    import duckdb

    from morrow.statements.context import Context


@dataclass(frozen=True)
class CreateView(Statement):
    kind: ClassVar[str] = "CREATE VIEW"
    view: Name
    query: str
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropView(Statement):
    kind: ClassVar[str] = "DROP VIEW"
    view: Name
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"drop the view {format_name(self.view)}"


def _parse_create(words: Words) -> Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.path()
    if words.comes("("):
        raise Unsupported("CREATE VIEW with names of columns", hint="name the columns in the query")
    comment = words.string() if words.has("COMMENT") else None
    words.need("AS")
    return CreateView(name, words.rest(), comment, ignores)


def _parse_drop(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return DropView(words.path(), ignores)


VIEW_PARSERS: Sequence[tuple[tuple[str, ...], Callable[[Words], Statement]]] = (
    (("CREATE", "VIEW"), _parse_create),
    (("DROP", "VIEW"), _parse_drop),
)


def create_view(context: Context, statement: CreateView) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.view, statement.kind)
    there = statement.if_not_exists and name.partition(".")[2] in context.catalog.views(name.partition(".")[0])
    context.catalog.create_view(
        name, statement.query, comment=statement.comment, ignore_if_exists=statement.if_not_exists
    )
    return context.did(f"left the view {name}, which exists" if there else f"created the view {name}")


def drop_view(context: Context, statement: DropView) -> duckdb.DuckDBPyRelation:
    name = context.plain_name(statement.view, statement.kind)
    there = name.partition(".")[2] in context.catalog.views(name.partition(".")[0])
    context.catalog.drop_view(name, ignore_if_not_exists=statement.if_exists)
    return context.did(f"dropped the view {name}" if there else f"there was no view {name}")
