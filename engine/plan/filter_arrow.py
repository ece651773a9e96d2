from __future__ import annotations
def split_arrow(e, c): raise NotImplementedError
