"""States that are given up: later snapshots and tags gone at once, the files that only they need after them."""
