"""The tests of Morrow; they mirror its source."""
