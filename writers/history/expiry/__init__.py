"""Expiry of snapshots, changelogs, partitions and consumers."""
