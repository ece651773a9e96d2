"""Tags: made by users and by the clock, changed, deleted with what only they need."""
