"""Data files: Parquet, ORC and Avro as Java Paimon writes them, with statistics and indexes."""
