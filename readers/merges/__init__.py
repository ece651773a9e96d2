"""Merges that combine versions of a key: partial-update and aggregation.

Only keys with more than one version are merged. Their rows are ordered by key and age (`versions`), arranged in rounds
(`rounds`), and folded by one expression per column and round (`fold`, with the steps of `partial_update` and
`aggregation`). `sections` reads the inputs for a section of a plan, in bounded memory.
"""
