"""Atomic commits, which turn the messages of writers into manifests and a snapshot."""
