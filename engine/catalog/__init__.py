"""Table lookup: the filesystem catalog."""
