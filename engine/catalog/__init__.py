"""Where tables live: the filesystem catalog."""
