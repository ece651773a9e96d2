"""Conformance suites for implementers, to be run by pytest: subclass one, and give it its fixture.

    from morrow.testing import CatalogTests

    class TestMyCatalog(CatalogTests):
        @pytest.fixture
        def catalog(self):
            return MyCatalog(...)

`StoreTests` holds a file store to what `morrow.engine.io.store.FileStore` says, `CatalogTests` a catalog to
`morrow.engine.catalog.protocol.Catalog`. They need pytest, which Morrow itself does not.
"""

from morrow.testing.catalogs import CatalogTests
from morrow.testing.stores import StoreTests

__all__ = ["CatalogTests", "StoreTests"]
