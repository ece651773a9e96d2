"""What becomes of states and files once they are committed: tags, branches, rollback, expiry, cleaning."""
