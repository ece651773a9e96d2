"""Buckets: routers of incoming rows, one for each bucket mode, and the state of buckets."""
