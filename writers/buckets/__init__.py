"""Which partition and bucket each incoming row belongs to: a router for each mode of buckets."""

from morrow.writers.buckets.modes import BucketMode, bucket_mode, router_for
from morrow.writers.buckets.router import Routed, Router

__all__ = ["BucketMode", "Routed", "Router", "bucket_mode", "router_for"]
