"""Measures the suite's kernels on a real GPU: the very machine code that capture emulates, launched by the driver."""
