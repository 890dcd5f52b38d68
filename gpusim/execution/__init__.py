"""Execution traces of many GPUs: read, written, replayed on described links."""
