"""Tests of incoming data."""
