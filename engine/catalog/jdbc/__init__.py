"""The JDBC catalog: names in the tables of a database, as Java Paimon keeps them; files in a warehouse."""
