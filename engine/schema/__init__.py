"""Creation and change of schemas: columns from Arrow or SQL, the rules of creation, and changes as values."""
