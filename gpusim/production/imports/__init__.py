"""Readers of other tools' traces: each turns a file into events of launches."""
