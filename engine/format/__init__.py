"""Pure codecs between bytes and frozen values: types, schema, snapshot, manifests, rows, deletion vectors, indexes."""
