"""Operations on tables, each in one commit: append, upsert, delete, update, merge, overwrite, compact."""
