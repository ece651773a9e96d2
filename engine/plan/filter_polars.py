from __future__ import annotations
def split_polars(e, c): raise NotImplementedError
