"""Searches for the fastest configuration of a kernel on a described GPU: ``gpusim.tune`` and ``gpusim tune``."""
