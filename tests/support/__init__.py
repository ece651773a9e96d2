"""Helpers that several tests share: golden tables, canonical values, and a writer of Paimon tables in plain Python."""
