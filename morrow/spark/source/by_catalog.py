"""Tables that another process finds by their catalog: how they travel in the options of a stream.

Spark plans a stream in a process of its own. Where the catalog says what is in a table (a REST server), the folder is
not enough to follow it.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass

from morrow.engine.catalog import opening
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.values import replace


@dataclass(frozen=True)
class ByCatalog:
    """A table of a catalog, which is opened anew by its settings. Secrets travel as loans (`engine/io/secrets.py`)."""

    settings: Settings
    name: str

    @classmethod
    def of(cls, catalog: Catalog, name: str) -> ByCatalog:
        """Raises `Unsupported` for a catalog that another process cannot open, such as one of a caller's own."""
        settings = getattr(catalog, "settings", None)
        if not isinstance(settings, Settings):
            raise Unsupported("a stream of a table whose catalog commits", where=name, hint="read it in batches")
        return cls(replace(settings, raw=settings.raw.lent(), extra=settings.extra.lent()), name)

    def packed(self) -> Mapping[str, str]:
        """Returns the options that say it."""
        return {BY_CATALOG: base64.b64encode(pickle.dumps(self)).decode("ascii")}

    def metadata(self) -> TableMetadata:
        """Opens the table. Raises as `open_catalog` and `Catalog.table`."""
        return opening.open_catalog(self.settings).table(self.name)


BY_CATALOG = "by-catalog"
"""The option, which only Morrow sets."""


def unpacked(text: str) -> ByCatalog:
    """Returns what `packed` has packed, in another process of the session."""
    found = pickle.loads(base64.b64decode(text))
    assert isinstance(found, ByCatalog)
    return found
