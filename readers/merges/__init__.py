"""Merges that combine versions of a key: partial-update and aggregation.

Only keys with more than one version are merged. Their rows are lined up by key and age (`versions`), laid out in rounds
(`rounds`), and folded by one expression per column and round (`fold`, with the steps of `partial_update` and
`aggregation`). `sections` reads what a section of a plan needs for it, in bounded memory.
"""
