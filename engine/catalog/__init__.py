"""Table lookup: the `Catalog` protocol, and the filesystem catalog."""
