"""Incoming data: supported inputs become checked Polars frames in the types of the table."""
