"""Scans by Spark of the files in a plan: Java code of its own, compiled by the first read."""
