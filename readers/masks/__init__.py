"""Position masks: the live rows of each data file.

A deletion vector says which positions are dead. In a merge-on-read section the superseded versions of a key are dead
positions too, but are not stored: they are computed from the key columns. Either way the read is the same masked scan.
"""

from __future__ import annotations

from morrow.readers.masks.live_rows import Mask, compute_live_masks, concat_masks

__all__ = ["Mask", "compute_live_masks", "concat_masks"]
