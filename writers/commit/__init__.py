"""Atomic commits: the messages of writers become manifests and a snapshot, or nothing at all."""
