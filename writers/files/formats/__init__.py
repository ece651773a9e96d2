"""The formats of data files, one `FileWriter` each; see `morrow.writers.files.encoders`."""
