"""Views of a metastore: Hive's own kind, as Java Paimon makes them. They have one text, whose dialect nobody notes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from morrow.engine.catalog.hive.client import Gone, Metastore, Taken, thrift_types, user
from morrow.engine.catalog.hive.tables import COMMENT, VIRTUAL_VIEW
from morrow.engine.catalog.hive.types import hive_type, paimon_type
from morrow.engine.catalog.names import table_name
from morrow.engine.catalog.views import View
from morrow.engine.errors import AlreadyExists, TableNotFound, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.telling import did_you_mean

HIVE = "hive"
INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe"


class HiveViews:
    """The methods of a Hive catalog for views."""

    metastore: Metastore
    title: Any
    kept_table: Callable[[str, str], Any]
    check_name: Callable[[str, str], None]
    _database: Callable[[str], Any]

    def views(self, database: str) -> list[str]:
        """Returns the names of the views of a database, sorted. Raises `DatabaseNotFound`."""
        self._database(database)
        return sorted(self.metastore.call("get_tables_by_type", database, "*", VIRTUAL_VIEW))

    def view(self, name: str) -> View:
        """Returns a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        found = self._known_view(name)
        numbers = itertools.count()
        fields = tuple(
            DataField(next(numbers), each.name, paimon_type(each.type, lambda: next(numbers)), each.comment)
            for each in (*found.sd.cols, *(found.partitionKeys or ()))
        )
        text = found.viewExpandedText or found.viewOriginalText or ""
        options = dict(found.parameters or {})
        comment = options.pop(COMMENT, None)
        # Backticks are how Hive and Spark quote names.
        return View(text, fields, {HIVE: text} if "`" in text else {}, comment, options)

    def create_view(self, name: str, view: View) -> None:
        """Creates a view. Raises `DatabaseNotFound`, `AlreadyExists`, `Unsupported`: texts for several engines."""
        database, own = table_name(name)
        self.check_name("view", own)
        self._database(database)
        if view.dialects:
            raise Unsupported("texts of a view by dialect", where=self.title, hint="a metastore keeps one text")
        if self.kept_table(database, own) is not None:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
        try:
            self.metastore.call("create_table", _new_view(database, own, view))
        except Taken:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already") from None

    def drop_view(self, name: str) -> None:
        """Drops a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        found = self._known_view(name)
        try:
            self.metastore.call("drop_table", found.dbName, found.tableName, False)
        except Gone:
            raise self._without_view(*table_name(name)) from None

    def _known_view(self, name: str) -> Any:
        database, view = table_name(name)
        found = self.kept_table(database, view)
        if found is None or found.tableType != VIRTUAL_VIEW:
            raise self._without_view(database, view)
        return found

    def _without_view(self, database: str, view: str) -> TableNotFound:
        views = self.views(database)
        known, hint = ", ".join(views) or "none", did_you_mean(view, views)
        return TableNotFound(
            f"{self.title}: there is no view '{database}.{view}'; {hint}the views of {database} are: {known}"
        )


def _new_view(database: str, name: str, view: View) -> Any:
    types = thrift_types()
    columns = [types.FieldSchema(each.name, hive_type(each.type), each.description) for each in view.fields]
    serde = types.SerDeInfo(serializationLib=SERDE, parameters={"serialization.format": "1"})
    descriptor = types.StorageDescriptor(
        cols=columns,
        inputFormat=INPUT_FORMAT,
        outputFormat=OUTPUT_FORMAT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return types.Table(
        tableName=name,
        dbName=database,
        owner=user(),
        sd=descriptor,
        partitionKeys=[],
        parameters={**view.options, **({COMMENT: view.comment} if view.comment is not None else {})},
        viewOriginalText=view.query,
        viewExpandedText=view.query,
        tableType=VIRTUAL_VIEW,
    )
