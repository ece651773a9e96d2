"""Operations on tables, each in one commit: append, delete, update, merge, overwrite, compact."""
