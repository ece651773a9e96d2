"""The formats of data files, one `FileReader` each; see `morrow.readers.files.registry`."""
