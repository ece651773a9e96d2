"""Tags: creation by users and by time, changes, and deletion with the files that only they need."""
