"""Format tables and object tables of a REST server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morrow.engine.catalog.names import table_name
from morrow.engine.catalog.rest.messages import kind_of, texts, told_schema
from morrow.engine.errors import StorageError
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.type_json import field_from_json
from morrow.engine.io.store import FileStore
from morrow.engine.plan.folder_table import FORMAT_TABLE, OBJECT_TABLE, FolderTable


class RestFolders:
    """The methods of a REST catalog for tables that are folders of files."""

    title: Any
    post_table: Callable[[str, TableSchema], None]
    _answer: Callable[[str, str], dict[str, Any]]
    _stored: Callable[[str, str, str], tuple[FileStore, str]]

    def create_folder_table(self, name: str, schema: TableSchema) -> FolderTable:
        """Creates a format table, as the options of its schema say. Raises as `create_table`."""
        self.post_table(name, schema)
        found = self.folder_table(name)
        if found is None:
            raise StorageError(f"{self.title}, {name}: the server made a table of Paimon's own of a format table")
        return found

    def folder_table(self, name: str) -> FolderTable | None:
        """Returns a format table or object table; None for one of Paimon's own. Raises as `table`."""
        database, table = table_name(name)
        answer = self._answer(database, table)
        where = f"{self.title}, {name}"
        schema = told_schema(answer, where)
        kind = kind_of(schema)
        if kind not in (FORMAT_TABLE, OBJECT_TABLE):
            return None
        location = answer.get("path")
        if not isinstance(location, str) or not location:
            raise StorageError(f"{where}: the server does not say where the table lies")
        fields = tuple(field_from_json(each, where=where) for each in schema.get("fields") or ())
        keys, options = tuple(map(str, schema.get("partitionKeys") or ())), texts(schema.get("options"))
        made = TableSchema(0, fields, len(fields), keys, (), options, schema.get("comment"))
        return FolderTable(*self._stored(database, table, location), kind, made, where)
