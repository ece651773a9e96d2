"""Bytes to frozen values and back, pure: types, schema, snapshot, manifests, rows, deletion vectors, indexes."""
