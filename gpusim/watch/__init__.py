"""Performance over a history: plans and their runs, what changed in a series, when, and to whom it belongs."""
