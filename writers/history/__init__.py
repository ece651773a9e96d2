"""History: tags, branches, rollback, expiry and cleaning of what was committed."""
