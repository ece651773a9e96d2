"""Routers of incoming rows to partitions and buckets, one for each bucket mode."""

from morrow.writers.buckets.modes import BucketMode, bucket_mode, router_for
from morrow.writers.buckets.router import Routed, Router

__all__ = ["BucketMode", "Routed", "Router", "bucket_mode", "router_for"]
