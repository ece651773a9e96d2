"""File stores: local and object stores behind one small protocol."""
