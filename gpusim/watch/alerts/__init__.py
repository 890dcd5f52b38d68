"""Alerts: what changed, said once, whose it is, and what became of it."""
