"""Collectives over links projected: which algorithm a library takes, what it sends, how long that lasts."""
