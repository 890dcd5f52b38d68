"""Hypothesis strategies and pinned suites of kernel shapes; imports neither gpusim nor a GPU."""
