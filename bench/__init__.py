"""Morrow measured against plain scans of the same files and against other Paimon readers: `make bench`."""
